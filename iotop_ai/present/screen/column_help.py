"""The meaning of the columns and words of each screen, for the help and for ``iotop-ai help columns``."""

from __future__ import annotations

Entries = tuple[tuple[str, str], ...]
"""Entries of (titles separated by blanks, their meaning)."""

VERDICT: Entries = (
    ("time", "what the job did in the verdict's last 10 s; data: what its loaders waited for"),
    ("c l t d n u o h k s m p g ?", "narrow parts of the time bar: a letter of the word, as k in checkpoint"),
    ("psi", "pressure: time in which some task stalled for lack of io, cpu or mem"),
    ("0 - ?", "zero, nothing to measure, unknown"),
)
DISKS: Entries = (
    ("r/s w/s d/s f/s", "reads, writes, discards, flushes completed per second"),
    ("rMB/s wMB/s dMB/s", "1 MB = 1,048,576 B, as iostat -m; B: 1,000,000 B"),
    ("rrqm/s wrqm/s", "requests merged into another before the disk, per second"),
    ("%rrqm %wrqm %drqm", "share of requests that were merged"),
    ("rsize wsize dsize", "mean request size (rareq-sz ...); avgrq-sz: of reads and writes, in sectors"),
    ("r_await w_await d_await f_await", "ms per request, time in the queue included"),
    ("x norm", "r_await as a multiple of what is normal for this disk, or for its kind"),
    ("in-fl", "requests in flight now"),
    ("aqu-sz", "mean number in flight, formerly avgqu-sz"),
    ("%util", "time with a request in flight; 100 proves nothing on NVMe and RAID"),
    ("svctm", "removed: it was %util over r/s + w/s, never a service time"),
    ("job%", "the job's part of its bytes"),
    ("used%", "of its fullest filesystem, as df"),
    ("temp", "degrees Celsius"),
    ("health", "SMART: the disk's own report"),
)
GPUS: Entries = (
    ("job rank", "the batch job, else the script; the rank in it"),
    ("user process", "the process with the most GPU memory"),
    ("busy%", "time with any kernel running"),
    ("SM%", "share of its multiprocessors that had work"),
    ("bw%", "time in which GPU memory was read or written"),
    ("mem G", "used / whole GPU memory, GiB"),
    ("temp C", "degrees Celsius"),
    ("power W", "drawn / limit"),
    ("MHz", "clock of the multiprocessors"),
    ("fan%", "of its highest speed"),
    ("link", "PCIe generation x lanes now"),
    ("throttle", "why its clocks are lowered"),
    ("meaning", "the figures in a sentence"),
    ("last 60 s", "busy%"),
    ("98-100 ≥98 ≤88", "of several GPUs in a row: the range, or only its lower or upper end"),
)
PROCESSES: Entries = (
    ("xN", "N of one name, script, user and job; bytes are summed, a filter tests each process"),
    ("read/s write/s", "bytes of storage; write: dirtied, written later"),
    ("cancel/s", "dirtied bytes that were dropped before they were written"),
    ("rchar/s wchar/s", "bytes of read and write calls, cache included"),
    ("majflt/s", "page faults that needed a disk"),
    ("IO-wait%", "blocked on disk, the worst of xN"),
    ("cpu%", "100 is one core, the most of xN"),
    ("state", "D waits for I/O, R runs, S sleeps; (4 s): state and cpu% are 4 s old"),
    ("disk", "of a job's files; else the only disk with reads if it reads, with writes if it writes; ? unknown"),
    ("thr mem", "threads, resident memory"),
    ("wait channel", "kernel function in which the main thread sleeps"),
    ("user pid command", "of the busiest process of xN, else of the first"),
)
NETWORK: Entries = (
    ("speed", "of the interface or InfiniBand port, in bits per second"),
    ("rx tx MB/s", "received, sent"),
    ("busy%", "the larger of rx and tx, as a share of the speed"),
    ("errors drops", "per second"),
)
MARKS: Entries = (
    (
        "> !",
        "> before a process or GPU: the verdict names it; before a disk: the graphs show it; ! before a disk: the"
        " verdict names it, the graphs show another",
    ),
    ("colour", "of a name and its figure: the verdict names it; the colour is that of the state"),
    ("* +", "before a process: tagged; +: only some of xN"),
)
TIME_LINE: Entries = (
    (
        "timeline",
        "━ a bad state, ─ a good one, ╌ unsure; ' a mark, ! an alert, × a fault or end; inverse: now shown",
    ),
)
MAIN: Entries = (*VERDICT, *DISKS, *GPUS, *PROCESSES, *NETWORK, *MARKS, *TIME_LINE)

COLUMN_HELP: dict[str, Entries] = {
    "main": MAIN,
    "device": (
        ("used% inodes%", "used space and inodes, as df"),
        ("free of", "space for ordinary users, size of the filesystem"),
        ("type from", "filesystem and its source"),
        (
            "latency p50 p90 p99",
            "ms that 50, 90, 99 % of the requests stay within; of interval means: each counts as its interval's mean"
            " await, as the kernel does not time single requests",
        ),
        *DISKS,
    ),
    "gpu": (
        ("mem", "GPU memory of the process"),
        ("SM%", "its share of the multiprocessors' time, where the driver says"),
        ("kind", "compute or graphics"),
        ("job", "Slurm job, pod or container; without one the training job's script"),
        ("user command", "of the process"),
    ),
    "health": (
        ("model serial", "as the disk reports itself"),
        ("temp C", "degrees Celsius"),
        ("wear %", "of its rated writes; 100 and more is possible"),
        ("spare %", "NVMe spare blocks left"),
        ("hours", "powered on"),
        ("realloc", "sectors replaced by spare ones"),
        ("pending", "sectors that cannot be read now"),
        ("CRC", "errors between disk and controller: the cable"),
        ("media", "NVMe media and data integrity errors"),
        ("verdict", "failing, warning, ok or unknown, and the reason"),
        ("id attribute", "SMART attribute"),
        ("value worst limit", "normalised: 100 or 200 is new, at the limit it fails"),
        ("raw grown", "the vendor's count, and its growth since the earlier reading"),
    ),
    "jobs": (
        ("rk wrk gpu", "ranks, loader workers, GPUs"),
        ("wait%", "share of its time without data"),
        ("AU%", "accelerator utilisation, as in MLPerf Storage: share of its time in which it computes"),
        ("GPU%", "mean busy%"),
        ("MB/s", "read by its processes"),
        ("run queue D idle", "its workers' time: on a CPU, waiting for one, blocked on disk, without work"),
        ("GPU-h lost", "so far, by waiting"),
        ("user disk", "owner; disk or mount that it reads from"),
    ),
    "process": (
        ("name", "of a thread; xN: N equal threads"),
        ("state", "D waits for I/O, R runs, S sleeps, T stopped, Z zombie; of a socket: TCP's"),
        ("cpu%", "100 is one core, the most of xN"),
        ("waits for", "disk, network, lock, queue, timer: the system call, its file (the kernel function)"),
        ("offset", "position of the next read or write"),
        ("mount disk", "the mount and disk that hold the file"),
        ("local peer", "addresses of a socket"),
        ("code", "p: the lines of Python that py-spy saw in 100 samples over 5 s"),
    ),
    "fleet": (
        ("state", "of its verdict; ? without iotop-ai there, or while no readings arrive"),
        ("GPU-h", "GPU-hours its jobs lost in the window for a known reason"),
        ("lost%", "share of its jobs' time, weighted by GPUs"),
        ("time", "where the jobs' time went: computing, lost, unexplained"),
        ("cause", "of its verdict"),
        ("GPUs GPU%", "number, mean use"),
        ("disk await %util", "the busiest disk, ms of its requests, time with one in flight"),
        ("health", "the worst disk by SMART"),
        ("alerts", "the firing alerts of Prometheus"),
        ("from", "i iotop-ai, n node_exporter, d dcgm-exporter, s smartctl_exporter"),
    ),
    "fleet_jobs": (
        ("mach GPUs ranks", "numbers of machines, GPUs, training processes"),
        ("GPU-h", "lost in the window"),
        ("wait%", "of its time in collectives, waiting for another rank"),
        ("straggler", "the machine for which the others wait"),
        ("script time", "its program; where its time went"),
    ),
    "reasoning": (
        ("measured threshold", "the mean over the verdict's window of 10 s or more; the limit from which it counts"),
        ("●", "this figure has reached its limit"),
        ("○", "it has not; under considered: a cause that some figures point to"),
        ("×", "a cause that the figures rule out"),
        ("?", "not known, or not seen"),
        ("metric", "its id in JSON and in docs/metrics.md"),
    ),
}
"""The entries of each screen, by its name in present/screen/actions.py."""

STATE_HELP: dict[str, Entries] = {
    "main": (
        ("PAUSED", "the screen is not drawn while readings go on; in a replay, the recording does not play"),
        ("REPLAY", "a recording is shown; 2x: at twice its speed"),
        ("BACK", "an earlier moment of this session is shown; End goes back to now"),
        ("REMOTE", "another machine is shown; ended: it sends no more readings"),
        ("REC", "a recording is being written; stopped: it cannot be written"),
        ("ALERT", "this alert rule fires; +1: another one fires too"),
        ("FAILING", "in the disks' health: SMART, the disk's own report, says that data is in danger"),
        ("FAULT", "in the GPUs' throttle: the driver reports a fault; the GPU screen says which"),
    ),
    "device": (
        ("OK", "it serves requests, and no other word applies"),
        ("IDLE", "it serves no requests now"),
        ("SLOW", "its reads take far longer than is normal for it, or the verdict names it as the cause"),
        ("HUNG", "it has completed none of its requests for as long as is shown, at least 10 s"),
        ("DEGRADED", "an array that lacks a disk"),
        ("FAILING", "SMART, its own report: data is in danger"),
        ("WARM", "SMART: it is too warm, or slows itself down for that reason"),
        ("WORN", "SMART: near or past its rated writes, or short of spare blocks"),
        ("WARN", "SMART: another warning"),
        ("UNSURE", "its requests are not known, or not yet"),
    ),
    "gpu": (
        ("OK", "it computes, and nothing holds it up"),
        ("PARTLY", "it is busy for a part of the time, or its job loses time"),
        ("IDLE", "it has nothing to do now"),
        ("FREE", "no process uses it, while jobs use other GPUs"),
        ("WAITS", "it is idle in many samples, or spins: it waits for work or for another rank"),
        ("WASTED", "a process holds its memory without using it, or its kernels are too small"),
        ("SLOWED", "its clocks are lowered, or its PCIe link is narrow, slow, faulty or full"),
        ("WARN", "something is wrong, but it works; the sentence below says what"),
        ("FAULT", "its hardware or driver reports a fault; the sentence below says which"),
        ("LOST", "it no longer answers"),
        ("MIG", "it is divided into instances, and has no utilisation as a whole"),
        ("UNSURE", "it is busy or not read, and whether it does useful work is not known"),
    ),
    "health": (
        ("OK", "the disks that report their health are healthy"),
        ("WARN", "a disk is warm, worn or has another warning"),
        ("FAILING", "a disk says that data is in danger, or an array is degraded, or a disk hangs"),
        ("UNSURE", "a disk could not be asked"),
        ("NONE", "no disk reports its health, or the disk is gone"),
    ),
    "process": (
        ("RUNS", "R: it runs, or waits for a CPU"),
        ("SLEEPS", "S or I: it waits, but not for a disk: for data of a pipe or socket, a lock, a timer"),
        ("BLOCKED", "D: it waits for I/O and cannot be interrupted"),
        ("STOPPED", "T: a signal has stopped it; the signal CONT lets it go on"),
        ("TRACED", "t: a debugger has stopped it"),
        ("ZOMBIE", "Z: it has ended, and its parent has not asked for its exit code"),
        ("ENDED", "the process has ended"),
        ("FUTURE", "at the moment shown, the process has not started yet"),
        ("UNSURE", "its state could not be read"),
    ),
    "fleet": (
        ("FAILING", "in the health: a disk says that data is in danger"),
        ("WARNING", "in the health: a disk is warm, worn or has another warning"),
        ("PAUSED", "the machines are not asked again until Space resumes"),
    ),
}
"""The meanings of the words in capitals that a screen prints besides the states of the verdict, by the screen's name
in present/screen/actions.py.
"""
