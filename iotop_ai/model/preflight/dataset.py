"""A dataset, and a forecast of how busy a loader that reads it can keep the GPU."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

DATASET = "dataset"
"""The name of the phases that read the dataset's own files."""
MOST_OF_A_FILE = 64 << 20
"""The most bytes that are read from one file, starting at its beginning."""
NEAR = 0.9
"""If several readers reach this share of perfect scaling, still more readers are expected to be faster."""


class Decoding(NamedTuple):
    """The cost of decoding a sample in the user's Python.

    decoder: the library, such as "Pillow 10.4.0"; "" without one
    files: the number of files that were decoded
    failed: the number of files that the library could not decode
    cpu_s: the CPU time of decoding all ``files``, in seconds
    why: why there is no decoder
    """

    decoder: str = ""
    files: int = 0
    failed: int = 0
    cpu_s: float = 0.0
    why: str = ""

    @property
    def file_s(self) -> float | None:
        """The CPU seconds per file; None if unknown."""
        return self.cpu_s / self.files if self.files else None

    @property
    def unmeasured(self) -> bool:
        """Whether there are pictures but the time to decode them is unknown."""
        return not self.files and bool(self.failed or self.why)


class Dataset(NamedTuple):
    """The files of a dataset.

    files, size_bytes: the files and bytes that the scan found
    complete: whether the scan found all files
    p10_bytes, p50_bytes, p90_bytes, most_bytes: percentiles and maximum of the file sizes
    sampled: the number of files of the random sample that were examined
    known_bytes: the total size of the sampled files whose share in the page cache this user can see
    resident_bytes: how many of the known bytes are in the page cache
    cold: the number of sampled files of which nothing is in the page cache, as far as this user can see
    past: whether cached files are read instead, bypassing the page cache, because there are too few cold files
    unreadable: the number of unreadable files
    holes: the number of other files of the sample that are not read because they have holes
    elsewhere: the number of folders left out because they are on other filesystems
    linked_folders: the number of folders left out because they are links
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
        """The share of the dataset in the page cache; None if unknown."""
        return self.resident_bytes / self.known_bytes if self.known_bytes else None

    @property
    def read_in_part(self) -> bool:
        """Whether only a part of some files is read."""
        return self.most_bytes > MOST_OF_A_FILE

    @property
    def mean_bytes(self) -> float:
        """The mean size of a file; 0 without files."""
        return self.size_bytes / self.files if self.files else 0.0

    def fits(self, room_bytes: int | None) -> bool | None:
        """Whether the whole dataset fits into memory; None if unknown."""
        if room_bytes is None or (not self.complete and self.size_bytes <= room_bytes):
            return None
        return self.size_bytes <= room_bytes


class Demand(NamedTuple):
    """The data that the training needs, and the means of its loader.

    workers: the number of loader workers; 0 if the training process itself loads
    cores: the number of cores that the workers can use
    """

    samples_per_s: float
    workers: int
    sample_bytes: float
    cores: float


class Supply(NamedTuple):
    """The rates of the storage and the decoder; ``alone`` and ``together`` are in samples per second.

    alone: the rate of one reader
    together: the rate of as many readers as there are workers
    decode_s: the CPU seconds per sample; 0 without decoding
    cached: the share of the dataset in the page cache, which does not have to be read
    """

    alone: float
    together: float
    decode_s: float = 0.0
    cached: float = 0.0


class Forecast(NamedTuple):
    """The share of time in which the GPU works, 0 to 1, and its limit.

    samples_per_s: the rate that the loader could deliver in the first epoch
    first: the share in the first epoch
    later: the share in later epochs, which read from memory; None if the dataset may not fit
    bound: the limit: gpu, storage or decode; if the workers' turns limit the rate, the longer part of a turn
    workers: the number of workers that would keep the GPU busy; None if the GPU is busy already, if workers would not
    help, or without workers
    """

    samples_per_s: float
    first: float
    later: float | None
    bound: str
    workers: int | None = None


def forecast(demand: Demand, supply: Supply, fits: bool | None) -> Forecast:
    """The forecast for a loader whose workers each read a sample, decode it, and continue with the next.

    The workers share the storage (at most ``together``) and the cores, and each handles one sample at a time. Without
    workers, the GPU waits for each sample.
    """
    cold = 1.0 - supply.cached
    alone_s = cold / supply.alone + supply.decode_s
    longer_part = "storage" if cold / supply.alone >= supply.decode_s else "decode"
    if not demand.workers:
        step_s = 1.0 / demand.samples_per_s
        first = step_s / (step_s + alone_s)
        later = step_s / (step_s + supply.decode_s) if fits else None
        return Forecast(1 / alone_s if alone_s else float("inf"), first, later, longer_part)
    by_decoding = _by_decoding(demand, supply)
    by_storage = supply.together / cold if cold else float("inf")
    by_turns = demand.workers / alone_s if alone_s else float("inf")
    samples_per_s = min(by_decoding, by_storage, by_turns)
    later = min(1.0, by_decoding / demand.samples_per_s) if fits else None
    first = min(1.0, samples_per_s / demand.samples_per_s)
    bound = "decode" if by_decoding <= by_storage else "storage"
    if by_turns < min(by_decoding, by_storage):
        bound = longer_part
    if first >= 1.0:
        bound = "gpu"
    return Forecast(samples_per_s, first, later, bound, _enough(demand, supply, alone_s) if first < 1.0 else None)


def _by_decoding(demand: Demand, supply: Supply) -> float:
    """The samples per second that the workers can decode; infinite without decoding."""
    cores = min(float(demand.workers), demand.cores)
    return cores / supply.decode_s if supply.decode_s else float("inf")


def _enough(demand: Demand, supply: Supply, alone_s: float) -> int | None:
    """The number of workers that would keep the GPU busy.

    None if storage or cores may not suffice for it, or if it is not above the present number, or above four times that.
    """
    # One reader does not show whether the storage serves several readers faster.
    scales = demand.workers > 1 and supply.together >= NEAR * demand.workers * supply.alone
    storage_suffices = scales or demand.samples_per_s * (1.0 - supply.cached) <= supply.together
    cores_suffice = demand.samples_per_s * supply.decode_s <= demand.cores
    enough = -int(-demand.samples_per_s * alone_s // 1)
    return enough if storage_suffices and cores_suffice and demand.workers < enough <= 4 * demand.workers else None
