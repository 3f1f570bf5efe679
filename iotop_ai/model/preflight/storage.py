"""What a storage check measures: its phases, their results, its target and its thresholds."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.preflight.dataset import DATASET, Dataset

KIB, MIB = 1 << 10, 1 << 20
FILE_BYTES = 128 * KIB
"""Size of the small files unless the dataset gives another: about that of an ImageNet picture (110 KB)."""
CREATE, STAT, WRITE, CACHED = "create", "stat", "write", "cached"
SEQUENTIAL, READAHEAD, RANDOM, FILES = "sequential", "readahead", "random", "files"
DEEPEST = 64


class Phase(NamedTuple):
    """One measurement to make. depth: reads in flight, or readers. seconds: its share of the time."""

    name: str
    block_bytes: int
    depth: int
    seconds: float


class Latency(NamedTuple):
    """Times of single operations in ms. most_ms: the longest."""

    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    most_ms: float


class Measured(NamedTuple):
    """The result of a phase.

    size_bytes: moved by all operations. cpu_bound: a reader kept a core busy, or all did every core.
    """

    name: str
    block_bytes: int
    depth: int
    ops: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    latency: Latency | None = None
    cpu_bound: bool = False

    @property
    def ops_per_s(self) -> float | None:
        """Operations per second; None when none ended."""
        return self.ops / self.seconds if self.ops and self.seconds > 0 else None

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes per second; None when none moved."""
        return self.size_bytes / self.seconds if self.size_bytes and self.seconds > 0 else None


NAMED_FILE = "a file is only read"
"""``Target.why_not_written`` where the path names the file itself."""


class Target(NamedTuple):
    """What was read. kind: "own" (a file of this check), "file" (the path itself or the largest one below), "device".

    size_bytes: size of the part read. direct: it bypasses the page cache (O_DIRECT). written_bytes: sent to our own
    file. why_not_written: why it has no file of its own; "" when it has one.
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
"""Name, block size, depth and share of the time of each phase; files per second by the loader's readers take the rest.
"""


DATASET_SHARES = (0.12, 0.15, 0.25)
"""Shares of the time for a dataset's scan, its files by one reader, and its files by the loader's readers."""


def plan(seconds: float, workers: int, file_bytes: int = FILE_BYTES, dataset: bool = False) -> tuple[Phase, ...]:
    """The phases of one check, in order; together they take ``seconds``. workers: readers of small files."""
    files = tuple(
        Phase(DATASET, 0, depth, share * seconds)
        for depth, share in zip((0, 1, max(2, workers)), DATASET_SHARES, strict=True)
    )
    files = files if dataset else ()
    left = seconds - sum(phase.seconds for phase in files)
    out = [
        Phase(name, file_bytes if name == FILES else block, depth, share * left)
        for name, block, depth, share in _SHARES
    ]
    last = Phase(FILES, file_bytes, max(2, workers), left - sum(phase.seconds for phase in out))
    return (*files, *out, last)


def latency_of(times_ns: Sequence[int]) -> Latency | None:
    """Mean and percentiles by nearest rank; None without an operation."""
    if not times_ns:
        return None
    ordered = sorted(times_ns)
    most = len(ordered)

    def rank(percent: int) -> float:
        return ordered[-(-percent * most // 100) - 1] / 1e6

    return Latency(sum(ordered) / most / 1e6, rank(50), rank(90), rank(99), ordered[-1] / 1e6)


def fastest_read(results: Sequence[Measured]) -> float | None:
    """Bytes per second of the fastest sequential read past the page cache; None unknown."""
    rates = [one.bytes_per_s for one in results if one.name == SEQUENTIAL]
    return max((rate for rate in rates if rate is not None), default=None)


def files_per_s(one: Measured, dataset: Dataset | None) -> float | None:
    """Whole files per second of a row of files; by their bytes where some were read in part only."""
    if one.name == DATASET and dataset is not None and dataset.cut:
        return None if one.bytes_per_s is None else one.bytes_per_s / dataset.mean_bytes
    return one.ops_per_s


def most_files(results: Sequence[Measured], dataset: Dataset | None) -> float | None:
    """Files per second, by the number of readers that gives most: the dataset's own, else small ones; None unknown."""
    name = DATASET if any(one.name == DATASET for one in results) else FILES
    rates = [files_per_s(one, dataset) for one in results if one.name == name]
    return max((rate for rate in rates if rate is not None), default=None)


def read_await_ms(results: Sequence[Measured]) -> float | None:
    """Mean time of a random 4 KiB read without others beside it; None unknown."""
    found = (one for one in results if (one.name, one.block_bytes, one.depth) == (RANDOM, 4 * KIB, 1))
    return next((one.latency.mean_ms for one in found if one.latency is not None), None)


class Threshold(NamedTuple):
    """A limit of the user. at_most: the value may not exceed it; else it must reach it. value: None unknown."""

    flag: str
    limit: float
    value: float | None
    at_most: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the storage meets it; None unknown."""
        if self.value is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit
