"""One configuration of a data loader, and the result of its run."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple

TENSORFLOW = "tensorflow"


class Configuration(NamedTuple):
    """Settings of a loader that the sweep varies.

    prefetch: batches per worker, None for the loader's own default. start: "" for the Python's own.

    interleave: files that tf.data reads side by side (cycle_length), None for the pipeline's own.
    """

    workers: int
    batch_size: int
    prefetch: int | None = None
    pin: bool = False
    start: str = ""
    interleave: int | None = None


class Built(NamedTuple):
    """The loader that the factory returned. kind: torch, tensorflow, iterable. start: the start method in use.

    applied: the keyword arguments that reached the loader. cuda: CUDA was initialised before the workers started.
    stages: those of tf.data, the last first ("Prefetch", "Batch", "ParallelMap"). epoch_bytes: size of all its batches,
    None unknown.
    """

    kind: str
    start: str = ""
    applied: tuple[str, ...] = ()
    cuda: bool = False
    stages: tuple[str, ...] = ()
    epoch_bytes: int | None = None


class Steady(NamedTuple):
    """The steady part of a run.

    batches, samples, seconds: counted after each worker's first batch. first_batch_s: time from the start of the
    iteration.
    """

    batches: int
    samples: int
    seconds: float
    first_batch_s: float

    @property
    def samples_per_s(self) -> float:
        """Samples per second; 0 where nothing was measured."""
        return self.samples / self.seconds if self.seconds > 0 else 0.0


class Used(NamedTuple):
    """The resources that the processes used during the steady part; None unknown. Cores are CPU seconds per second.

    worker_cores: all workers together; without workers the loader's own process. main_cores: that process alone.
    blocked_ratio, running_ratio: looks in which a worker waits for storage (state D), is on a CPU or waits for one.
    memory_bytes: highest PSS of all processes. growth_bytes: per batch, None unless it grows steadily. shm_bytes: most
    used of /dev/shm since the start. storage_bytes: read from disks; asked_bytes: read by system calls.
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

    kind: hang, killed, shm, pickle, broken_pipe, cuda, crash (the loader's own process), error (an exception),
    empty (no batch), or refused (the factory cannot be swept).
    """

    kind: str
    text: str
    remedy: str = ""


class Run(NamedTuple):
    """One run of a configuration. Exactly one of steady and failure is None."""

    configuration: Configuration
    built: Built | None = None
    steady: Steady | None = None
    used: Used = Used()
    failure: Failure | None = None

    @property
    def samples_per_s(self) -> float:
        """Samples per second; 0 where nothing was measured."""
        return 0.0 if self.steady is None else self.steady.samples_per_s


def curve(runs: Sequence[Run], of: Configuration) -> list[Run]:
    """The measured runs that differ from this configuration only in the number of workers, sorted by it."""
    found = {}
    for run in runs:
        one = run.configuration
        alone = not one.workers and (one.batch_size, one.pin) == (of.batch_size, of.pin)
        if run.steady is not None and (alone or one._replace(workers=of.workers) == of):
            found[one.workers] = run
    return [found[workers] for workers in sorted(found)]
