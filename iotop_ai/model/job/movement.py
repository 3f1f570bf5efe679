"""Detects whether a job makes any progress, by its CPU time, its I/O and its waits for devices.

Even in a job that hangs, some processes do a little: an experiment tracker that samples the machine, a watchdog, a
client that pings its server. Over 10 s they do less than a working job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, quotient
from iotop_ai.model.job.looks import LookCounts
from iotop_ai.model.process.records import ProcessKey

WINDOW_NS = 10_000_000_000
PROGRESS_CORES = 0.01
PROGRESS_BYTES_PER_S = 32_768
"""A job makes progress if the mean rate of one of its training processes over the window exceeds either limit.

Beside an idle trainer, wandb 0.23 uses 0.002 cores and moves 60 B/s, plus 180 kB every 15 s. The threads of
torch.distributed use 0.006 cores in each rank that waits for a lost peer, so the limits apply to each process, not to
their sum.
"""


class Totals(NamedTuple):
    """Counters of a training process and all processes below it; None if unknown.

    read, chars, write, ticks: bytes read from devices, bytes read by system calls, bytes written to devices, CPU ticks
    own_ticks, own_read, own_write: CPU ticks, bytes read and bytes written of the process itself, without children that
        it reaped; own_read is the larger of the bytes from devices and those by system calls
    stat_ns: the time at which own_ticks was read; 0 if it never was
    run_ns, wait_ns: how long the main thread ran on a CPU, and how long it waited for one
    """

    read: int | None = None
    chars: int | None = None
    write: int | None = None
    ticks: int = 0
    own_ticks: int = 0
    own_read: int | None = None
    own_write: int | None = None
    stat_ns: int = 0
    run_ns: int | None = None
    wait_ns: int | None = None

    def core_wait(self, before: Totals) -> float | None:
        """The share of the main thread's runnable time since ``before``, 0..1, in which it waited for a core."""
        run, wait = delta(before.run_ns, self.run_ns), delta(before.wait_ns, self.wait_ns)
        return quotient(wait, None if run is None or wait is None else run + wait)


class RecentRates(NamedTuple):
    """The bytes per second of a training process over the last 10 s, or since it was first watched; None if unknown.

    own_read, own_write: the bytes of the process itself, without its children
    """

    write: float | None = None
    own_read: float | None = None
    own_write: float | None = None


def recent_rates(past: deque[tuple[int, Totals]], at_ns: int, now: Totals) -> RecentRates:
    """The rates from the oldest totals of the last 10 s to ``now``.

    past: earlier (time, totals), oldest first; ``now`` is added to it, and older totals are removed
    """
    past.append((at_ns, now))
    while at_ns - past[0][0] > WINDOW_NS:
        past.popleft()
    oldest_ns, oldest = past[0]
    if at_ns <= oldest_ns:
        return RecentRates()
    pairs = ((oldest.write, now.write), (oldest.own_read, now.own_read), (oldest.own_write, now.own_write))
    growths = [delta(a, b) for a, b in pairs]
    return RecentRates(*(None if growth is None else growth / (at_ns - oldest_ns) * 1e9 for growth in growths))


class Movement:
    """Records when a job last made progress (``at_ns``); ``update`` is called once per interval."""

    __slots__ = ("_base", "_base_ns", "at_ns")

    def __init__(self, at_ns: int) -> None:
        self.at_ns = at_ns
        self._base_ns = at_ns
        """The time of ``_base``: the newest progress, or the end of the newest window without progress."""
        self._base: Mapping[ProcessKey, Totals] = {}
        """The counters with which new counters are compared."""

    def update(
        self, now_ns: int, totals: Mapping[ProcessKey, Totals], looks: Mapping[ProcessKey, LookCounts], clk_tck: int
    ) -> None:
        """Add the counters of one interval.

        totals: the counters of the job's training processes
        looks: how often each training process was seen in each state during the interval
        """
        seconds = max(now_ns - self._base_ns, WINDOW_NS) / 1e9
        if self._made_progress(totals, looks, seconds, clk_tck):
            self.note_progress(now_ns, totals)
        elif now_ns - self._base_ns >= WINDOW_NS:
            self._base_ns, self._base = now_ns, totals

    def note_progress(self, now_ns: int, totals: Mapping[ProcessKey, Totals]) -> None:
        """Note that the job makes progress now."""
        self.at_ns = self._base_ns = now_ns
        self._base = totals

    def _made_progress(
        self,
        totals: Mapping[ProcessKey, Totals],
        looks: Mapping[ProcessKey, LookCounts],
        seconds: float,
        clk_tck: int,
    ) -> bool:
        """Whether the job has other processes than ``_base``, its counters changed enough, or it waits for a device."""
        if totals.keys() != self._base.keys():
            return True
        changes = [_changes(self._base[key], now) for key, now in totals.items()]
        ticks_limit, bytes_limit = PROGRESS_CORES * clk_tck * seconds + 1, PROGRESS_BYTES_PER_S * seconds
        if any(ticks > ticks_limit or bytes_ > bytes_limit for ticks, bytes_ in changes):
            return True
        moved = any(bytes_ for _, bytes_ in changes)
        counts = [looks[key] for key in totals if key in looks]
        # A process that reads from a very slow device is blocked nearly all the time, but still gets a few bytes.
        at_disk = any(count.waits.disk or count.futex.disk or count.futex_computing.disk for count in counts)
        return any(count.main_disk or count.main_write or (at_disk and moved) for count in counts)


def _changes(before: Totals, now: Totals) -> tuple[int, int]:
    """By how much the sums of CPU ticks and of bytes changed, up or down: the end of a process lowers them."""
    pairs = zip(before[:3], now[:3], strict=True)
    moved = sum(abs(b - a) if a is not None and b is not None else int(a != b) for a, b in pairs)
    return abs(now.ticks - before.ticks), moved
