"""A dataset as a loader reads it, and how busy that keeps a GPU."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

DATASET = "dataset"
"""Name of the phases that read the dataset's own files."""
MOST_OF_A_FILE = 64 << 20
"""Bytes read of one file at most, from its beginning."""
NEAR = 0.9
"""Part of perfect scaling above which more readers still give more."""


class Decoding(NamedTuple):
    """Decoding of a sample in the user's Python. decoder: "Pillow 10.4.0"; "" without one, for the reason in why.

    cpu_s: CPU time of all ``files``, which were decoded; failed: files that it could not decode.
    """

    decoder: str = ""
    files: int = 0
    failed: int = 0
    cpu_s: float = 0.0
    why: str = ""

    @property
    def file_s(self) -> float | None:
        """CPU seconds per file; None when unknown."""
        return self.cpu_s / self.files if self.files else None

    @property
    def unmeasured(self) -> bool:
        """Whether there are pictures whose decoding takes an unknown time."""
        return not self.files and bool(self.failed or self.why)


class Dataset(NamedTuple):
    """The files of a dataset.

    files, size_bytes: as far as the scan came; complete: whether that is all. p10_bytes, p50_bytes, p90_bytes,
    most_bytes: sizes of single files. sampled: files of the random sample; resident_bytes, known_bytes: of those whose
    state this user may know, how much is in the page cache. cold: sampled files of which nothing was in memory; past:
    whether these are too few, so that those in memory are read past the page cache. unreadable: unreadable files.
    holes: further files of the sample with holes, which are not read. elsewhere, linked_folders: folders that were left
    out because they are on other filesystems, or links.
    """

    files: int
    size_bytes: int
    complete: bool
    p10_bytes: int = 0
    p50_bytes: int = 0
    p90_bytes: int = 0
    most_bytes: int = 0
    sampled: int = 0
    resident_bytes: int = 0
    known_bytes: int = 0
    cold: int = 0
    past: bool = False
    unreadable: int = 0
    holes: int = 0
    elsewhere: int = 0
    linked_folders: int = 0

    @property
    def resident_ratio(self) -> float | None:
        """Share in the page cache; None unknown."""
        return self.resident_bytes / self.known_bytes if self.known_bytes else None

    @property
    def cut(self) -> bool:
        """Whether some files are read in part only."""
        return self.most_bytes > MOST_OF_A_FILE

    @property
    def mean_bytes(self) -> float:
        """Mean size of a file; 0 without files."""
        return self.size_bytes / self.files if self.files else 0.0

    def fits(self, room_bytes: int | None) -> bool | None:
        """Whether all of it fits into memory; None unknown."""
        if room_bytes is None or (not self.complete and self.size_bytes <= room_bytes):
            return None
        return self.size_bytes <= room_bytes


class Demand(NamedTuple):
    """What the training asks for. workers: 0 loads in the training process itself. cores: those that it may use."""

    samples_per_s: float
    workers: int
    sample_bytes: float
    cores: float


class Supply(NamedTuple):
    """What was measured, samples/s. alone: by one reader; together: by as many as there are workers.

    decode_s: CPU seconds a sample, 0 without decoding. cached: share in the page cache, which costs no reading.
    """

    alone: float
    together: float
    decode_s: float = 0.0
    cached: float = 0.0


class Forecast(NamedTuple):
    """The share of its time that the GPU works, 0..1, and what holds it back.

    samples_per_s: what the loader gives. first: the first epoch; later: the following ones, when they read from memory;
    None when the dataset does not fit or that is unknown. bound: gpu, storage, decode. workers: enough of them to keep
    the GPU busy, where more help; None where they do not.
    """

    samples_per_s: float
    first: float
    later: float | None
    bound: str
    workers: int | None = None


def forecast(demand: Demand, supply: Supply, fits: bool | None) -> Forecast:
    """The forecast for a loader whose workers read a sample, decode it, and go on to the next.

    Workers share the storage (at most ``together``) and the cores; each handles one sample at a time. Without workers
    the GPU waits for each sample.
    """
    cold = 1.0 - supply.cached
    alone_s = cold / supply.alone + supply.decode_s
    if not demand.workers:
        step_s = 1.0 / demand.samples_per_s
        first = step_s / (step_s + alone_s)
        later = step_s / (step_s + supply.decode_s) if fits else None
        bound = "storage" if cold / supply.alone >= supply.decode_s else "decode"
        return Forecast(1 / alone_s if alone_s else float("inf"), first, later, bound)
    busy = _by_decoding(demand, supply)
    by_storage = supply.together / cold if cold else float("inf")
    by_turns = demand.workers / alone_s if alone_s else float("inf")
    given = min(busy, by_storage, by_turns)
    later = min(1.0, busy / demand.samples_per_s) if fits else None
    first = min(1.0, given / demand.samples_per_s)
    bound = "gpu" if first >= 1.0 else "decode" if busy <= min(by_storage, by_turns) else "storage"
    return Forecast(given, first, later, bound, _enough(demand, supply, alone_s) if first < 1.0 else None)


def _by_decoding(demand: Demand, supply: Supply) -> float:
    cores = min(float(demand.workers), demand.cores)
    return cores / supply.decode_s if supply.decode_s else float("inf")


def _enough(demand: Demand, supply: Supply, alone_s: float) -> int | None:
    """The larger number of workers that keeps the GPU busy; None where the storage or the cores cannot."""
    scales = supply.together >= NEAR * demand.workers * supply.alone
    enough = -int(-demand.samples_per_s * alone_s // 1)
    cores = demand.samples_per_s * supply.decode_s
    return enough if scales and cores <= demand.cores and demand.workers < enough <= 4 * demand.workers else None
