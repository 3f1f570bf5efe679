"""The verdict about a job in words.

As in present/verdict/headline.py, clauses are separated by Spans that hold only the separator.
"""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.model.verdict_class import RIVALS
from iotop_ai.present.text import units
from iotop_ai.present.text.line import Span
from iotop_ai.present.text.phrases import COMMA, SEMI, Spans
from iotop_ai.present.text.phrases import bad as _bad
from iotop_ai.present.text.phrases import plain as _plain
from iotop_ai.present.text.phrases import strong as _strong
from iotop_ai.present.verdict.advice import (
    Args,
    amount,
    idle_cores,
    latency,
    limit_text,
    number,
    percent,
    rate,
    whole,
    word,
)


def is_about_job(a: Args) -> bool:
    """Whether the finding names a job."""
    return bool(word(a, "job"))


def gpus_wait(a: Args) -> tuple[str, str]:
    """The GPUs that wait, and the verb: ("8 of 8 GPUs", "wait"), ("1 of 8 GPUs", "waits"), ("the GPU", "waits")."""
    waiting, total = number(a, "gpus") or 0.0, number(a, "gpus_all") or 0.0
    gpus = "the GPU" if total == 1 else f"{waiting:.0f} of {total:.0f} GPUs"
    return gpus, "waits" if 1 in (waiting, total) else "wait"


_PARTS = {"data_disk": "the disk", "data_network": "the network", "data_cpu": "CPU", "data_other": "other waits"}


def waits_for_data(a: Args) -> Spans:
    """The loss as a headline: "8 of 8 GPUs wait for data 78 % of the time", "train.py waits ..." without GPUs,
    "rank 5 waits for data 19 % of the time, the other 7 ranks for it".

    A program that prepares a dataset does not wait for data: "prep.py prepares data, its slowest part is CPU 97 %".
    """
    if part := word(a, "slowest_part"):
        begin = [_strong(word(a, "job") or "the job"), _plain(" prepares data"), COMMA, _plain("its slowest part is ")]
        return [*begin, _strong(f"{_PARTS.get(part, part)} {percent(a, 'slowest_ratio')}"), _plain(" of the time")]
    if word(a, "late"):
        several, alone = number(a, "late_count") != 1, number(a, "others_count") == 1
        begin = [_strong(word(a, "late")), _plain(f" wait{'' if several else 's'} for data ")]
        others = "the other rank" if alone else f"the other {whole(a, 'others_count')} ranks"
        begin += [_strong(percent(a, "late_wait")), _plain(" of the time"), COMMA]
        here = " here" if number(a, "elsewhere") else ""
        return [*begin, _plain(f"{others}{here} for {'them' if several else 'it'}")]
    if number(a, "gpus"):
        gpus, wait = gpus_wait(a)
        return [_strong(gpus), _plain(f" {wait} for data "), _strong(percent(a, "lost")), _plain(" of the time")]
    job = word(a, "job") or "training"
    return [_strong(job), _plain(" waits for data "), _strong(percent(a, "lost")), _plain(" of the time")]


def _healthy(a: Args) -> Spans:
    if number(a, "gpus"):
        return [_plain("GPUs are fed"), SEMI, _strong(f"{percent(a, 'gpu_busy')} busy"), COMMA, *_ready(a)]
    return [_strong(word(a, "job")), _plain(" finds its "), *_ready(a)]


def _ready(a: Args) -> Spans:
    stall = number(a, "stall")
    figure = units.percent(None if stall is None else 1 - stall)
    return [_plain("data ready "), _strong(f"{figure} %"), _plain(" of the time")]


def _starting(a: Args) -> Spans:
    out = [_strong(word(a, "job") or "the job"), _plain(" is starting")]
    if word(a, "compiler"):
        out += [COMMA, _plain("it compiles")]
    return out


def _compiling(a: Args) -> Spans:
    share = _strong(percent(a, "compile"))
    return [_strong(word(a, "job") or "the job"), _plain(" compiles its kernels "), share, _plain(" of the time")]


def _hung(a: Args) -> Spans:
    state = " is stopped" if number(a, "stopped") else " makes no progress"
    return [_strong(word(a, "job") or "the job"), _bad(state)]


def _host(a: Args) -> Spans:
    (gpus, wait), job = gpus_wait(a), word(a, "job") or "the trainer"
    share = _strong(f"{job}'s main thread {percent(a, 'lost')}")
    return [_strong(gpus), _plain(f" {wait} for "), share, _plain(" of the time")]


def _saving(a: Args) -> Spans:
    job = _strong(word(a, "job") or "the trainer")
    return [job, _plain(" waits for its checkpoint "), _strong(percent(a, "lost")), _plain(" of the time")]


def _memory(a: Args) -> Spans:
    return [_plain("programs wait for memory "), _strong(percent(a, "pressure")), _plain(" of the time")]


def _shm(a: Args) -> Spans:
    return [_bad("/dev/shm"), _plain(f" of {word(a, 'job')} is "), _strong(f"{percent(a, 'used')} full")]


def _full(a: Args) -> Spans:
    state = "out of inodes" if number(a, "inodes") is not None else "full"
    return [_bad(word(a, "mount")), _plain(" is "), _strong(state)]


def _died(a: Args) -> Spans:
    job = word(a, "job") or "the job"
    if word(a, "worker"):
        return [_strong(f"a worker of {job}"), _plain(" died: "), _bad(word(a, "end"))]
    return [_strong(job), _plain(" died: " if word(a, "end") != "SIGTERM" else " was stopped: "), _bad(word(a, "end"))]


def _serving(a: Args) -> Spans:
    return [_strong(word(a, "job") or "a server"), _plain(" waits for requests")]


HEADLINES: dict[str, Callable[[Args], Spans]] = {
    **dict.fromkeys(RIVALS, waits_for_data),
    "healthy": _healthy,
    "starting": _starting,
    "compiling": _compiling,
    "hung": _hung,
    "host_bound": _host,
    "job_died": _died,
    "serving": _serving,
    "checkpoint_write": _saving,
    "mem_pressure": _memory,
    "shm_full": _shm,
    "fs_full": _full,
}
"""By class, the function that makes the verdict's sentence."""


_SAME_BLOCKED, _SAME_CPU = 0.5, 0.8
"""If the main threads of the workers are blocked, or compute, for less than this part of what the wait for data shows,
other threads of the workers do the work."""


def _in_other_threads(a: Args, share: str, of_main_threads: float, same: float) -> bool:
    """Whether other threads of the workers than their main threads do the work. share: its share of the wait."""
    of_wait, stall = number(a, share), number(a, "stall")
    return of_wait is not None and stall is not None and of_main_threads < same * of_wait * stall


def _blocked(a: Args) -> Spans:
    """The share of time in which the workers are blocked: "2 workers blocked 97 %"; without workers, the share of the
    loader threads or of the trainer. For threads it is a share of the wait.
    """
    if number(a, "threads"):
        return [_strong("its loader threads blocked"), _plain(f" {percent(a, 'disk_share')} of the wait")]
    if not number(a, "workers"):
        return [_strong(word(a, "job") or "the trainer"), _plain(f" itself blocked {percent(a, 'blocked')}")]
    if _in_other_threads(a, "disk_share", number(a, "blocked") or 0.0, _SAME_BLOCKED):
        who = f"threads or children of {_workers(a)} blocked"
        return [_strong(who), _plain(f" {percent(a, 'disk_share')} of the wait")]
    return [_strong(f"{_workers(a)} blocked"), _plain(f" {percent(a, 'blocked')}")]


def _workers(a: Args) -> str:
    """The workers that the figures are about: "8 workers", and of late ranks "its worker" or "their 8 workers". If the
    late ranks have none, they are "the others' 8 workers".
    """
    one = number(a, "workers") == 1
    count = f"{whole(a, 'workers')} worker{'s' * (not one)}"
    if not word(a, "late"):
        return count
    if not number(a, "own_workers"):
        return f"the others' {count}"
    own = "its" if number(a, "late_count") == 1 else "their"
    return f"{own} worker" if one else f"{own} {count}"


def _await(a: Args) -> Spans:
    return [_plain("r_await "), *latency(a)]


def _disk_text(a: Args) -> str:
    """The disk that the finding names: "sda", or "sda +3" if the job's filesystem is on three other disks too."""
    others = int(number(a, "disks") or 1) - 1
    return f"{word(a, 'device')} +{others}" if others else word(a, "device")


def _because_storage(a: Args) -> Spans:
    if not word(a, "device"):
        return [*_blocked(a), SEMI, _plain("the device of its files is unknown")]
    out = [_plain("disk "), _bad(_disk_text(a)), _plain(" "), _strong(rate(number(a, "read_bytes_per_s")))]
    cap = [_plain(" steadily: the volume's limit")] if number(a, "capped") else []
    return [*out, *cap, COMMA, *_await(a), SEMI, *_blocked(a)]


def _because_small(a: Args) -> Spans:
    reads = [_plain("disk "), _bad(_disk_text(a)), _plain(" reads of "), _strong(amount(a, "read_size_bytes"))]
    return [*reads, COMMA, _strong(rate(number(a, "read_bytes_per_s"))), COMMA, *_await(a), SEMI, *_blocked(a)]


def _because_network(a: Args) -> Spans:
    where = [_bad(word(a, "mount")), _plain(f" ({word(a, 'fstype')}) gives "), _strong(rate(number(a, "rchar")))]
    return [*where, SEMI, *_blocked(a), COMMA, _plain("no local disk delivers it")]


def _because_limit(a: Args) -> Spans:
    if word(a, "file"):
        out = [_plain("limit "), _bad(limit_text(a)), _plain(f" in {word(a, 'file')}")]
        return [*out, COMMA, _plain("it reads "), _strong(rate(number(a, "rate"))), SEMI, *_blocked(a)]
    # No limit was read, so the limit is inferred: tasks are blocked, but few of their requests are in the disk's queue.
    queue = units.figure(number(a, "queue")) if number(a, "queue") is not None else "0"
    tasks = units.figure(number(a, "blocked_tasks"))
    out = [_strong(f"{tasks} tasks"), _plain(" are blocked, but ")]
    if not word(a, "device"):
        return [*out, _plain("none of their requests is seen in a disk's queue")]
    return [*out, _bad(_disk_text(a)), _plain(" has "), _strong(queue), _plain(" requests queued")]


def _because_thrash(a: Args) -> Spans:
    out = [_strong(percent(a, "refault")), _plain(" of what it reads was just evicted from the page cache")]
    if number(a, "memory_limit") is not None:
        out += [COMMA, _plain("it can use "), _strong(amount(a, "memory_limit"))]
    return [*out, SEMI, *_blocked(a)]


def _because_serial(a: Args) -> Spans:
    tasks = units.figure(number(a, "blocked_tasks"))
    out = [_plain(f"{_disk_text(a)} is not slow enough to blame: "), *_await(a)]
    return [*out, SEMI, _strong(f"{tasks} reads at once"), _plain(" are too few")]


def _because_cpu(a: Args) -> Spans:
    if number(a, "threads"):
        return _threads_compute(a, "its loader threads")
    if not number(a, "workers"):
        out = [_bad(word(a, "job")), _plain(" loads its data itself: it runs "), _strong(percent(a, "cpu"))]
        out += [COMMA, _plain(f"blocked {percent(a, 'blocked')}"), *_idle_cores(a)]
        little = number(a, "little_read")
        return out if little is None else [*out, SEMI, _plain(f"it reads {rate(little)}: it may be Python instead")]
    workers, wait = _workers(a), number(a, "cpu_wait")
    if _in_other_threads(a, "run_share", (number(a, "cpu") or 0.0) + (wait or 0.0), _SAME_CPU):
        return _threads_compute(a, f"threads or children of {workers}")
    out = [_bad(workers), _plain(f" compute{'s' if number(a, 'workers') == 1 else ''} at ")]
    out.append(_strong(f"{percent(a, 'cpu')} CPU"))
    if wait is not None and wait >= 0.1:
        out += [COMMA, _strong(percent(a, "cpu_wait")), _plain(" wait for a core")]
    return [*out, *_idle_cores(a), *_quota(a), SEMI, _plain(f"blocked by disks {percent(a, 'blocked')}")]


def _threads_compute(a: Args, who: str) -> Spans:
    out = [_bad(who), _plain(" compute "), _strong(percent(a, "run_share")), _plain(" of the wait")]
    return [*out, *_idle_cores(a), *_quota(a), SEMI, _plain(f"blocked by disks {percent(a, 'disk_share')}")]


def _quota(a: Args) -> Spans:
    quota = number(a, "quota")
    return [] if quota is None else [COMMA, _plain(f"CPU quota {units.figure(quota)} cores")]


def _idle_cores(a: Args) -> Spans:
    return [] if number(a, "idle_cores") is None else [COMMA, _plain(idle_cores(a))]


def _because_stream(a: Args) -> Spans:
    count = number(a, "workers")
    clients = _workers(a) if count else "its clients"
    out = [
        _bad(clients),
        _plain(" waits in sockets " if count == 1 else " wait in sockets "),
        _strong(percent(a, "net")),
    ]
    if number(a, "received") is not None:
        peer = f" received from {word(a, 'peer')}" if word(a, "peer") else " received"
        out += [COMMA, _strong(rate(number(a, "received"))), _plain(peer)]
    return out


def _because_healthy(a: Args) -> Spans:
    if not number(a, "workers"):
        return [_plain("it loads its data itself: blocked "), _strong(percent(a, "blocked"))]
    out = [_plain(f"{_workers(a)} idle "), _strong(percent(a, "idle"))]
    return [*out, COMMA, _plain(f"run {percent(a, 'cpu')}"), COMMA, _plain(f"blocked {percent(a, 'blocked')}")]


def _because_starting(a: Args) -> Spans:
    age = number(a, "age_s")
    out = [_plain("it is "), _strong(units.duration(age) if age is not None else units.UNKNOWN), _plain(" old")]
    if word(a, "compiler"):
        return [*out, COMMA, _strong(word(a, "compiler")), _plain(" runs below it")]
    return [*out, COMMA, _plain("has no loader, and its memory grows by "), _strong(rate(number(a, "grown")))]


def _because_saving(a: Args) -> Spans:
    if not word(a, "device"):
        return [
            _plain("it writes "),
            _strong(rate(number(a, "write_bytes_per_s"))),
            _plain(" meanwhile and reads little"),
        ]
    out = [_bad(word(a, "device")), _plain(" writes "), _strong(rate(number(a, "write_bytes_per_s")))]
    return [*out, SEMI, _plain(f"blocked {whole(a, 'seconds')} of {whole(a, 'window_s')} s")]


def _because_memory(a: Args) -> Spans:
    out: Spans = []
    if number(a, "swap_in"):
        out += [_strong(rate(number(a, "swap_in"))), _plain(" swapped in")]
    if number(a, "memory_limit") is not None:
        out += [*([COMMA] if out else []), _strong(word(a, "job")), _plain(" can use "),
                _strong(amount(a, "memory_limit")), _plain(f", {amount(a, 'memory_room')} left")]  # fmt: skip
    elif number(a, "available") is not None:
        out += [*([COMMA] if out else []), _plain("free "), _strong(amount(a, "available"))]
        out.append(_plain(f" of {amount(a, 'total')}"))
    if word(a, "task"):
        largest = [_plain("largest: "), _strong(word(a, "task")), _plain(f" {amount(a, 'rss')}")]
        out += [*([SEMI] if out else []), *largest]
    return out


def _because_shm(a: Args) -> Spans:
    out = [_plain("its size is "), _strong(amount(a, "total"))]
    return [*out, COMMA, _plain(f"{_workers(a)} hand their batches over in it")]


def _because_full(a: Args) -> Spans:
    if number(a, "inodes") is not None:
        return [_strong(percent(a, "inodes")), _plain(" of its inodes are used")]
    return [_strong(amount(a, "available")), _plain(f" free, {percent(a, 'used')} used")]


def other_text(a: Args) -> str:
    """The other program that takes resources from the job: "fio x4 (fio.service)"."""
    if word(a, "other_kind") == "unseen":
        return "a process whose I/O is not visible here"
    if word(a, "other_kind") == "check":
        return f"{word(a, 'other')} (pid {whole(a, 'other_pid')})"
    count = f" x{whole(a, 'others')}" if (number(a, "others") or 0) > 1 else ""
    where = f" ({word(a, 'other_where')})" if word(a, "other_where") else ""
    return f"{word(a, 'other')}{count}{where}"


_MOST_OF_OTHERS = 0.8
"""A program that uses less than this part of what all others use is named together with them."""


def _because_other(a: Args) -> Spans:
    group, theirs = number(a, "group") or 0.0, number(a, "theirs") or 0.0
    several = 0 < group < _MOST_OF_OTHERS * theirs
    if word(a, "what") == "cpu":
        verb = " and others use " if several else " uses "
        out = [_bad(other_text(a)), _plain(verb), _strong(f"{units.figure(theirs)} cores")]
        waits = [_plain("the workers run "), _strong(percent(a, "cpu")), _plain(f", wait {percent(a, 'cpu_wait')}")]
        return [*out, SEMI, *waits]
    verb = "and others take" if several else "takes"
    out = [_bad(other_text(a)), _plain(f" {verb} {percent(a, 'other_share')} of {_disk_text(a)}: ")]
    own = [_plain(f" ({word(a, 'other')} {rate(group)})")] if several else []
    out += [_strong(rate(theirs)), *own, _plain(f", the job {rate(number(a, 'own'))}")]
    return [*out, SEMI, *_await(a), SEMI, *_blocked(a)]


def _because_respawn(a: Args) -> Spans:
    restart, epoch = units.figure(number(a, "turn_s")), units.figure(number(a, "epoch_s"))
    out = [_bad("all workers are restarted"), _plain(" every "), _strong(f"{epoch} s")]
    return [*out, COMMA, _plain("which costs "), _strong(f"{restart} s"), _plain(f"; seen {whole(a, 'turns')} times")]


def _because_died(a: Args) -> Spans:
    pid = [SEMI, _plain("the dead process had pid "), _strong(whole(a, "pid"))]
    if number(a, "oom"):
        return [_plain("killed by the kernel: out of memory"), *pid]
    end, crashed = word(a, "end"), "it crashed in native code"
    causes = {
        "SIGHUP": "its terminal or ssh session was closed",
        "SIGPIPE": "the reader of its output exited",
        "SIGXCPU": "it reached its CPU time limit",
        "SIGILL": crashed,
        "SIGFPE": crashed,
        "SIGKILL": "killed from outside: the kernel counted no out-of-memory kill",
        "SIGBUS": "it accessed memory without backing: /dev/shm filled up, or a mapped file shrank",
        "SIGSEGV": crashed,
        "SIGABRT": "it aborted in native code",
        "SIGTERM": "it received a request to stop",
    }
    other = "a signal from outside killed it" if end.startswith(("SIG", "signal ")) else "it exited with an error"
    # The cause is first, because a narrow screen drops the clauses at the end.
    cause, colon, more = causes.get(end, other).partition(": ")
    return [_plain(cause), *([Span(colon), _plain(more)] if more else []), *pid]


def _because_serving(a: Args) -> Spans:
    out = [_plain(f"it listens on {whole(a, 'listening')} port{'s' if number(a, 'listening') != 1 else ''}")]
    if number(a, "connections") is not None:
        out += [
            COMMA,
            _strong(whole(a, "connections")),
            _plain(f" open connection{'s' if number(a, 'connections') != 1 else ''}"),
        ]
    return [*out, SEMI, _plain("its main thread sleeps "), _strong(percent(a, "asleep"))]


def _because_compiling(a: Args) -> Spans:
    return [_plain("a compiler runs below it")]


def _because_hung(a: Args) -> Spans:
    if number(a, "stopped"):
        holder = "a signal (SIGSTOP, Ctrl-Z), a debugger or a frozen cgroup"
        return [_plain(f"{holder} holds pid "), _strong(whole(a, "main"))]
    processes = "its processes computed, read and wrote next to nothing"
    gpus = number(a, "gpus")
    if not gpus:
        return [_plain(f"{processes} for a minute")]
    idle = "its GPU did not work" if gpus == 1 else "none of its GPUs worked"
    return [_plain(f"{idle} for a minute"), SEMI, _plain(processes)]


def _because_host(a: Args) -> Spans:
    running = [_plain("it runs "), _strong(percent(a, "running")), _plain(" of the time and loads nothing")]
    idle = number(a, "worker_idle")
    return [*running, *([COMMA, _plain("its workers are idle "), _strong(percent(a, "worker_idle"))] if idle else [])]


BECAUSE: dict[str, Callable[[Args], Spans]] = {
    "storage_read": _because_storage,
    "small_random": _because_small,
    "network_fs": _because_network,
    "io_limit": _because_limit,
    "cache_thrash": _because_thrash,
    "loader_serial": _because_serial,
    "cpu_prep": _because_cpu,
    "object_stream": _because_stream,
    "single_thread": _because_cpu,
    "healthy": _because_healthy,
    "starting": _because_starting,
    "compiling": _because_compiling,
    "hung": _because_hung,
    "host_bound": _because_host,
    "noisy_neighbour": _because_other,
    "worker_respawn": _because_respawn,
    "job_died": _because_died,
    "serving": _because_serving,
    "checkpoint_write": _because_saving,
    "mem_pressure": _because_memory,
    "shm_full": _because_shm,
    "fs_full": _because_full,
}
"""By class, the function that makes the text after "because"."""
