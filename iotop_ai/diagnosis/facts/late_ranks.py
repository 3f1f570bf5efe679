"""The ranks of a job that wait for their own data while the other ranks wait for them.

Ranks that step together are all as slow as the slowest. A rank whose batch has come spins or sleeps in a collective
until the last rank has its batch, so its own wait for data is short.
"""

from __future__ import annotations

from iotop_ai.diagnosis.facts.window import Window, mean
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.records import Job, Rank
from iotop_ai.model.process.records import ProcessKey

_OF_STALL = 0.7
"""The late ranks are the cause only if they wait for at least this part of the time in which the job waits."""


class LateRanks(NamedTuple):
    """The late ranks, and means over the short window: shares of time, 0 to 1; None if unknown.

    others: the other ranks. wait: the share in which a late rank waits for its own data; others_wait: the same for the
    others. cpu, cpu_wait, disk, idle: shares of the late ranks' loaders, as in ``JobFacts.worker_*``; without loaders,
    of their main threads.
    """

    ranks: tuple[Rank, ...]
    others: tuple[Rank, ...]
    wait: float
    others_wait: float
    cpu: float | None = None
    cpu_wait: float | None = None
    disk: float | None = None
    idle: float | None = None

    @property
    def workers(self) -> int:
        """The number of the late ranks' loader processes."""
        return sum(len(rank.workers) for rank in self.ranks)


def late_ranks(short: Window, long: Window, job: Job, stall: float | None, limits: Thresholds) -> LateRanks | None:
    """The late ranks; None if the ranks wait about equally, if most wait, or if the wait of some rank is unknown.

    Over the long window, a late rank waits for at least half of the time of the rank that waits longest, which is at
    least ``late_wait``, and each other rank for at most ``late_others`` of it. stall: the share of the short window in
    which the job waits.
    """
    if len(job.ranks) < 2 or stall is None or stall < limits.late_wait:
        return None
    waits, waits_now = _mean_waits(long, job), _mean_waits(short, job)
    if len(waits) < len(job.ranks) or len(waits_now) < len(job.ranks):
        return None
    longest = max(waits.values())
    late = tuple(rank for rank in job.ranks if waits[rank.key] >= longest / 2)
    others = tuple(rank for rank in job.ranks if waits[rank.key] < longest / 2)
    if longest < limits.late_wait or len(late) > len(others):
        return None
    if max(waits[rank.key] for rank in others) > limits.late_others * longest:
        return None
    wait, others_wait = (sum(waits_now[rank.key] for rank in ranks) / len(ranks) for ranks in (late, others))
    if wait < _OF_STALL * stall:
        return None
    return _with_loaders(LateRanks(late, others, wait, others_wait), short)


def _mean_waits(window: Window, job: Job) -> dict[ProcessKey, float]:
    """The mean share in which each rank waits for its own data; a rank with too few samples is left out."""
    parts: dict[ProcessKey, list[float]] = {}
    for sample in window.samples:
        waits = {} if sample.jobs.value is None else sample.jobs.value.rank_waits
        for rank in job.ranks:
            if rank.key in waits:
                parts.setdefault(rank.key, []).append(waits[rank.key])
    return {key: sum(shares) / len(shares) for key, shares in parts.items() if len(shares) >= window.needed}


def _with_loaders(late: LateRanks, window: Window) -> LateRanks:
    """The late ranks with the shares of their loaders."""
    keys = [key for rank in late.ranks for key in (rank.workers if late.workers else (rank.key,))]
    values = [sample.jobs.value for sample in window.samples if sample.jobs.value is not None]
    tasks = [value.tasks[key] for value in values for key in keys if key in value.tasks]
    return late._replace(
        cpu=mean(task.cpu_ratio if late.workers else task.running_ratio for task in tasks),
        cpu_wait=mean(task.cpu_wait_ratio for task in tasks),
        disk=mean(task.disk_ratio for task in tasks),
        idle=mean(task.idle_ratio for task in tasks),
    )
