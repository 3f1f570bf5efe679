"""Limits on a recording, so that a crafted file cannot use up the reader's memory or time.

A machine with 40,000 processes, 2,000 block devices and 16 GPUs, read once a second, stays below each limit: its
keyframe is 11 MB with 1.6 million values, a line of changes 0.15 MB, a block of 60 s 20 MB
(tests/store/format/test_size_limits.py). The writer observes LONGEST_LINE by shortening command lines, and
LARGEST_BLOCK by writing a keyframe earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sized

from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import HISTORY_S
from iotop_ai.store.format.scalars import ShapeError

MIB = 1 << 20
LONGEST_LINE = 16 * MIB
"""The maximum number of bytes in a line."""
MOST_ENTRIES = 65_536
"""The maximum number of entries in any mapping, set or list. A machine's largest table is that of its processes."""
MOST_ENTRIES_OF = {
    **dict.fromkeys(("BlockCounters", "BlockInfo", "BlockRates", "SmartState", "DeviceErrors", "DeviceBaseline"), 4096),
    **dict.fromkeys(("Mount", "FilesystemUsage", "JobMount"), 16_384),
    **dict.fromkeys(("LinkCounters", "LinkRates", "NfsMount", "NfsRates", "FuseMount"), 4096),
    **dict.fromkeys(("RdmaCounters", "RdmaRates", "Cgroup", "CgroupRates", "CgroupIo", "CgroupIoRates"), 4096),
    **dict.fromkeys(("ProgramIo", "ProgramIoRates", "BtrfsErrors"), 4096),
    **dict.fromkeys(("StepCounts", "StepRates"), 16_384),
    **dict.fromkeys(("CpuTicks", "CoreRates"), 8192),
    **dict.fromkeys(("GpuState", "GpuRates", "GpuDetail", "GpuMemory"), 256),
    **dict.fromkeys(("Job", "JobRates", "JobMemory", "JobPlace", "Rank"), 1024),
    **dict.fromkeys(("Finding", "ActiveFinding", "FindingTotal"), 16_384),
    **dict.fromkeys(("Evidence", "RuledOut", "Advice"), 256),
    **dict.fromkeys(("Event", "WorkerRestart"), 4096),
    **dict.fromkeys(("SmartAttribute", "Judgement", "PastPoint", "SelfTest", "ErrorEntry"), 4096),
    **dict.fromkeys(("GpuInstance", "GpuEarlier", "PressureTotals", "IoLimit", "NfsOp", "NfsOpRates"), 256),
}
"""Lower limits than MOST_ENTRIES, by the record's name, mostly for records that rules compare pairwise. Linux supports
at most 8192 cores. Each filesystem may be full, so there may be as many findings as filesystems."""
MOST_VALUES = 4_000_000
"""The maximum number of values in a line: numbers, texts and lists. An object counts as four because of the memory that
it takes."""
MOST_WAITING = 4096
"""The maximum number of events that belong to one Snapshot; writers keep within model.snapshot.MOST_EVENTS."""
MOST_BLOCK_EVENTS = 64 * MOST_WAITING
"""The maximum number of events from one keyframe to the next."""
MOST_BLOCK_LINES = MOST_BLOCK_EVENTS + 16_384
"""The maximum number of lines from one keyframe to the next, empty lines and those of unknown kinds included."""
LARGEST_BLOCK = 64 * MIB
"""The maximum number of bytes from one keyframe to the next."""
LARGEST_HISTORY = 192 * MIB
"""The maximum number of bytes of the Snapshots whose rates are kept for the rules."""
MOST_SNAPSHOTS = 12_000
"""The maximum number of Snapshots in HISTORY_S. The fastest imported logs, those of nvidia-smi -lms, have at most
200 samples a second."""
MOST_ROWS = 8_000_000
"""The maximum number of processes, summed over the Snapshots in HISTORY_S: enough for 10,000 at the shortest interval,
0.1 s. At intervals of 0.5 s and more, MOST_ENTRIES is the stricter limit."""
MOST_CELLS = 20_000_000
"""The maximum number of figures in the tables of rates except that of the processes, summed over the Snapshots in
HISTORY_S: enough for 2,000 disks at 0.2 s, or for 1,000 at the shortest interval. Each figure takes 32 bytes."""
MOST_BLOCKS = 600_000
"""The maximum number of keyframes in a file: one per minute for a year."""
_HISTORY_NS = int(HISTORY_S * 1e9)


class LineTooLong(Exception):  # noqa: N818 - a size, not a fault of the program
    """A Snapshot that does not fit into LONGEST_LINE."""

    def __init__(self) -> None:
        super().__init__(f"a snapshot is larger than {LONGEST_LINE // MIB} MiB")


def check_size(entries: Sized, most: int) -> None:
    """Check the number of a table's entries. Raises ShapeError if there are more than ``most``."""
    if len(entries) > most:
        raise ShapeError(f"more than {most} entries in one table")


def count_values(text: bytes | str) -> int:
    """The approximate number of values in JSON, counted without parsing it. An object counts as four."""
    if isinstance(text, str):
        return text.count(",") + text.count("[") + 4 * text.count("{")
    return text.count(b",") + text.count(b"[") + 4 * text.count(b"{")


def check_values(line: bytes) -> None:
    """Check the number of values in a line before it is parsed. Raises ShapeError."""
    if count_values(line) > MOST_VALUES:
        raise ShapeError(f"more than {MOST_VALUES} values in one line")


def check_block_count(count: int) -> None:
    """Check the number of a file's keyframes. Raises InputError."""
    if count > MOST_BLOCKS:
        raise InputError(f"more than {MOST_BLOCKS} keyframes in one file")


class ReaderBudget:
    """Counts the data that a reader keeps in memory: that of the newest block and of the last minute.

    The methods raise ShapeError when a limit is exceeded.
    """

    def __init__(self) -> None:
        self._block_bytes = 0
        self._window: deque[tuple[int, int, int, int]] = deque()
        """For each Snapshot in HISTORY_S: (monotonic time in ns, bytes of its line, processes, other figures)."""
        self._bytes = self._rows = self._cells = 0
        self._waiting = self._block_events = 0

    def count_event(self) -> None:
        """Count an event that waits for its Snapshot."""
        self._waiting += 1
        self._block_events += 1
        if self._waiting > MOST_WAITING:
            raise ShapeError(f"more than {MOST_WAITING} events before a Snapshot")
        if self._block_events > MOST_BLOCK_EVENTS:
            raise ShapeError(f"more than {MOST_BLOCK_EVENTS} events from one keyframe to the next")

    def count_line(self, length: int, key: bool) -> None:
        """Count the line of a Snapshot before it is decoded or skipped; ``length`` is its number of bytes."""
        self._waiting = 0
        if key:
            self._block_bytes = self._block_events = 0
        self._block_bytes += length
        if self._block_bytes > LARGEST_BLOCK:
            raise ShapeError(f"more than {LARGEST_BLOCK // MIB} MiB from one keyframe to the next")

    def count_snapshot(self, at_ns: int, length: int, rows: int, cells: int = 0) -> None:
        """Count a decoded Snapshot.

        rows: the number of its processes
        cells: the number of figures in its other rates
        """
        window = self._window
        # A Snapshot that is not later belongs to another session, so the window starts again.
        if window and at_ns <= window[-1][0]:
            window.clear()
            self._bytes = self._rows = self._cells = 0
        while window and window[0][0] <= at_ns - _HISTORY_NS:
            _, old_bytes, old_rows, old_cells = window.popleft()
            self._bytes -= old_bytes
            self._rows -= old_rows
            self._cells -= old_cells
        window.append((at_ns, length, rows, cells))
        self._bytes += length
        self._rows += rows
        self._cells += cells
        if len(window) > MOST_SNAPSHOTS:
            raise ShapeError(f"more than {MOST_SNAPSHOTS} Snapshots in {HISTORY_S:.0f} s")
        if self._bytes > LARGEST_HISTORY:
            raise ShapeError(f"more than {LARGEST_HISTORY // MIB} MiB in {HISTORY_S:.0f} s")
        if self._rows > MOST_ROWS:
            raise ShapeError(f"more than {MOST_ROWS} rows of processes in {HISTORY_S:.0f} s")
        if self._cells > MOST_CELLS:
            raise ShapeError(f"more than {MOST_CELLS} figures of rates in {HISTORY_S:.0f} s")
