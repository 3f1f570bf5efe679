"""Processes: the records of /proc/PID, and exact per-process rates.

Source: /proc/PID/io and /proc/PID/stat, https://docs.kernel.org/filesystems/proc.html and proc_pid_stat(5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import compress, repeat
from operator import eq, itemgetter
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.kernel import release_of
from iotop_ai.model.metric import Metric
from iotop_ai.model.process.change_tracking import TrackedDict

_SWITCHED_SINCE = (5, 14)


def has_delay_switch(kernel: str) -> bool | None:
    """Whether a kernel of this release has kernel.task_delayacct (since Linux 5.14); None if the release is unknown.

    Before 5.14, delay accounting is on by default and the boot option ``nodelayacct`` switches it off (commits
    e4042ad49235 and 0cd7c741f01d).
    """
    release = release_of(kernel)
    return None if release is None else release >= _SWITCHED_SINCE


def delay_remedy(kernel: str) -> str:
    """How to switch delay accounting on with a kernel of this release: a command, or a boot option to leave out."""
    return "boot without nodelayacct" if has_delay_switch(kernel) is False else "sysctl kernel.task_delayacct=1"


class ProcessKey(NamedTuple):
    """A process's identity within one boot: its pid, and its start time in clock ticks after boot (stat field 22)."""

    pid: int
    start_ticks: int

    def age_s(self, at_ns: int, suspended_ns: int, ticks_per_s: int) -> float:
        """The process's age in seconds at a monotonic time in ns.

        suspended_ns: how long the machine was suspended since boot, which the start time includes
        """
        return (at_ns + suspended_ns) / 1e9 - self.start_ticks / ticks_per_s


class ProcessIo(NamedTuple):
    """The seven fields of /proc/PID/io, in the order of that file.

    syscr and syscw count calls, all others bytes. At wait() the kernel adds all counters of a child to those of its
    parent.
    """

    rchar: int
    wchar: int
    syscr: int
    syscw: int
    read_bytes: int
    write_bytes: int
    cancelled_write_bytes: int


class ProcessStat(NamedTuple):
    """The relevant fields of /proc/PID/stat, in the kernel's units (ticks of 1/clk_tck s).

    state: the state of the main thread
    blkio_ticks: how long the main thread was blocked on block I/O; 0 while delay accounting is off, and for a process
        that started while it was off
    """

    state: str
    ppid: int
    minflt: int
    cminflt: int
    majflt: int
    utime_ticks: int
    stime_ticks: int
    threads: int
    rss_pages: int
    blkio_ticks: int

    def has_ended(self) -> bool:
        """Whether the whole process has ended.

        A zombie with several threads has not: only its main thread has exited.
        """
        return self.state in ("Z", "X") and self.threads <= 1


class ProcessInfo(NamedTuple):
    """The identity of a process, read when it is first seen and again after an exec.

    The strings have been passed through ``clean``.

    name: the process name (comm)
    cmdline: the arguments; () for a kernel thread, or if not readable
    user: the user's name, or the uid as text if the name is unknown
    kernel: whether it is a kernel thread
    """

    name: str
    cmdline: tuple[str, ...]
    user: str
    uid: int
    kernel: bool = False
    cgroup: str = ""


class ThreadLook(NamedTuple):
    """A sample of the threads of a multi-threaded process whose io has changed.

    states: pairs of (state letter, number of threads), the most frequent state first
    blkio_ticks: pairs of (tid, time blocked on block I/O in ticks)
    """

    states: tuple[tuple[str, int], ...]
    blkio_ticks: tuple[tuple[int, int], ...]


_STATE = itemgetter(ProcessStat._fields.index("state"))
_RESTING_STATES = frozenset("SI")


def awake(stat: ProcessStat) -> bool:
    """Whether the main thread is neither asleep (S) nor idle (I). The TrackedDict of the stats flags such processes."""
    return stat.state not in _RESTING_STATES


def blocked(stat: Mapping[ProcessKey, ProcessStat]) -> list[ProcessKey]:
    """The processes whose main thread is in state D, sorted by pid."""
    awake_keys = _awake_keys(stat)
    if awake_keys is not None:
        return [key for key in sorted(awake_keys) if stat[key].state == "D"]
    return sorted(compress(stat, map(eq, map(_STATE, stat.values()), repeat("D"))))


def states(stat: Mapping[ProcessKey, ProcessStat]) -> dict[str, int]:
    """The number of main threads in each state; the states S (asleep) and I (idle) may be left out."""
    awake_keys = _awake_keys(stat)
    return Counter(map(_STATE, stat.values() if awake_keys is None else [stat[key] for key in awake_keys]))


def _awake_keys(stat: Mapping[ProcessKey, ProcessStat]) -> Collection[ProcessKey] | None:
    """The keys of awake processes; None if the mapping does not track them."""
    return stat.flagged if isinstance(stat, TrackedDict) else None


class ProcessTable(NamedTuple):
    """One reading of all processes: a sweep over their io and a sweep over their stat, each with its time.

    Unchanged records are the same objects as in the previous Snapshot. Not every sweep reads every process: processes
    are divided into cohorts (pid modulo the number of cohorts), which take turns.

    io: the io of each process that is not in ``denied``
    io_at_ns: the time of this tick's sweep over io, at which the io records were read unless io_stale, io_out or io_at
        gives another time
    io_stale: the time of each older io record that is kept because its process could not be read in this sweep
    stat_at_ns: the time of this tick's sweep over stat, which reads cohort ``seq % cohorts`` and the processes whose io
        changed
    stat_at: the time of the newest sweep over each cohort. A process that has not run since the sweep before is not
        read again, since only its resident memory can have changed: that is then up to 20 sweeps old
    stat_out: the time of each stat record that was last read in another cohort's turn
    threads: the threads of multi-threaded processes whose io changed
    wchan: the main thread's wchan of processes in state D or whose io changed, if readable and not "0"
    gone: the processes of the previous Snapshot that have ended since then
    complete: whether every process was listed; False under hidepid, which hides the processes of other users
    delayacct: whether delay accounting is on; None if unknown
    exits: the exit code (0 to 255), or minus the signal's number, of the processes in ``gone`` and of the zombies for
        which it is known
    adaptive: whether a sweep reads the io of only some processes
    io_at: the time of each cohort's newest io; () if it is ``io_at_ns`` for all
    io_out: the time of each io record that was last read in another cohort's turn
    io_since: for a process that was not read for a while, when its counters began to grow, if this is known to be later
        than its last reading
    delayacct_since: the kernel counts the delays of tasks that started at this time (in ticks) or later; None if it
        counts those of all tasks
    """

    io: Mapping[ProcessKey, ProcessIo]
    stat: Mapping[ProcessKey, ProcessStat]
    info: Mapping[ProcessKey, ProcessInfo]
    denied: frozenset[ProcessKey]
    io_at_ns: int
    stat_at_ns: int
    stat_at: tuple[int, ...]
    stat_out: Mapping[ProcessKey, int]
    io_stale: Mapping[ProcessKey, int]
    threads: Mapping[ProcessKey, ThreadLook]
    wchan: Mapping[ProcessKey, str]
    gone: tuple[ProcessKey, ...] = ()
    complete: bool = True
    delayacct: bool | None = None
    clk_tck: int = 100
    page_bytes: int = 4096
    exits: Mapping[ProcessKey, int] = {}
    adaptive: bool = False
    io_at: tuple[int, ...] = ()
    io_out: Mapping[ProcessKey, int] = {}
    io_since: Mapping[ProcessKey, int] = {}
    delayacct_since: int | None = None

    def blocked(self) -> list[ProcessKey]:
        """The processes whose main thread is in state D, sorted by pid."""
        return blocked(self.stat)

    def delay_counted(self, key: ProcessKey) -> bool:
        """Whether the kernel counts this process's delays: it started while accounting was on, or it has ticks."""
        if not self.delayacct:
            return False
        if self.delayacct_since is None or key.start_ticks >= self.delayacct_since:
            return True
        stat = self.stat.get(key)
        return stat is not None and stat.blkio_ticks > 0

    def stat_time(self, key: ProcessKey) -> int:
        """The monotonic time in ns at which this process's stat was last read."""
        at_ns = self.stat_out.get(key)
        return self.stat_at[key.pid % len(self.stat_at)] if at_ns is None else at_ns

    def io_time(self, key: ProcessKey) -> int:
        """The monotonic time in ns at which this process's io was last read."""
        at_ns = self.io_stale.get(key)
        if at_ns is None:
            at_ns = self.io_out.get(key)
        if at_ns is None:
            return self.io_at[key.pid % len(self.io_at)] if self.io_at else self.io_at_ns
        return at_ns


class ProcessRates(NamedTuple):
    """The rates of one process over one interval; None if unknown: not read before, not permitted, or not counted."""

    read_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes fetched from storage per second.", "kB_rd/s")]
    write_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes dirtied for storage per second.", "kB_wr/s")]
    cancelled_bytes_per_s: Annotated[
        float | None, Metric("B/s", "Dirtied bytes dropped before they were written, per second.", "kB_ccwr/s")
    ]
    rchar_bytes_per_s: Annotated[
        float | None, Metric("B/s", "Bytes that read calls returned per second, page cache included.")
    ]
    wchar_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes passed to write calls per second.")]
    read_calls_per_s: Annotated[float | None, Metric("1/s", "Read system calls per second.")]
    write_calls_per_s: Annotated[float | None, Metric("1/s", "Write system calls per second.")]
    cpu_ratio: Annotated[float | None, Metric("ratio", "CPU used, 1.0 is one core.", "%CPU")]
    io_delay_ratio: Annotated[
        float | None,
        Metric(
            "ratio",
            "Share of time blocked on block I/O, 0 to 1, of its most blocked thread. Unknown while delay accounting is "
            "off, and, for a process that started while it was off, until its count grows.",
        ),
    ]
    major_faults_per_s: Annotated[float | None, Metric("1/s", "Faults that needed I/O, per second.", "majflt/s")]
    incl_children: bool = False
    """Whether its io may include bytes of a reaped child that could not be subtracted."""
    main_thread_only: bool = False
    """Whether it has several threads but io_delay_ratio, state and wchan are those of its main thread."""
    threads_looked: int | None = None
    """The number of threads that io_delay_ratio covers, which have the lowest ids; None if it covers all."""
    io_s: float | None = None
    """The seconds between the two readings of its io; 0.0 if its io was not read again, so that its rates are repeated;
    None in recordings without this field. Rate times seconds, summed over Samples, is the growth of the counter."""
    stat_s: float | None = None
    """The seconds between the two readings of its stat (CPU, delay and faults); 0.0 and None as in ``io_s``."""


UNKNOWN_PROCESS_RATES = ProcessRates(*[None] * 10)  # type: ignore[arg-type]


class Debt(NamedTuple):
    """The I/O of a vanished process, as long as it has not been found in the process that inherited it."""

    key: ProcessKey
    ppid: int
    io: ProcessIo
    faults: int
    """The vanished process's last minflt + cminflt. The cminflt of the process that inherits grows by this number."""


class ProcessSample(NamedTuple):
    """The processes with a non-zero or unknown rate or in state D; all others are idle and only in the Snapshot.

    A rate that is unknown only because of a missing permission or of delay accounting does not count as unknown here.

    debts: the debts that wait for one more Snapshot (see inherited_io.py)
    """

    rates: Mapping[ProcessKey, ProcessRates]
    debts: tuple[Debt, ...] = ()
    cminflt_before: Mapping[ProcessKey, int] = {}
    """For each process that may inherit a waiting debt, the cminflt from which the next Snapshot counts its growth, so
    that the growth covers both intervals."""
