"""The verdict over a period, summed so that the sums of its parts add up to the sums of the whole."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Finding
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.verdict_class import State


class FindingTotal(NamedTuple):
    """The time of one finding in ns; integers give the same sum in any order."""

    finding: Finding
    """The finding as it was when its confidence was highest; if that was the case several times, the newest."""
    active_ns: int
    """How long the finding was active."""
    lost_ns: int
    """The time lost while the finding was active."""
    primary_ns: int
    """How long it was the first finding, which is the verdict."""
    primary_lost_ns: int
    """The time lost while it was the verdict."""


class VerdictSpan(NamedTuple):
    """A period with one verdict."""

    wall_ns: int
    """The Unix time in ns at which the period began."""
    class_id: str
    state: State
    duration_ns: int

    @property
    def seconds(self) -> float:
        """The length of the period in seconds."""
        return self.duration_ns / 1e9


class JobTime(NamedTuple):
    """The time of one job by share; ``counts`` are in milliseconds, and all 0 if they were not recorded."""

    key: ProcessKey
    name: str
    counts: TimeCounts


class VerdictTotals(NamedTuple):
    """The sums over a period."""

    measuring_ns: int = 0
    """The time before a rule had a full window, in ns."""
    needed_s: float = 0.0
    """The length of the last full window, in seconds."""
    stall_ns: int = 0
    """The part of ``known_ns`` in which the job waited for data."""
    known_ns: int = 0
    finding_totals: tuple[FindingTotal, ...] = ()
    """The totals of each class and subject."""
    spans: tuple[VerdictSpan, ...] = ()
    """The periods between changes of the verdict, oldest first."""
    jobs: tuple[JobTime, ...] = ()
    """The time of each job that was seen."""
    verdict_job_time: TimeCounts = TimeCounts()
    """The sum, over all jobs, of a job's time while the verdict was about that job."""
