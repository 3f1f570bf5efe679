"""The GPUs of each job, with their rates over a window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.job_gpus import possible_gpus
from iotop_ai.diagnosis.facts.window import Window, mean
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Evidence, Finding
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuRates, GpuState

_GETTERS = {field: itemgetter(index) for index, field in enumerate(GpuRates._fields)}
"""A getter for each rate of a GPU."""


class OneGpu:
    """One GPU: its state now, and its rates in those samples of the window in which it answered.

    A mean or ratio is None when it is unknown.
    """

    __slots__ = ("_means", "detail", "rates", "state")

    def __init__(self, state: GpuState, detail: GpuDetail | None, rates: tuple[GpuRates, ...]) -> None:
        self.state = state
        self.detail = detail
        self.rates = rates
        self._means: dict[str, float | None] = {}

    def mean(self, field: str) -> float | None:
        """The mean of the rate ``field``; None if it is unknown in every sample."""
        if field not in self._means:
            self._means[field] = mean(map(_GETTERS[field], self.rates))
        return self._means[field]

    @property
    def busy(self) -> float | None:
        """The mean utilisation."""
        return self.mean("busy_ratio")

    @property
    def watts(self) -> float | None:
        """The mean power in watts."""
        return self.mean("power_watts")

    @property
    def power_ratio(self) -> float | None:
        """The mean power divided by the mean power limit."""
        return ratio(self.watts, self.mean("power_limit_watts"))

    @property
    def clock_ratio(self) -> float | None:
        """The mean SM clock divided by the highest SM clock."""
        return ratio(self.mean("sm_mhz"), self.state.sm_max_mhz)


class GpuGroup(NamedTuple):
    """The GPUs of one job. job: None for the GPUs in use that belong to no known job."""

    job: JobFacts | None
    gpus: tuple[OneGpu, ...]
    window: Window

    @property
    def subject(self) -> str:
        """The name of the group in a finding: the pid of its job, or "" without a job."""
        return "" if self.job is None else self.job.subject

    @property
    def settled(self) -> bool:
        """Whether the job is at least ``settle_s`` old; True without a job, or if its age is unknown."""
        return self.job is None or self.job.age_s is None or self.job.age_s >= LIMITS.settle_s


def power_of(facts: Facts, job: JobFacts) -> float | None:
    """The mean of power divided by limit over a job's GPUs; over all GPUs in use if the job's GPUs are unknown."""
    own = next((group.gpus for group in gpu_groups(facts, facts.limits.window_s) if group.job is job), ())
    return mean(gpu.power_ratio for gpu in own) if own else facts.gpu.power_ratio


def ratio(part: float | None, whole: float | None) -> float | None:
    """``part`` divided by ``whole``; None if either is unknown or the whole is 0."""
    return None if part is None or not whole else part / whole


def gpu_groups(facts: Facts, seconds: float) -> tuple[GpuGroup, ...]:
    """The GPUs in use over the last ``seconds``, grouped by job, without those that a job only holds.

    () if no GPU is in use or none answers.
    """
    if not facts.gpu.uuids:
        return ()
    return facts.lazy.compute_once(f"gpu groups {seconds:g}", lambda: _gpu_groups(facts, seconds))


def _gpu_groups(facts: Facts, seconds: float) -> tuple[GpuGroup, ...]:
    readings = facts.snapshot.gpu.value
    if readings is None:
        return ()
    window = facts.window_over(seconds, ("gpu",))
    tables = [sample.gpu.value or {} for sample in window.samples]
    details = facts.snapshot.gpu_slow.value or {}

    def gpu_of(uuid: str) -> OneGpu | None:
        state = readings[uuid].value
        detail = details.get(uuid)
        if state is None:
            return None
        rates = tuple([table[uuid] for table in tables if uuid in table])
        return OneGpu(state, None if detail is None else detail.value, rates)

    used = facts.gpu.uuids
    by_job = [(job, [uuid for uuid in used if uuid in job.used_gpus]) for job in facts.jobs]
    held = frozenset[str]().union(*(job.held_gpus for job in facts.jobs))
    left = [uuid for uuid in used if uuid not in held and not any(uuid in own_uuids for _, own_uuids in by_job)]
    groups: list[tuple[JobFacts | None, list[str]]] = [*by_job, (None, left)]
    return tuple(
        GpuGroup(job, gpus, window)
        for job, uuids in groups
        if (gpus := tuple(gpu for uuid in uuids if (gpu := gpu_of(uuid)) is not None))
    )


def only_others_use_gpus(facts: Facts) -> bool:
    """Whether a job is at work, but all processes on the GPUs belong to programs other than the jobs.

    Hidden processes count as those of other programs if no job opens a GPU.
    """
    if not facts.gpu.used or not any(job.active for job in facts.jobs):
        return False
    return not any(job.job.gpus or possible_gpus(job.job, facts.gpu) for job in facts.jobs)


def gpu_names(gpus: Sequence[OneGpu], total: int = 0) -> str:
    """Some GPUs of a group in words: "GPU 3", "GPUs 3, 5", or only how many ("8 GPUs") if they are more than four or
    the whole group.

    total: the number of GPUs in the group; 0 when unknown.
    """
    numbers = sorted(gpu.state.number for gpu in gpus)
    if len(numbers) == 1:
        return f"GPU {numbers[0]}"
    if len(numbers) > 4 or len(numbers) == total:
        return f"{len(numbers)} GPUs"
    return f"GPUs {', '.join(map(str, numbers))}"


def group_args(facts: Facts, group: GpuGroup, affected: Sequence[OneGpu]) -> Args:
    """The arguments for the sentences: the job, the affected GPUs and their utilisation.

    gpus: the number of affected GPUs. team: the number of GPUs in the group. gpus_all: the number of all GPUs.
    """
    job: Args = ()
    if group.job is not None:
        job = (("job", group.job.job.name), ("job_pid", float(group.job.job.key.pid)))
    return (
        *job,
        ("who", gpu_names(affected, len(group.gpus))),
        ("gpus", float(len(affected))),
        ("team", float(len(group.gpus))),
        ("gpus_all", float(facts.gpu.total)),
        ("gpu_busy", mean(gpu.busy for gpu in affected)),
    )


def metric(gpu: OneGpu, field: str) -> str:
    """The name of a GPU's figure as evidence, such as "gpus.3.busy_ratio"."""
    return f"gpus.{gpu.state.number}.{field}"


def max_if_all_known(values: Iterable[float | None]) -> float | None:
    """The largest value; None if any value is unknown or there are no values."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return max(known) if known and len(known) == len(listed) else None


def known_evidence(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The evidence whose values are known."""
    return tuple(e for e in evidence if e.value is not None)


def group_claim(group: GpuGroup, finding: Finding, level: float) -> Claim:
    """A claim that rests on means over the group's window instead of a share of samples."""
    return Claim(finding, 1.0, len(group.window.samples), group.window.needed, level)
