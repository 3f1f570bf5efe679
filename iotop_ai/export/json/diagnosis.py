"""The JSON object of ``iotop-ai diagnose``: the class that lost the most time, all findings, and the timeline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from iotop_ai.diagnosis.facts.leading_job import job_pid
from iotop_ai.diagnosis.verdict.totals import Key, VerdictTotalsBuilder, finding_over_time
from iotop_ai.export.field_names import rates_object, rounded
from iotop_ai.export.json.condition import outcome_object
from iotop_ai.export.json.job import seconds_object
from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.model.condition.over_run import ConditionOverRun, ConditionResult
from iotop_ai.model.finding import SHORTEST_S, Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import TimeCounts, shares_of
from iotop_ai.model.snapshot import NOT_RECORDED
from iotop_ai.model.verdict_class import LOSING, State
from iotop_ai.model.verdict_totals import JobTime
from iotop_ai.present.text.phrases import Spans
from iotop_ai.present.verdict.headline import finding_object, headline_naming_job, headline_of

KEYS = (
    *("verdict", "state", "confidence", "severity", "data_stall_ratio", "goodput_ratio", "findings", "timeline"),
    *("jobs", "not_recorded", "fail_if"),
)
Object = dict[str, Any]
_LOSSES = (*LOSING, State.WASTED)


class Diagnosis(VerdictTotalsBuilder):
    """The totals of a run as sorted findings and as a JSON object.

    missing: the wall time in ns and the text of each part that a recording lacks. conditions: evaluated on the same
    Frames; a condition that does not need the Frames is evaluated on their totals.
    """

    def __init__(self, conditions: Sequence[ConditionOverRun] = ()) -> None:
        super().__init__()
        self._conditions = conditions
        self.missing: list[tuple[int, str]] = []
        self.selected_pid = 0
        """The pid of the job that the Frames were judged for on request; 0 without a request."""

    def add(self, frame: Frame) -> None:
        """Count an interval, evaluate the conditions on it, and note the parts that the recording lacks before it."""
        super().add(frame)
        for condition in self._conditions:
            condition.add(frame)
        self.missing += [(event.wall_ns, event.text) for event in frame.snapshot.events if event.kind == NOT_RECORDED]

    @property
    def needs_frames(self) -> bool:
        """Whether a condition needs the Frames, because totals are not enough for it."""
        return any(condition.needs_frames for condition in self._conditions)

    def outcomes(self, extra: Mapping[str, float | None] | None = None) -> tuple[ConditionResult, ...]:
        """The results of the conditions. extra: the values of further figures that the conditions may name."""
        totals = self.totals()._replace(verdict_job_time=self.judged_time)
        return tuple(condition.outcome(totals, extra) for condition in self._conditions)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, sorted by the time lost while each was the verdict, then by all time lost, then by duration.

        () if nothing was judged. A finding that is shorter than a rule's window, and in a state that loses no time, is
        a transition. Transitions are left out, unless there is nothing else. The share of time that a finding lost is
        that of all the time in which it was active.
        """

        def order(key: Key) -> tuple[int, int, int, int, Key]:
            total = self.finding_totals[key]
            return (-total.primary_lost_ns, -total.lost_ns, -total.primary_ns, -total.active_ns, key)

        totals = self.finding_totals
        lasting = [key for key, total in totals.items() if self.lasts(total.finding.state, total.active_ns)]
        return tuple(finding_over_time(totals[key]) for key in sorted(lasting or totals, key=order))

    def lasts(self, state: State, duration_ns: int) -> bool:
        """Whether a state is more than a transition: it loses time, or it lasts at least as long as a rule's window."""
        return state in _LOSSES or duration_ns >= (self.needed_s or SHORTEST_S) * 1e9

    @property
    def primary(self) -> Finding | None:
        """The finding that lost the most time; if none lost any, the longest verdict. None if nothing was judged."""
        findings = self.findings
        return findings[0] if findings else None

    @property
    def judged_time(self) -> TimeCounts:
        """The time of the job that the verdict is about: the selected job, else the job of ``primary``.

        If ``primary`` is about no job, it is the time of all jobs while the verdict was about them.
        """
        primary = self.primary
        pid = self.selected_pid or (None if primary is None else job_pid(primary))
        counts = [job.counts for key, job in self.jobs.items() if key.pid == pid]
        return TimeCounts(*map(sum, zip(*counts, strict=True))) if counts else self.verdict_job_time

    def headline(self, finding: Finding) -> Spans:
        """The headline of a finding; it names the finding's job if the run has several jobs."""
        names = [job.name for job in self.jobs.values()]
        if len(names) < 2:
            return headline_of(finding)
        return headline_naming_job(finding, with_pid=names.count(str(dict(finding.args).get("job"))) > 1)

    @property
    def data_stall_ratio(self) -> float | None:
        """The share of time in which the verdict's job waited for data, 0..1; None if it was never known.

        If the job's time was not recorded, the ratio is the mean of the shares that the verdicts report.
        """
        shares = shares_of(self.judged_time)
        if shares is not None:
            return round(shares.data, 4)
        return round(self.stall_ns / self.known_ns, 4) if self.known_ns else None

    @property
    def data_stall_seen_s(self) -> float:
        """The seconds that data_stall_ratio covers."""
        counts = self.judged_time
        return counts.whole_ms / 1000 if shares_of(counts) is not None else self.known_ns / 1e9

    @property
    def goodput_ratio(self) -> float | None:
        """The share of time in which the verdict's job computed, 0..1; None if the job's time was not recorded."""
        shares = shares_of(self.judged_time)
        return None if shares is None else round(shares.goodput, 4)

    def job_times(self, pid: int = 0) -> tuple[JobTime, ...]:
        """Each job with its time, sorted by the time watched, the longest first. pid: only this job; 0 for all."""
        jobs = [job for key, job in self.jobs.items() if pid in (0, key.pid)]
        return tuple(sorted(jobs, key=lambda job: (-job.counts.whole_ms, job.key)))

    def as_object(self, pid: int = 0) -> Object:
        """The diagnosis as an object with exactly KEYS.

        If nothing was judged, the verdict is "unknown". pid: list only this job; 0 for all.
        """
        primary = self.primary
        return {
            "verdict": "unknown" if primary is None else primary.class_id,
            "state": (State.UNSURE if primary is None else primary.state).value,
            "confidence": 0.0 if primary is None else round(primary.confidence, 3),
            "severity": (Severity.INFO if primary is None else primary.severity).value,
            "data_stall_ratio": self.data_stall_ratio,
            "goodput_ratio": self.goodput_ratio,
            "findings": [finding_object(finding) for finding in self.findings],
            "timeline": [
                {
                    "time": rfc3339(span.wall_ns),
                    "verdict": span.class_id,
                    "state": span.state.value,
                    "seconds": round(span.seconds, 3),
                }
                for span in self.spans
            ],
            "jobs": [_job_object(job) for job in self.job_times(pid)],
            "not_recorded": [{"time": rfc3339(wall_ns), "text": text} for wall_ns, text in self.missing],
            "fail_if": [outcome_object(outcome) for outcome in self.outcomes()],
        }


def _job_object(job: JobTime) -> Object:
    """A job with its ratios and seconds, which are null if they were not recorded."""
    shares = shares_of(job.counts)
    return {
        "pid": job.key.pid,
        "name": job.name,
        "data_stall_ratio": None if shares is None else rounded(shares.data),
        "goodput_ratio": None if shares is None else rounded(shares.goodput),
        "time": None if shares is None else rates_object(shares),
        "time_s": None if shares is None else seconds_object(job.counts),
    }


def render_diagnosis_json(diagnosis: Diagnosis, pid: int = 0) -> str:
    """The diagnosis as indented ASCII JSON, without a final newline. pid: list only this job; 0 for all."""
    return json.dumps(diagnosis.as_object(pid), indent=2, allow_nan=False)
