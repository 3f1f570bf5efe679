"""Measures the activity of processes that may belong to a job: whether they work, how much, and whether they grew.

A tick is one reading of the whole machine. ``utime_ticks``, BUSY_TICKS and similar names mean clock ticks of CPU time.
"""

from __future__ import annotations

from collections.abc import Set

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.detection import Work
from iotop_ai.model.job.order import BYTES_OF_A_CORE
from iotop_ai.model.process.records import ProcessKey, ProcessTable

EVERY_S = 5.0
"""The seconds between two measurements."""
LEAST_ACTIVITY = 0.1
"""The least activity, in cores, of a process that works. 100 MB/s of I/O count as one core.

A process counts as working once two measurements in a row have found it at work: a program that only imports its
libraries is idle again by the second measurement.
"""
_WORKING_STATES = ("R", "D")
"""A process in one of these states works, whatever its activity: it runs, or waits for nothing but a CPU or a disk."""
BUSY_TICKS = 100
"""One second of CPU time: Linux shows 100 clock ticks a second to programs."""
BUSY_BYTES = 8 << 20
"""A process counts as busy once it has read this many bytes from storage, or has used BUSY_TICKS of CPU time."""
GROWTH_FACTOR, GROWTH_BYTES = 1.5, 64 << 20
"""A process is inspected again when its memory has grown by half plus 64 MiB.

It may have loaded a library in the meantime.
"""


class _Measurement(NamedTuple):
    """The figures of a process at a measurement.

    io_bytes: the bytes that it has read and written; None when we cannot read them. worked: whether it worked in the
    interval that ended with this measurement.
    """

    at_ns: int
    ticks: int
    io_bytes: int | None
    worked: bool = False


class ActivityTracker:
    """Measures the processes that may belong to a job. Call ``update`` in each tick.

    work: the newest result. ``busy`` is updated in each tick, ``two_way`` stays empty, and the other fields are updated
    every ``EVERY_S`` seconds. grown: the processes to inspect again, because their memory has grown; the caller
    removes those that it has inspected.
    """

    def __init__(self) -> None:
        self._measurements: dict[ProcessKey, _Measurement] = {}
        self._working: set[ProcessKey] = set()
        """The processes that at some time have worked in two measurements in a row."""
        self._pages: dict[ProcessKey, int] = {}
        """The resident pages of each process when it was first measured, or when it was last found to have grown."""
        self._due_ns = 0
        self.work = Work()
        self.grown: set[ProcessKey] = set()

    def update(self, table: ProcessTable, candidates: Set[ProcessKey], now_ns: int) -> None:
        """Update the results with the processes of one tick. candidates: the processes to measure."""
        busy = frozenset(key for key in candidates if _busy(table, key))
        if busy != self.work.busy:
            self.work = self.work._replace(busy=busy)
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + int(EVERY_S * 1e9)
            self._measure(table, candidates)

    def forget(self, key: ProcessKey) -> None:
        """Forget a process that has ended."""
        for figures in (self._measurements, self._pages):
            figures.pop(key, None)
        self._working.discard(key)
        self.grown.discard(key)

    def _measure(self, table: ProcessTable, candidates: Set[ProcessKey]) -> None:
        cores: dict[ProcessKey, float] = {}
        bytes_per_s: dict[ProcessKey, float] = {}
        growth_pages = GROWTH_BYTES // table.page_bytes
        for key in candidates:
            stat, io = table.stat.get(key), table.io.get(key)
            if stat is None:
                continue
            earlier = self._measurements.get(key)
            ticks = stat.utime_ticks + stat.stime_ticks
            io_bytes = None if io is None else io.read_bytes + io.write_bytes
            now = _Measurement(table.stat_time(key), ticks, io_bytes)
            seconds = 0.0 if earlier is None else (now.at_ns - earlier.at_ns) / 1e9
            if earlier is not None and seconds <= 0:
                continue
            if earlier is not None:
                cores[key] = max(0.0, (ticks - earlier.ticks) / table.clk_tck / seconds)
                if io_bytes is not None and earlier.io_bytes is not None:
                    bytes_per_s[key] = max(0.0, (io_bytes - earlier.io_bytes) / seconds)
                activity = cores[key] + bytes_per_s.get(key, 0.0) / BYTES_OF_A_CORE
                worked = activity >= LEAST_ACTIVITY or stat.state in _WORKING_STATES
                if worked and earlier.worked:
                    self._working.add(key)
                now = now._replace(worked=worked)
            self._measurements[key] = now
            if stat.rss_pages >= GROWTH_FACTOR * self._pages.setdefault(key, stat.rss_pages) + growth_pages:
                self._pages[key] = stat.rss_pages
                self.grown.add(key)
        self.work = Work(self.work.busy, frozenset(self._working), cores, bytes_per_s)


def _busy(table: ProcessTable, key: ProcessKey) -> bool:
    """Whether the process has computed for a second or read 8 MiB from storage since it started."""
    stat, io = table.stat.get(key), table.io.get(key)
    if stat is not None and stat.utime_ticks + stat.stime_ticks >= BUSY_TICKS:
        return True
    return io is not None and io.read_bytes >= BUSY_BYTES
