"""The ranks of a job that wait for their own data while the other ranks wait for them.

Ranks that step together are all as slow as the slowest. A rank whose batch has come spins or sleeps in a collective
until the last rank has its batch, so its own wait for data is short.
"""

from __future__ import annotations

from iotop_ai.diagnosis.facts.window import Window, mean
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.records import Job, Rank
from iotop_ai.model.job.task_states import TaskRates
from iotop_ai.model.process.records import ProcessKey


class LateRanks(NamedTuple):
    """The late ranks, and the shares of time over a window, 0 to 1.

    wait: the mean share in which a late rank waits for its own data; others_wait: the same for the other ranks
    cpu, cpu_wait, disk, idle: the means of the late ranks' loaders, as in ``JobFacts.worker_*``; None if unknown
    """

    ranks: tuple[Rank, ...]
    others: int
    """The number of the other ranks."""
    wait: float
    others_wait: float
    cpu: float | None = None
    cpu_wait: float | None = None
    disk: float | None = None
    idle: float | None = None

    @property
    def workers(self) -> tuple[ProcessKey, ...]:
        """The loader processes of the late ranks."""
        return tuple(worker for rank in self.ranks for worker in rank.workers)


def late_ranks(window: Window, job: Job, limits: Thresholds) -> LateRanks | None:
    """The late ranks; None if the ranks wait about equally, if most wait, or if the wait of some rank is unknown.

    A rank is late if it waits for at least half of the time of the rank that waits longest, which is at least
    ``late_wait``. Each of the others waits for at most ``late_others`` of that time.
    """
    if len(job.ranks) < 2:
        return None
    waits = _mean_waits(window, job)
    longest = max(waits.values(), default=0.0)
    if len(waits) < len(job.ranks) or longest < limits.late_wait:
        return None
    late = tuple(rank for rank in job.ranks if waits[rank.key] >= longest / 2)
    others = [wait for key, wait in waits.items() if wait < longest / 2]
    if len(late) > len(job.ranks) / 2 or max(others) > limits.late_others * longest:
        return None
    found = LateRanks(late, len(others), _mean([waits[rank.key] for rank in late]), _mean(others))
    tasks = _loaders(window, found.workers)
    return found._replace(
        cpu=mean(task.cpu_ratio for task in tasks),
        cpu_wait=mean(task.cpu_wait_ratio for task in tasks),
        disk=mean(task.disk_ratio for task in tasks),
        idle=mean(task.idle_ratio for task in tasks),
    )


def _mean_waits(window: Window, job: Job) -> dict[ProcessKey, float]:
    """The mean share in which each rank waits for its own data; a rank without a figure is left out."""
    parts: dict[ProcessKey, list[float]] = {}
    for sample in window.samples:
        waits = {} if sample.jobs.value is None else sample.jobs.value.rank_waits
        for rank in job.ranks:
            if rank.key in waits:
                parts.setdefault(rank.key, []).append(waits[rank.key])
    return {key: _mean(shares) for key, shares in parts.items()}


def _loaders(window: Window, workers: tuple[ProcessKey, ...]) -> list[TaskRates]:
    """The rates of these loaders in all samples of the window."""
    values = [sample.jobs.value for sample in window.samples if sample.jobs.value is not None]
    return [value.tasks[worker] for value in values for worker in workers if worker in value.tasks]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
