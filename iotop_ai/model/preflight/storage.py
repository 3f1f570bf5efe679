"""The measurements of a storage check: the phases, their results, the target and the thresholds."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.preflight.dataset import DATASET, Dataset

KIB, MIB = 1 << 10, 1 << 20
FILE_BYTES = 128 * KIB
"""The default size of the small files, which is about that of an ImageNet picture (110 KB)."""
CREATE, STAT, WRITE, CACHED = "create", "stat", "write", "cached"
SEQUENTIAL, READAHEAD, RANDOM, FILES = "sequential", "readahead", "random", "files"
DEEPEST = 64
"""The largest number of reads in flight."""
MOST_UNEVEN = 2.0
"""The largest accepted ratio between the mean sizes of a dataset's files and of the files that were read."""
CHILD = "iotop_ai.preflight.storage.child"
"""The module of the measuring process. The I/O of a check is the I/O of this process and its descendants."""


class Phase(NamedTuple):
    """One measurement to make.

    depth: the number of reads in flight, or of readers; 0 for the scan of a dataset
    seconds: the time that the measurement may take
    """

    name: str
    block_bytes: int
    depth: int
    seconds: float


class Latency(NamedTuple):
    """The times of single operations in ms; ``most_ms`` is the longest.

    p90_ms, p99_ms: None if there were too few operations for this percentile (``enough_for``)
    """

    mean_ms: float
    p50_ms: float
    p90_ms: float | None
    p99_ms: float | None
    most_ms: float


class Measured(NamedTuple):
    """The result of a phase.

    size_bytes: the bytes read or written by all operations
    cpu_bound: whether one reader used a whole core, or all readers together used all cores that they can run on
    unread_bytes: the bytes left unread in files whose reading had begun when the time was over
    """

    name: str
    block_bytes: int
    depth: int
    ops: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    latency: Latency | None = None
    cpu_bound: bool = False
    unread_bytes: int = 0

    @property
    def mean_file_bytes(self) -> float:
        """The mean size of the files whose reading began; 0 without files."""
        return (self.size_bytes + self.unread_bytes) / self.ops if self.ops else 0.0

    @property
    def ops_per_s(self) -> float | None:
        """The operations per second; None if no operation ended. A file that was read in part counts in part."""
        if not self.ops or self.seconds <= 0:
            return None
        done_ratio = self.size_bytes / (self.size_bytes + self.unread_bytes) if self.unread_bytes else 1.0
        return self.ops * done_ratio / self.seconds

    @property
    def bytes_per_s(self) -> float | None:
        """The bytes per second; None if no byte was read or written."""
        return self.size_bytes / self.seconds if self.size_bytes and self.seconds > 0 else None


NAMED_FILE = "a file is only read"
"""The value of ``Target.why_not_written`` if the path is a file."""


class Target(NamedTuple):
    """The file or device that was read.

    kind: "own" (a file that the check wrote), "file" (the path itself, or the largest file below it) or "device"
    size_bytes: the size of the part that was read
    direct: whether reads bypass the page cache (O_DIRECT)
    written_bytes: the bytes that the check wrote to its own file
    why_not_written: why the check did not write a file; "" if it did
    """

    kind: str
    size_bytes: int
    direct: bool
    written_bytes: int = 0
    why_not_written: str = ""


_SHARES = (
    (CREATE, 0, 1, 0.03),
    (STAT, 0, 1, 0.03),
    (WRITE, MIB, 1, 0.16),
    (CACHED, MIB, 1, 0.04),
    (READAHEAD, MIB, 1, 0.08),
    (SEQUENTIAL, 128 * KIB, 1, 0.08),
    (SEQUENTIAL, MIB, 1, 0.08),
    (SEQUENTIAL, MIB, 8, 0.08),
    (RANDOM, 4 * KIB, 1, 0.10),
    (RANDOM, 4 * KIB, 4, 0.05),
    (RANDOM, 4 * KIB, 16, 0.05),
    (RANDOM, 4 * KIB, DEEPEST, 0.05),
    (RANDOM, 64 * KIB, 1, 0.05),
    (RANDOM, 64 * KIB, 16, 0.04),
    (FILES, FILE_BYTES, 1, 0.04),
)
"""The name, block size, depth and share of the time of each phase. A last phase, which is not in this table,
gets the remaining time: small files, read by as many readers as the loader has."""


DATASET_SHARES = (0.12, 0.15, 0.25)
"""The shares of the time for scanning a dataset, reading its files by one reader, and by the loader's readers."""


def plan(seconds: float, workers: int, file_bytes: int = FILE_BYTES, dataset: bool = False) -> tuple[Phase, ...]:
    """The phases of one check in order; together they take ``seconds``.

    workers: the number of readers of small files
    dataset: whether a dataset is read first
    """
    dataset_phases = tuple(
        Phase(DATASET, 0, depth, share * seconds)
        for depth, share in zip((0, 1, max(2, workers)), DATASET_SHARES, strict=True)
    )
    dataset_phases = dataset_phases if dataset else ()
    left = seconds - sum(phase.seconds for phase in dataset_phases)
    out = [
        Phase(name, file_bytes if name == FILES else block, depth, share * left)
        for name, block, depth, share in _SHARES
    ]
    last = Phase(FILES, file_bytes, max(2, workers), left - sum(phase.seconds for phase in out))
    return (*dataset_phases, *out, last)


def enough_for(percent: int, operations: int) -> bool:
    """Whether there are enough operations for a percentile: by nearest rank, it must not be the longest time."""
    return _rank(percent, operations) < operations


def _rank(percent: int, operations: int) -> int:
    return -(-percent * operations // 100)


def latency_of(times_ns: Sequence[int]) -> Latency | None:
    """The mean, the maximum, and percentiles by nearest rank; None without an operation."""
    if not times_ns:
        return None
    ordered = sorted(times_ns)
    count = len(ordered)
    p50, p90, p99 = (ordered[_rank(percent, count) - 1] / 1e6 for percent in (50, 90, 99))
    return Latency(
        sum(ordered) / count / 1e6,
        p50,
        p90 if enough_for(90, count) else None,
        p99 if enough_for(99, count) else None,
        ordered[-1] / 1e6,
    )


def fastest_read(results: Sequence[Measured]) -> float | None:
    """The bytes per second of the fastest sequential read without the page cache; None if unknown."""
    rates = [phase.bytes_per_s for phase in results if phase.name == SEQUENTIAL]
    return max((rate for rate in rates if rate is not None), default=None)


def is_uneven(phase: Measured, dataset: Dataset) -> bool:
    """Whether the files that were read are on average much larger or smaller than those of the dataset.

    If a reader is busy with one large file while others read many small ones, neither rate is that of the dataset.
    """
    expected = dataset.mean_read_bytes
    if phase.name != DATASET or not phase.ops or expected is None:
        return False
    return not expected / MOST_UNEVEN <= phase.mean_file_bytes <= expected * MOST_UNEVEN


def files_per_s(phase: Measured, dataset: Dataset | None) -> float | None:
    """The files per second of a phase that reads files; None if unknown.

    For a dataset, the rate is at most the bytes per second divided by the mean size of its files. If some of its files
    are read only in part, it is exactly that quotient.
    """
    if phase.name != DATASET or dataset is None:
        return phase.ops_per_s
    if phase.bytes_per_s is None or phase.ops_per_s is None or is_uneven(phase, dataset):
        return None
    by_bytes = phase.bytes_per_s / dataset.mean_bytes
    return by_bytes if dataset.read_in_part else min(by_bytes, phase.ops_per_s)


def most_files_per_s(results: Sequence[Measured], dataset: Dataset | None) -> float | None:
    """The highest rate in files per second that any number of readers reached; None if one of the rates is unknown.

    The files are those of the dataset or, without a dataset, the small files of the check.
    """
    name = DATASET if any(phase.name == DATASET for phase in results) else FILES
    rates = [files_per_s(phase, dataset) for phase in results if phase.name == name]
    known = [rate for rate in rates if rate is not None]
    return max(known) if known and len(known) == len(rates) else None


def read_await_ms(results: Sequence[Measured]) -> float | None:
    """The mean time of a random 4 KiB read while no other read is in flight; None if unknown."""
    phases = (phase for phase in results if (phase.name, phase.block_bytes, phase.depth) == (RANDOM, 4 * KIB, 1))
    return next((phase.latency.mean_ms for phase in phases if phase.latency is not None), None)


class Threshold(NamedTuple):
    """A limit that the user set.

    at_most: whether the limit is an upper limit; otherwise it is a lower limit
    value: the measured value; None if unknown
    why: why the value is unknown; "" if it is known or was not measured
    """

    flag: str
    limit: float
    value: float | None
    at_most: bool = False
    why: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the storage meets the limit; None if unknown."""
        if self.value is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit
