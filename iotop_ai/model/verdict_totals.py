"""The verdict over a span of time, summed so that the sums of the parts add up to those of the whole."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Finding
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.verdict_class import State


class FindingTotal(NamedTuple):
    """The time of one finding, in ns: integers give the same sum in any order."""

    finding: Finding
    """The finding when its confidence was highest; the newest of several."""
    active_ns: int
    """How long it was active."""
    lost_ns: int
    """Time lost while it was active."""
    primary_ns: int
    """How long it was the first finding, which is the verdict."""
    primary_lost_ns: int
    """Time lost while it was the verdict."""


class VerdictSpan(NamedTuple):
    """A span of time with one verdict."""

    wall_ns: int
    """Unix time at which the span began."""
    class_id: str
    state: State
    duration_ns: int

    @property
    def seconds(self) -> float:
        """How long the span lasted."""
        return self.duration_ns / 1e9


class JobTime(NamedTuple):
    """The time of one job by share. counts: milliseconds; all 0 where they were not recorded."""

    key: ProcessKey
    name: str
    counts: TimeCounts


class VerdictTotals(NamedTuple):
    """The sums over a span of time."""

    measuring_ns: int = 0
    """Time before a rule had a full window."""
    needed_s: float = 0.0
    """The length of the last full window."""
    stall_ns: int = 0
    """The part of ``known_ns`` in which the job waited for data."""
    known_ns: int = 0
    finding_totals: tuple[FindingTotal, ...] = ()
    """One per class and subject."""
    spans: tuple[VerdictSpan, ...] = ()
    """The changes of the verdict, oldest first."""
    jobs: tuple[JobTime, ...] = ()
    """One per job seen."""
    verdict_job_time: TimeCounts = TimeCounts()
    """The time of each job while the verdict was about it, summed."""
