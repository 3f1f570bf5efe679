"""A dataset, and a forecast of how busy a loader that reads it can keep the GPU."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

DATASET = "dataset"
"""The name of the phases that read the dataset's own files."""
MOST_BYTES_PER_FILE = 64 << 20
"""The maximum number of bytes that are read from a file, from its beginning."""
LEAST_CACHED = 0.005
"""A smaller share of a dataset in the page cache is not mentioned in a forecast, and does not make the forecast a
lower limit."""
NEAR = 0.9
"""If n readers reach at least this share of perfect scaling, that is, of n times the rate of one reader, more than n
readers are expected to be faster still."""


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
    past: whether cached files are read past the page cache, that is, from the storage, because too few files are cold
    unreadable: the number of unreadable files
    holes: the number of files that were left out of the sample because they have holes
    elsewhere: the number of folders left out because they are on other filesystems
    linked_folders: the number of folders left out because they are links
    read_bytes: how many bytes of all files are read, at most MOST_BYTES_PER_FILE of each; None if unknown
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
    read_bytes: int | None = None

    @property
    def resident_ratio(self) -> float | None:
        """The share of the dataset in the page cache; None if unknown."""
        return self.resident_bytes / self.known_bytes if self.known_bytes else None

    @property
    def read_in_part(self) -> bool:
        """Whether only a part of some files is read."""
        return self.most_bytes > MOST_BYTES_PER_FILE

    @property
    def mean_bytes(self) -> float:
        """The mean size of a file; 0 without files."""
        return self.size_bytes / self.files if self.files else 0.0

    @property
    def mean_read_bytes(self) -> float | None:
        """The mean of the bytes that are read from a file; None if unknown or without files."""
        read_bytes = self.read_bytes if self.read_in_part else self.size_bytes
        return read_bytes / self.files if self.files and read_bytes else None

    def fits(self, room_bytes: int | None) -> bool | None:
        """Whether the whole dataset fits into memory; None if unknown."""
        if room_bytes is None or (not self.complete and self.size_bytes <= room_bytes):
            return None
        return self.size_bytes <= room_bytes


class Demand(NamedTuple):
    """The data that the training needs, and the workers and cores of its loader.

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
    together: the rate of as many readers as there are workers, or files if these are fewer
    decode_s: the CPU seconds per sample; 0 without decoding
    cached: the share of the dataset in the page cache
    memory_s: the seconds in which one reader reads a sample from the page cache; None if unknown
    """

    alone: float
    together: float
    decode_s: float = 0.0
    cached: float = 0.0
    memory_s: float | None = None

    @property
    def from_memory_s(self) -> float:
        """The seconds in which the cached part of a sample is read; 0 if unknown."""
        return self.cached * self.memory_s if self.memory_s is not None else 0.0

    def read_s(self, rate: float) -> float:
        """The seconds in which a sample is read: from storage at ``rate``, and its cached part from memory."""
        return (1.0 - self.cached) / rate + self.from_memory_s


class Forecast(NamedTuple):
    """The share of time in which the GPU works, 0 to 1, and its limit.

    samples_per_s: the rate that the loader could deliver in the first epoch
    first: the share in the first epoch
    later: the share in later epochs, which read from memory; None if the dataset may not fit, or if reading from memory
        was not measured
    bound: the limit: gpu, storage, memory or decode; if too few workers limit the rate, what takes most of a worker's
        time for a sample
    workers: the number of workers that would keep the GPU busy; None if the GPU is busy already, if more would not
        help, or without workers
    cached: the share of the dataset that counts as read from the page cache
    at_least: whether ``samples_per_s`` and ``first`` are lower limits, because a part is cached, and reading
        from memory was not measured or the dataset does not fit into memory
    most: if ``first`` is a lower limit because the dataset does not fit into memory, the upper limit of the same share;
        otherwise None
    """

    samples_per_s: float
    first: float
    later: float | None
    bound: str
    workers: int | None = None
    cached: float = 0.0
    at_least: bool = False
    most: float | None = None


def forecast(demand: Demand, supply: Supply, fits: bool | None) -> Forecast:
    """The forecast for a loader whose workers each read a sample, decode it, and continue with the next.

    The workers share the storage (at most ``together``), the page cache (at most the rate of one reader, because that
    of several is not measured) and the cores, and each handles one sample at a time. Without workers, the GPU waits for
    each sample. If reading from memory was not measured, all samples count as read from the storage. As the storage is
    never faster than memory, the forecast is then a lower limit.

    If the dataset does not fit into memory, nothing counts as cached: the reads of the first epoch push cached files
    out, perhaps before they are read. If all is cached, nothing is pushed out.
    """
    if fits is False and supply.memory_s is not None and LEAST_CACHED <= supply.cached < 1.0:
        least = forecast(demand, supply._replace(cached=0.0), None)
        most = forecast(demand, supply, None).first
        return least._replace(at_least=True, most=most) if most > least.first else least
    unmeasured = supply.memory_s is None and supply.cached >= LEAST_CACHED
    if supply.memory_s is None:
        supply = supply._replace(cached=0.0)
    alone_s = supply.read_s(supply.alone) + supply.decode_s
    longer_part = "decode" if supply.decode_s > supply.read_s(supply.alone) else _slower_source(supply, supply.alone)
    later = _later_share(demand, supply) if fits else None
    if not demand.workers:
        step_s = 1.0 / demand.samples_per_s
        first = step_s / (step_s + alone_s)
        return Forecast(1 / alone_s, first, later, longer_part, None, supply.cached, unmeasured)
    by_decoding = _decoding_rate(demand, supply)
    by_reading = 1.0 / supply.read_s(supply.together)
    by_workers = demand.workers / alone_s  # each worker handles one sample after the other
    samples_per_s = min(by_decoding, by_reading, by_workers)
    if samples_per_s >= demand.samples_per_s:
        return Forecast(samples_per_s, 1.0, 1.0 if fits else None, "gpu", None, supply.cached)
    first = samples_per_s / demand.samples_per_s
    bound = "decode" if by_decoding <= by_reading else _slower_source(supply, supply.together)
    if by_workers < min(by_decoding, by_reading):
        bound = longer_part
    later = None if later is None else max(first, later)
    workers = _workers_needed(demand, supply, alone_s)
    return Forecast(samples_per_s, first, later, bound, workers, supply.cached, unmeasured)


def _slower_source(supply: Supply, rate: float) -> str:
    """The source that takes the longer part of a sample's reading: "storage", read at ``rate``, or "memory"."""
    return "storage" if 2 * supply.from_memory_s <= supply.read_s(rate) else "memory"


def _later_share(demand: Demand, supply: Supply) -> float | None:
    """The share in later epochs, which read everything from memory; None if the rate of memory is unknown."""
    if supply.memory_s is None:
        return None
    if not demand.workers:
        step_s = 1.0 / demand.samples_per_s
        return step_s / (step_s + supply.memory_s + supply.decode_s)
    by_workers = demand.workers / (supply.memory_s + supply.decode_s)
    return min(1.0, min(_decoding_rate(demand, supply), 1.0 / supply.memory_s, by_workers) / demand.samples_per_s)


def _decoding_rate(demand: Demand, supply: Supply) -> float:
    """The samples per second that the workers can decode; infinite without decoding."""
    cores = min(float(demand.workers), demand.cores)
    return cores / supply.decode_s if supply.decode_s else float("inf")


def _workers_needed(demand: Demand, supply: Supply, alone_s: float) -> int | None:
    """The number of workers that would keep the GPU busy.

    None if storage, memory or cores may not suffice for it, or if it is not above the present number, or is more than
    four times that number.
    """
    # One reader does not show whether the storage serves several readers faster.
    scales = demand.workers > 1 and supply.together >= NEAR * demand.workers * supply.alone
    read_s = supply.from_memory_s if scales else supply.read_s(supply.together)
    cores_suffice = demand.samples_per_s * supply.decode_s <= demand.cores
    reads_suffice = demand.samples_per_s * read_s <= 1.0
    needed = -int(-demand.samples_per_s * alone_s // 1)
    return needed if reads_suffice and cores_suffice and demand.workers < needed <= 4 * demand.workers else None
