"""Where a training job's tasks spend their time: counts of frequent samples ("looks"), and shares computed from them.

A look at a process reads the state of its main thread (/proc/PID/stat field 3) and the kernel function in which that
thread sleeps (/proc/PID/wchan). A sweep is a joint look at one training process and all its loader workers. Only a
sweep distinguishes a wait for data from rest: in a wait, the trainer sleeps in a queue while a worker works. Source:
fs/proc/array.c, fs/proc/base.c (proc_pid_wchan, proc_pid_schedstat), kernel/sched/core.c (get_wchan).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, quotient
from iotop_ai.model.job.time_shares import TimeShares
from iotop_ai.model.metric import Metric
from iotop_ai.model.process.records import ProcessKey

DISK, RUNNING, QUEUE, NET, OTHER, HIDDEN, FUTEX, STOPPED, WRITING, CHILD, TERMINAL = range(11)
"""The wait states of a task: waiting for a device or a file server (usually state D), on a CPU or waiting for one (R),
asleep in a queue, asleep in a socket, asleep elsewhere, asleep where the kernel does not show it (another user's
process), asleep in a futex, stopped, waiting for a device in a call that writes (main thread only), waiting for a child
to end, waiting for a terminal (main thread only)."""
COUNTED_WAIT_STATES = 6
"""Only the first six wait states have counts."""
COARSE = (DISK, RUNNING, QUEUE, NET, OTHER, HIDDEN, QUEUE, OTHER, DISK, OTHER, OTHER)
"""For each wait state, the one in whose count it is included."""

# The following tuples contain prefixes of names of kernel functions, as wchan shows them.
FUTEXES = (b"futex_", b"__futex_wait")
"""Waits for a lock or a condition variable of the program, such as that of a queue between threads, or for a GPU."""
STOPS = (b"do_signal_stop", b"ptrace_stop", b"do_freezer_trap", b"__refrigerator", b"get_signal")
"""Waits of a task that SIGSTOP, a debugger or a frozen cgroup has stopped."""
NOT_DEVICES = (
    *(b"rwsem_down", b"__down_", b"__mutex_lock", b"mutex_lock"),
    *(
        b"try_charge",
        b"mem_cgroup",
        b"reclaim_throttle",
        b"throttle_direct_reclaim",
        b"shrink_",
    ),
    *(b"nv_", b"nvidia", b"_nv0", b"uvm_", b"os_acquire", b"rm_", b"amdgpu", b"kfd_", b"dma_fence", b"drm_"),
)
"""Waits in state D for something other than a device: a lock of the kernel, memory reclaim, a GPU's driver."""
QUEUES = (
    b"poll_schedule",
    b"do_poll",
    b"do_sys_poll",
    b"do_select",
    b"ep_poll",
    b"do_epoll_wait",
    b"pipe_read",
    b"anon_pipe_read",
    b"pipe_wait",
    b"pipe_write",
    b"anon_pipe_write",
    b"unix_stream_read_generic",
    b"unix_stream_data_wait",
    b"do_sigtimedwait",
    b"inet_csk_accept",
    b"__skb_wait_for_more_packets",
)
"""Sleeps in which a task waits for another task of its program and has nothing to do itself. Before Linux 5.5 every
sleep at a pipe is in pipe_wait (fs/pipe.c). accept() waits for a client: at TCP in inet_csk_accept, at a Unix socket in
the wait for a datagram (net/core/datagram.c), as the thread in each PyTorch worker that hands over tensors does."""
RINGS = (b"io_cqring_", b"__io_cqring_", b"read_events")
"""Waits in state S for requests that the program passed to the kernel: io_uring/io_uring.c (io_cqring_wait), fs/aio.c.
"""
SOCKETS = (b"wait_woken", b"sk_wait", b"inet_csk_wait", b"tcp_", b"skb_wait", b"sk_stream_wait")
"""Waits at a socket for data or for room to send. In wait_woken a thread may also wait for a terminal
(drivers/tty/n_tty.c)."""
REMOTE = (b"cl_", b"ptlrpc", b"cxiWait", b"weka", b"ll_", b"osc_", b"gpfs", b"beegfs", b"request_wait_answer")
"""Waits in state D, I or S for a server's answer, in the client code of cluster filesystems and of FUSE."""


CERTAIN_WAIT_STATES = {
    **dict.fromkeys((b"hrtimer_nanosleep", b"do_nanosleep", b"sigsuspend"), OTHER),
    b"do_wait": CHILD,
    **dict.fromkeys((b"folio_wait_bit_common", b"folio_wait_bit", b"wait_on_page_bit_common"), DISK),
    **dict.fromkeys((b"submit_bio_wait", b"rq_qos_wait", b"blk_mq_get_tag"), DISK),
}
"""Functions that always mean the same wait state, regardless of their caller and of the state letter (S or D):
kernel/time/hrtimer.c, kernel/exit.c, kernel/signal.c; mm/filemap.c, block/bio.c, block/blk-rq-qos.c,
block/blk-mq-tag.c."""


def wait_state_in(wchan: bytes) -> int | None:
    """The wait state that the function's name alone proves; None if the name does not suffice.

    Names are compared by prefix, because the names for queues and sockets differ between kernels.
    """
    if wchan.startswith(QUEUES):
        return QUEUE
    if wchan.startswith(FUTEXES):
        return FUTEX
    if wchan.startswith(RINGS):
        return DISK
    # The compiler adds a suffix after a dot to its copies of a function, as in sigsuspend.isra.0.
    return NET if wchan.startswith(SOCKETS) else CERTAIN_WAIT_STATES.get(wchan.partition(b".")[0])


def wait_state_of(state: bytes, wchan: bytes) -> int:
    """The wait state of a task.

    state: its state letter
    wchan: the kernel function in which it sleeps; "0" or empty if it does not sleep, or if unknown
    """
    if wchan.startswith(STOPS) or state in (b"T", b"t"):
        return STOPPED
    if state == b"D":
        return OTHER if wchan.startswith(NOT_DEVICES) else DISK
    if state in (b"I", b"S") and wchan.startswith(REMOTE):
        return DISK
    if state == b"R":
        return RUNNING
    if state != b"S":
        return OTHER
    if wchan in (b"0", b""):
        return HIDDEN
    known = wait_state_in(wchan)
    return OTHER if known is None else known


class TaskCounts(NamedTuple):
    """Counts of the looks at a process's main thread since it was first watched, by wait state.

    run_ns, wait_ns: how long that thread was on a CPU and how long it waited for one, since it started (schedstat);
        None if not readable
    rss_bytes: the resident memory now
    """

    disk: int = 0
    running: int = 0
    queue: int = 0
    net: int = 0
    other: int = 0
    hidden: int = 0
    run_ns: int | None = None
    wait_ns: int | None = None
    rss_bytes: int | None = None

    @property
    def looks(self) -> int:
        """The sum of all looks."""
        return self.disk + self.running + self.queue + self.net + self.other + self.hidden


class SweepCounts(NamedTuple):
    """Counts of the sweeps of a job's training processes with their workers; they never fall.

    main_*: sweeps by the wait state of the trainer
    waits: sweeps in which the trainer waited for data: it slept in a queue while a worker did not
    wait_disk, wait_running, wait_net, wait_other: the looks, in these sweeps, at workers that did not sleep in a queue,
        by wait state
    blind: the part of ``waits`` that is inferred from a worker that ran or was blocked, because the trainer's wait
        state was hidden
    blocked: looks that found a task of the job in wait state DISK
    partial: sweeps that could not include all workers
    apart: sweeps in which the trainer's main thread slept while another thread or process loaded data for it
    """

    sweeps: int = 0
    main_disk: int = 0
    main_running: int = 0
    main_queue: int = 0
    main_net: int = 0
    main_other: int = 0
    main_hidden: int = 0
    waits: int = 0
    wait_disk: int = 0
    wait_running: int = 0
    wait_net: int = 0
    wait_other: int = 0
    blind: int = 0
    blocked: int = 0
    partial: int = 0
    apart: int = 0


# The indexes of fields of SweepCounts.
_WAITS = SweepCounts._fields.index("waits")
_BLIND = SweepCounts._fields.index("blind")
_BLOCKED = SweepCounts._fields.index("blocked")
_PARTIAL = SweepCounts._fields.index("partial")
APART = SweepCounts._fields.index("apart")
_WAIT_INDEXES = (_WAITS + 1, _WAITS + 2, None, _WAITS + 3, _WAITS + 4, None)
"""For each wait state of a worker, the index of its count while the trainer waits; None if it has no count."""


def add_sweep(counts: list[int], main: int, workers: Sequence[int], partial: bool = False, times: int = 1) -> None:
    """Add sweeps to ``counts``, the values of a SweepCounts.

    main, workers: the wait states of the trainer and of its workers, reduced by COARSE
    partial: whether the sweeps could not include all workers
    times: the number of equal sweeps
    """
    counts[0] += times
    counts[1 + main] += times
    counts[_BLOCKED] += ((main == DISK) + workers.count(DISK)) * times
    counts[_PARTIAL] += partial * times
    if main == QUEUE:
        active = [wait_state for wait_state in workers if wait_state not in (QUEUE, HIDDEN)]
    elif main == HIDDEN:
        active = [wait_state for wait_state in workers if wait_state in (DISK, RUNNING)]
        counts[_BLIND] += bool(active) * times
    else:
        return
    counts[_WAITS] += bool(active) * times
    for wait_state in active:
        index = _WAIT_INDEXES[wait_state]
        if index is not None:
            counts[index] += times


class TaskRates(NamedTuple):
    """Shares of one task's time over an interval, 0 to 1; None if unknown."""

    disk_ratio: Annotated[float | None, Metric("ratio", "Share of samples in state D.")]
    running_ratio: Annotated[float | None, Metric("ratio", "Share of samples in state R.")]
    queue_ratio: Annotated[float | None, Metric("ratio", "Share of samples asleep in a queue.")]
    cpu_ratio: Annotated[float | None, Metric("ratio", "Share of time on a CPU, of its main thread.")]
    cpu_wait_ratio: Annotated[float | None, Metric("ratio", "Share of time runnable, but waiting for a CPU.")]
    grown_bytes_per_s: Annotated[float | None, Metric("B/s", "Growth of resident memory; 0 when it shrinks.")] = None

    @property
    def idle_ratio(self) -> float | None:
        """The share of time asleep, which is the remaining time; None if another share is unknown."""
        if self.disk_ratio is None or self.cpu_ratio is None or self.cpu_wait_ratio is None:
            return None
        return max(0.0, 1.0 - self.disk_ratio - self.cpu_ratio - self.cpu_wait_ratio)


class JobRates(NamedTuple):
    """One job over an interval. The counts beside the shares serve to weight the intervals of a window.

    sweeps: the number of sweeps in the interval
    worker_*: means over the watched workers; None if there are none
    blocked_tasks: the mean number of tasks in wait state DISK, of one training process and its workers
    """

    sweeps: int
    waits: int
    wait_disk: int
    wait_running: int
    wait_net: int
    wait_other: int
    blind: int
    stall_ratio: Annotated[float | None, Metric("ratio", "Share of time in which the trainer waits for its loader.")]
    main_disk_ratio: Annotated[float | None, Metric("ratio", "Share of samples with the trainer in state D.")]
    main_running_ratio: Annotated[float | None, Metric("ratio", "Share of samples with the trainer in state R.")]
    main_queue_ratio: Annotated[float | None, Metric("ratio", "Share of samples with the trainer asleep in a queue.")]
    blocked_tasks: Annotated[float | None, Metric("tasks", "Tasks in state D at one moment.")]
    worker_disk_ratio: Annotated[float | None, Metric("ratio", "Workers' mean share of samples in state D.")]
    worker_cpu_ratio: Annotated[float | None, Metric("ratio", "Workers' mean share of time on a CPU.")]
    worker_cpu_wait_ratio: Annotated[float | None, Metric("ratio", "Workers' mean share of time waiting for a CPU.")]
    worker_idle_ratio: Annotated[float | None, Metric("ratio", "Workers' mean share of time asleep.")]
    main_net_ratio: Annotated[
        float | None, Metric("ratio", "Share of samples with the trainer asleep in a socket.")
    ] = None
    apart_ratio: Annotated[
        float | None,
        Metric("ratio", "Share of samples with the trainer asleep while another thread or process loads data."),
    ] = None


def task_rates(before: TaskCounts | None, after: TaskCounts, seconds: float | None) -> TaskRates:
    """The shares between two readings; each is None if its counts fell, or without an earlier reading or a new look."""
    n = COUNTED_WAIT_STATES
    growths = None if before is None else [delta(a, b) for a, b in zip(before[:n], after[:n], strict=True)]
    looks = None if growths is None or None in growths else sum(count for count in growths if count is not None)

    def share(wait_state: int) -> float | None:
        return None if growths is None else quotient(growths[wait_state], looks)

    def share_of_interval(old_ns: int | None, new_ns: int | None) -> float | None:
        spent_ns = delta(old_ns, new_ns)
        # The files are read one after the other, so the measured time may slightly exceed the interval.
        return None if spent_ns is None or not seconds else min(1.0, spent_ns / 1e9 / seconds)

    return TaskRates(
        share(DISK),
        share(RUNNING),
        share(QUEUE),
        None if before is None else share_of_interval(before.run_ns, after.run_ns),
        None if before is None else share_of_interval(before.wait_ns, after.wait_ns),
        None if before is None else _growth_per_s(before.rss_bytes, after.rss_bytes, seconds),
    )


def _growth_per_s(before: int | None, after: int | None, seconds: float | None) -> float | None:
    if before is None or after is None or not seconds:
        return None
    return max(0.0, (after - before) / seconds)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def sweep_rates(before: SweepCounts | None, after: SweepCounts, workers: Sequence[TaskRates]) -> JobRates | None:
    """The job's shares between two readings; None without an earlier reading, or if a count fell.

    workers: the rates of the job's workers
    """
    if before is None or any(b < a for a, b in zip(before, after, strict=True)):
        return None
    growth = SweepCounts(*(b - a for a, b in zip(before, after, strict=True)))
    sweeps = growth.sweeps
    return JobRates(
        sweeps,
        growth.waits,
        growth.wait_disk,
        growth.wait_running,
        growth.wait_net,
        growth.wait_other,
        growth.blind,
        quotient(growth.waits, sweeps),
        quotient(growth.main_disk, sweeps),
        quotient(growth.main_running, sweeps),
        quotient(growth.main_queue, sweeps),
        quotient(growth.blocked, sweeps),
        _mean([w.disk_ratio for w in workers]),
        _mean([w.cpu_ratio for w in workers]),
        _mean([w.cpu_wait_ratio for w in workers]),
        _mean([w.idle_ratio for w in workers]),
        quotient(growth.main_net, sweeps),
        quotient(growth.apart, sweeps),
    )


class JobSample(NamedTuple):
    """The activity of the jobs in one interval.

    jobs: the rates of each job, by its key
    tasks: the rates of each process
    own_cpu_ratio: the CPU time of the sampling itself, as a share of one core
    times: where each job's time went, by the job's key; a job whose time was not counted is left out
    file_waits: for each job that reads from a network mount, the share of time spent waiting for files of the mount
    rank_waits: for each rank of the jobs whose ranks step together, the share of time in which it waited for its own
        data
    """

    jobs: Mapping[ProcessKey, JobRates]
    tasks: Mapping[ProcessKey, TaskRates]
    own_cpu_ratio: float | None = None
    times: Mapping[ProcessKey, TimeShares] = {}
    file_waits: Mapping[ProcessKey, float] = {}
    rank_waits: Mapping[ProcessKey, float] = {}
