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
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.metric import Metric
from iotop_ai.model.process.change_tracking import TrackedDict

_SWITCHED_SINCE = (5, 14)
_RELEASE = pattern(r"(\d+)\.(\d+)")


def has_delay_switch(kernel: str) -> bool | None:
    """Whether a kernel of this release has kernel.task_delayacct (since Linux 5.14); None without a release.

    Before, delay accounting is on unless the kernel was booted with ``nodelayacct`` (e4042ad49235, 0cd7c741f01d).
    """
    found = _RELEASE.match(kernel)
    return None if found is None else (int(found[1]), int(found[2])) >= _SWITCHED_SINCE


def delay_remedy(kernel: str) -> str:
    """The command that switches delay accounting on, on a kernel of this release."""
    return "boot without nodelayacct" if has_delay_switch(kernel) is False else "sysctl kernel.task_delayacct=1"


class ProcessKey(NamedTuple):
    """A process's identity within one boot: pid and start time in clock ticks after boot (stat field 22)."""

    pid: int
    start_ticks: int

    def age_s(self, at_ns: int, suspended_ns: int, ticks_per_s: int) -> float:
        """The age at a monotonic time. suspended_ns: suspended since boot, which the start time counts as well."""
        return (at_ns + suspended_ns) / 1e9 - self.start_ticks / ticks_per_s


class ProcessIo(NamedTuple):
    """The seven fields of /proc/PID/io, in the file's order.

    Bytes except syscr/syscw (calls). At wait() the kernel adds a reaped child's whole io to its parent's.
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

    state and blkio_ticks are the main thread's (stat of a process prints its leader's state; blkio_ticks is the
    leader's own delay, 0 while delay accounting is off and for a task that started meanwhile).
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
        """Whether only its exit code is left. A main thread may exit before the others, which go on under a zombie."""
        return self.state in ("Z", "X") and self.threads <= 1


class ProcessInfo(NamedTuple):
    """The identity of a process; read when first seen and again when its name changes.

    name: comm. cmdline: arguments, () for a kernel thread or when not readable. kernel: a kernel thread.
    All strings are clean. user: the name, else the uid as text.
    """

    name: str
    cmdline: tuple[str, ...]
    user: str
    uid: int
    kernel: bool = False
    cgroup: str = ""


class ThreadLook(NamedTuple):
    """A sample of the threads of a multi-threaded process whose io has changed.

    states: ((letter, count), ...), most frequent first. blkio_ticks: ((tid, ticks), ...).
    """

    states: tuple[tuple[str, int], ...]
    blkio_ticks: tuple[tuple[int, int], ...]


_STATE = itemgetter(ProcessStat._fields.index("state"))
_RESTS = frozenset("SI")


def awake(stat: ProcessStat) -> bool:
    """Whether the main thread is not asleep (S) or idle (I): the flag of a table's stat."""
    return stat.state not in _RESTS


def blocked(stat: Mapping[ProcessKey, ProcessStat]) -> list[ProcessKey]:
    """Processes whose main thread is in state D, by pid."""
    awake_ones = _flagged(stat)
    if awake_ones is not None:
        return [key for key in sorted(awake_ones) if stat[key].state == "D"]
    return sorted(compress(stat, map(eq, map(_STATE, stat.values()), repeat("D"))))


def states(stat: Mapping[ProcessKey, ProcessStat]) -> dict[str, int]:
    """Number of main threads in each state; those asleep (S) and idle (I) may be left out."""
    awake_ones = _flagged(stat)
    return Counter(map(_STATE, stat.values() if awake_ones is None else [stat[key] for key in awake_ones]))


def _flagged(stat: Mapping[ProcessKey, ProcessStat]) -> Collection[ProcessKey] | None:
    """The keys of awake processes, if the mapping tracks them."""
    return stat.flagged if isinstance(stat, TrackedDict) else None


class ProcessTable(NamedTuple):
    """One reading of all processes, as two sweeps with a time each.

    io_at_ns: the time of every record in ``io``, except those in ``io_stale`` (not read in this sweep: the older
    sweep's time). stat_at_ns: time of this tick's stat sweep, which renews the records of cohort ``seq % cohorts`` (pid
    % cohorts) and of processes whose io changed; ``stat_at`` has the time of the newest sweep of each cohort,
    ``stat_out`` the time of records last read outside their cohort's turn. io: absent for a process in ``denied``.
    Unchanged records are the same objects as in the previous Snapshot. threads: only of multi-threaded processes whose
    io changed. wchan: only where readable and not "0", of processes in state D or whose io changed; the main thread's.

    gone: processes of the previous Snapshot that have ended since. exits: the known exit codes (0 to 255), or minus the
    signal, of those in ``gone`` and of zombies. complete: every process was listed (False under hidepid, which hides
    others). delayacct: whether delay accounting is on, None unknown. delayacct_since: it counts only tasks that started
    after this time in ticks; None if it counts all.

    adaptive: not every io is read in every sweep. io_at: the time of each cohort's (pid % cohorts) newest io, () where
    all have ``io_at_ns``; io_out: the time of those read outside their cohort's turn. io_since: for processes that were
    not read for a while, when their counters began to grow, where that is known to be later than their last reading.
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
        """Processes whose main thread is in state D, by pid."""
        return blocked(self.stat)

    def delay_counted(self, key: ProcessKey) -> bool:
        """Whether the kernel counts this process's delays: it started while accounting was on, or has ticks."""
        if not self.delayacct:
            return False
        if self.delayacct_since is None or key.start_ticks >= self.delayacct_since:
            return True
        stat = self.stat.get(key)
        return stat is not None and stat.blkio_ticks > 0

    def stat_time(self, key: ProcessKey) -> int:
        """Monotonic ns at which this process's stat was last read."""
        out = self.stat_out.get(key)
        return self.stat_at[key.pid % len(self.stat_at)] if out is None else out

    def io_time(self, key: ProcessKey) -> int:
        """Monotonic ns at which this process's io was last read."""
        at = self.io_stale.get(key)
        if at is None:
            at = self.io_out.get(key)
        if at is None:
            return self.io_at[key.pid % len(self.io_at)] if self.io_at else self.io_at_ns
        return at


class ProcessRates(NamedTuple):
    """Rates of one process over one interval. None: unknown (first sight, denied, delay accounting off)."""

    read_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes fetched from storage per second.", "kB_rd/s")]
    write_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes dirtied for storage per second.", "kB_wr/s")]
    cancelled_bytes_per_s: Annotated[
        float | None, Metric("B/s", "Dirtied bytes dropped before they were written, per second.", "kB_ccwr/s")
    ]
    rchar_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes passed to read calls per second, cache included.")]
    wchar_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes passed to write calls per second.")]
    read_calls_per_s: Annotated[float | None, Metric("1/s", "Read system calls per second.")]
    write_calls_per_s: Annotated[float | None, Metric("1/s", "Write system calls per second.")]
    cpu_ratio: Annotated[float | None, Metric("ratio", "CPU used, 1.0 is one core.", "%CPU")]
    io_delay_ratio: Annotated[
        float | None,
        Metric(
            "ratio",
            "Share of time blocked on block I/O, 0 to 1, of its most blocked thread. Unknown while delay accounting is "
            "off, and for a process that started meanwhile until its count grows.",
        ),
    ]
    major_faults_per_s: Annotated[float | None, Metric("1/s", "Faults that needed I/O, per second.", "majflt/s")]
    incl_children: bool = False
    """The io may hold a reaped child's bytes that could not be taken off."""
    main_thread_only: bool = False
    """The process has several threads: io_delay_ratio, state and wchan are its main thread's."""
    threads_looked: int | None = None
    """io_delay_ratio covers this many threads, those with the lowest ids; None: all of them."""
    io_s: float | None = None
    """Seconds between the two readings of its io: 0.0 where it was not read again, and its rates are repeated. None:
    not recorded. Rates times these seconds add up to the counters' growth."""
    stat_s: float | None = None
    """As ``io_s``, for its stat: CPU, io_delay_ratio and faults."""


UNKNOWN_PROCESS_RATES = ProcessRates(*[None] * 10)  # type: ignore[arg-type]


class Debt(NamedTuple):
    """A vanished process whose last counters no process has inherited yet."""

    key: ProcessKey
    ppid: int
    io: ProcessIo
    faults: int
    """minflt + cminflt at its last reading: the cminflt of the process that reaps it grows by this much."""


class ProcessSample(NamedTuple):
    """The processes with a non-zero or unknown rate or in state D; all others are idle and only in the Snapshot.

    debts: not yet settled; they wait for one more Snapshot.
    """

    rates: Mapping[ProcessKey, ProcessRates]
    debts: tuple[Debt, ...] = ()
    cminflt_before: Mapping[ProcessKey, int] = {}
    """cminflt one Snapshot earlier of processes that may still settle a debt, so growth is counted over both."""
