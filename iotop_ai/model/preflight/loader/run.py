"""One configuration of a data loader, and the result of its run. A sweep is a series of such runs."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple

TENSORFLOW, TORCH = "tensorflow", "torch"
MOST_WORKERS = 256
"""The largest number of workers that a sweep tries."""


class Configuration(NamedTuple):
    """The settings of a loader that the sweep varies.

    prefetch: the number of batches that each worker prefetches; None for the loader's default
    pin: whether batches are copied to pinned memory
    start: the start method of the workers; "" for Python's default
    interleave: the number of files that tf.data reads in parallel (cycle_length); None to keep the pipeline's value
    """

    workers: int
    batch_size: int
    prefetch: int | None = None
    pin: bool = False
    start: str = ""
    interleave: int | None = None


class Built(NamedTuple):
    """The loader that the user's factory returned.

    kind: torch, tensorflow or iterable
    start: the start method of its workers
    applied: the names of the keyword arguments by which the Configuration was passed to the loader
    cuda: whether CUDA was initialised before the workers started
    stages: the stages of a tf.data pipeline, from the last to the first ("Prefetch", "Batch", "ParallelMap")
    epoch_bytes: the size of all batches of an epoch; None if unknown
    """

    kind: str
    start: str = ""
    applied: tuple[str, ...] = ()
    cuda: bool = False
    stages: tuple[str, ...] = ()
    epoch_bytes: int | None = None


class Steady(NamedTuple):
    """The steady part of a run, which begins when each worker has delivered its first batch.

    batches, samples, seconds: how many batches and samples it delivered, and how long it lasted
    first_batch_s: the seconds from the start of the iteration to the first batch
    """

    batches: int
    samples: int
    seconds: float
    first_batch_s: float

    @property
    def samples_per_s(self) -> float:
        """The samples per second; 0 if nothing was measured."""
        return self.samples / self.seconds if self.seconds > 0 else 0.0


class Used(NamedTuple):
    """The resources that the processes used during the steady part; None if unknown.

    worker_cores: the mean number of cores that all workers together used; without workers, that of the main process
    main_cores: the mean number of cores that the loader's main process used
    blocked_ratio: the share of readings of a worker's state in which the worker waited for storage (D)
    running_ratio: the share of these readings in which the worker ran or waited for a CPU (R)
    memory_bytes: the highest PSS of all processes together since the start of the run
    growth_bytes: the growth of their anonymous and shared memory per batch; None if it does not grow steadily
    shm_bytes: the largest growth of the use of /dev/shm since the start of the run
    storage_bytes: the bytes read from disks
    asked_bytes: the bytes read by system calls, whether from disks or from the page cache
    """

    worker_cores: float | None = None
    main_cores: float | None = None
    blocked_ratio: float | None = None
    running_ratio: float | None = None
    memory_bytes: int | None = None
    growth_bytes: float | None = None
    shm_bytes: int | None = None
    storage_bytes: int | None = None
    asked_bytes: int | None = None


class Failure(NamedTuple):
    """Why a configuration gave no figures.

    kind: hang, killed, shm, pickle, broken_pipe, cuda, crash (of the loader's main process), error (an exception),
        empty (no batch), or refused (the loader cannot be swept)
    """

    kind: str
    text: str
    remedy: str = ""


class Run(NamedTuple):
    """One run of a configuration. It has either ``steady`` or ``failure``; the other one is None."""

    configuration: Configuration
    built: Built | None = None
    steady: Steady | None = None
    used: Used = Used()
    failure: Failure | None = None

    @property
    def samples_per_s(self) -> float:
        """The samples per second; 0 if nothing was measured."""
        return 0.0 if self.steady is None else self.steady.samples_per_s


def curve(runs: Sequence[Run], configuration: Configuration) -> list[Run]:
    """The successful runs that differ from ``configuration`` only in the number of workers, fewest first."""
    by_workers = {}
    for run in runs:
        own = run.configuration
        # Without workers, a configuration has no prefetch and no start method.
        same_without_workers = not own.workers and own == configuration._replace(workers=0, prefetch=None, start="")
        same_with_workers = own._replace(workers=configuration.workers) == configuration
        if run.steady is not None and (same_without_workers or same_with_workers):
            by_workers[own.workers] = run
    return [by_workers[workers] for workers in sorted(by_workers)]
