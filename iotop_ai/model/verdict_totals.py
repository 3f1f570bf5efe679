"""The verdict over a period, as sums that can be added: the sums of the parts give those of the whole period."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Finding
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.verdict_class import State


class FindingTotal(NamedTuple):
    """The time of one finding. Times are integers in ns, whose sum does not depend on the order."""

    finding: Finding
    """The finding at its highest confidence. If it reached this confidence several times, this is the newest of those
    with a lost share at the threshold or above, or else the newest of all."""
    active_ns: int
    """How long the finding was active."""
    lost_ns: int
    """The time lost while the finding was active."""
    primary_ns: int
    """How long it was the primary finding, which determines the verdict."""
    primary_lost_ns: int
    """The time lost while it was the primary finding."""


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
    """The time of one job.

    counts: the milliseconds of its time, by share; all are 0 if not recorded
    """

    key: ProcessKey
    name: str
    counts: TimeCounts


class VerdictTotals(NamedTuple):
    """The sums over a period."""

    measuring_ns: int = 0
    """The time before any rule had a full window, in ns."""
    needed_s: float = 0.0
    """The shortest window of a rule while measuring, in seconds; 0 if the period has no such time."""
    stall_ns: int = 0
    """The part of ``known_ns`` in which the job waited for data."""
    known_ns: int = 0
    """The time in which it is known how much the job waited for data."""
    finding_totals: tuple[FindingTotal, ...] = ()
    """The totals of each class, subject and state."""
    spans: tuple[VerdictSpan, ...] = ()
    """The periods between changes of the verdict and gaps, oldest first."""
    jobs: tuple[JobTime, ...] = ()
    """The time of each job that was seen."""
    verdict_job_time: TimeCounts = TimeCounts()
    """The time of the jobs while the verdict was about them, summed over all jobs."""
