"""One configuration of a data loader, and the result of its run."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple

TENSORFLOW, TORCH = "tensorflow", "torch"
MOST_WORKERS = 256
"""The largest number of workers that a sweep tries."""


class Configuration(NamedTuple):
    """The settings of a loader that the sweep varies.

    prefetch: the batches that each worker prefetches; None for the default of the loader
    pin: whether batches are copied to pinned memory
    start: the start method of processes; "" for Python's default
    interleave: the number of files that tf.data reads side by side (cycle_length); None for that of the pipeline
    """

    workers: int
    batch_size: int
    prefetch: int | None = None
    pin: bool = False
    start: str = ""
    interleave: int | None = None


class Built(NamedTuple):
    """The loader that the factory returned.

    kind: torch, tensorflow or iterable
    start: the start method that it uses
    applied: the keyword arguments that reached the loader
    cuda: whether CUDA was initialised before the workers started
    stages: the stages of a tf.data pipeline, the last first ("Prefetch", "Batch", "ParallelMap")
    epoch_bytes: the size of all its batches; None if unknown
    """

    kind: str
    start: str = ""
    applied: tuple[str, ...] = ()
    cuda: bool = False
    stages: tuple[str, ...] = ()
    epoch_bytes: int | None = None


class Steady(NamedTuple):
    """The steady part of a run.

    batches, samples, seconds: the amounts counted after each worker has given its first batch
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
    """The resources that the processes used during the steady part; None if unknown. Cores are CPU seconds per second.

    worker_cores: the use of all workers together; without workers, of the loader's main process
    main_cores: the use of the loader's main process alone
    blocked_ratio, running_ratio: the shares of samples in which a worker waited for storage (state D), or was on a CPU
        or waited for one
    memory_bytes: the highest PSS of all processes together
    growth_bytes: the growth of that memory per batch; None unless it grows steadily
    shm_bytes: the highest use of /dev/shm since the start
    storage_bytes: the bytes read from disks
    asked_bytes: the bytes read by system calls
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
    """The reason why a configuration gave no figures.

    kind: hang, killed, shm, pickle, broken_pipe, cuda, crash (of the loader's main process), error (an exception),
        empty (no batch), or refused (the factory cannot be swept)
    """

    kind: str
    text: str
    remedy: str = ""


class Run(NamedTuple):
    """One run of a configuration. Exactly one of ``steady`` and ``failure`` is None."""

    configuration: Configuration
    built: Built | None = None
    steady: Steady | None = None
    used: Used = Used()
    failure: Failure | None = None

    @property
    def samples_per_s(self) -> float:
        """The samples per second; 0 if nothing was measured."""
        return 0.0 if self.steady is None else self.steady.samples_per_s


def curve(runs: Sequence[Run], of: Configuration) -> list[Run]:
    """The measured runs that differ from this configuration only in the number of workers, sorted by that number."""
    found = {}
    for run in runs:
        one = run.configuration
        # Without workers, a configuration has no prefetch and no start method.
        alone = not one.workers and one == of._replace(workers=0, prefetch=None, start="")
        if run.steady is not None and (alone or one._replace(workers=of.workers) == of):
            found[one.workers] = run
    return [found[workers] for workers in sorted(found)]
