"""Adds up the verdicts of many Frames, and totals that were computed earlier."""

from __future__ import annotations

from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.model.finding import Finding
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.verdict_class import LOSING, State
from iotop_ai.model.verdict_totals import FindingTotal, JobTime, VerdictSpan, VerdictTotals

_HOLE_NS = 2_000_000_000
"""An interval that begins more than this after the end of the last one begins a new span: a gap or a restart lies
between the two."""
_STALLED = (State.STARVED,)
"""The states whose loss is time without data. A job that waits for a checkpoint or a rank is BLOCKED instead."""

_LOSS_ARGS = ("lost", "stall", "pressure")
"""The arguments of a finding that hold its lost share of the time, if they are equal to it."""

_Args = tuple[tuple[str, str | float | None], ...]
Key = tuple[str, str, str]
"""The class, subject and state of a finding. The state is needed because class ``unknown`` has several states."""


class VerdictTotalsBuilder:
    """Adds up Frames in order of time, and totals of a later period.

    It keeps one total per class, subject and state, the changes of the verdict, and the time of each job. Before any
    rule has a full window, only the time of the jobs and the time spent measuring are counted.
    """

    def __init__(self) -> None:
        self.spans: list[VerdictSpan] = []
        self._span_end_ns = 0
        """The wall time at which the newest span ends."""
        self.measuring_ns = self.stall_ns = self.known_ns = 0
        self.needed_s = 0.0
        self.finding_totals: dict[Key, FindingTotal] = {}
        self.jobs: dict[ProcessKey, JobTime] = {}
        self.verdict_job_time = TimeCounts()

    def add(self, frame: Frame) -> None:
        """Count the interval of a Frame; a gap, and the time before the first pair of Snapshots, count as 0."""
        duration_ns = 0 if frame.sample.gap else round((frame.sample.seconds or 0.0) * 1e9)
        verdict = frame.verdict
        self.count_jobs(frame)
        if verdict.measuring:
            self.measuring_ns += duration_ns
            self.needed_s = verdict.needed_s
        if verdict.unjudged:
            return
        for rank, finding in enumerate(verdict.findings):
            lost_ns = round((finding.lost_ratio or 0.0) * duration_ns) if finding.state in LOSING else 0
            as_primary = (0, 0) if rank else (duration_ns, lost_ns)
            self._add_finding(FindingTotal(finding, duration_ns, lost_ns, *as_primary))
        stall = stall_ratio(verdict.primary)
        if stall is not None and duration_ns:
            self.stall_ns += round(stall * duration_ns)
            self.known_ns += duration_ns
        primary = verdict.primary
        self._add_span(VerdictSpan(frame.snapshot.wall_ns - duration_ns, primary.class_id, primary.state, duration_ns))

    def join(self, later: VerdictTotals) -> None:
        """Add the totals of the time that follows."""
        self.measuring_ns += later.measuring_ns
        self.needed_s = later.needed_s or self.needed_s
        self.stall_ns += later.stall_ns
        self.known_ns += later.known_ns
        for total in later.finding_totals:
            self._add_finding(total)
        for span in later.spans:
            self._add_span(span)
        for job in later.jobs:
            self._add_job(job)
        self.verdict_job_time = _sum(self.verdict_job_time, later.verdict_job_time)

    def totals(self) -> VerdictTotals:
        """The totals so far."""
        totals, spans = tuple(self.finding_totals.values()), tuple(self.spans)
        spent = (self.measuring_ns, self.needed_s, self.stall_ns, self.known_ns)
        return VerdictTotals(*spent, totals, spans, tuple(self.jobs.values()), self.verdict_job_time)

    def total_of(self, finding: Finding) -> FindingTotal:
        """The total of a finding."""
        return self.finding_totals[key_of(finding)]

    def count_jobs(self, frame: Frame) -> None:
        """Count the time of the jobs in the interval of a Frame."""
        table, reading = frame.snapshot.jobs.value, frame.sample.jobs
        if table is None or reading.value is None or not reading.renewed or frame.sample.gap:
            return
        for key, job in table.jobs.items():
            shares = reading.value.times.get(key)
            # Rounding removes the error of the multiplication: the products are whole milliseconds.
            milliseconds = [] if shares is None else [round(share * shares.whole_ms) for share in shares[:-1]]
            counts = TimeCounts(*milliseconds)
            self._add_job(JobTime(key, job.name, counts))
            if key.pid == frame.verdict.job_pid:
                self.verdict_job_time = _sum(self.verdict_job_time, counts)

    def _add_job(self, more: JobTime) -> None:
        known = self.jobs.get(more.key)
        counts = more.counts if known is None else _sum(known.counts, more.counts)
        self.jobs[more.key] = more._replace(counts=counts)

    def _add_finding(self, more: FindingTotal) -> None:
        key = key_of(more.finding)
        known = self.finding_totals.get(key)
        if known is not None:
            clearer = _clearer(known.finding, more.finding)._replace(
                gpu_hours_lost=_larger(known.finding.gpu_hours_lost, more.finding.gpu_hours_lost)
            )
            more = FindingTotal(clearer, *(a + b for a, b in zip(known[1:], more[1:], strict=True)))
        self.finding_totals[key] = more

    def _add_span(self, more: VerdictSpan) -> None:
        last = self.spans[-1] if self.spans else None
        follows, self._span_end_ns = more.wall_ns <= self._span_end_ns + _HOLE_NS, more.wall_ns + more.duration_ns
        if last is not None and follows and (last.class_id, last.state) == (more.class_id, more.state):
            self.spans[-1] = last._replace(duration_ns=last.duration_ns + more.duration_ns)
        else:
            self.spans.append(more)


def _clearer(earlier: Finding, later: Finding) -> Finding:
    """The finding with the higher confidence. If both are equal, the later one, unless only its loss is below the
    threshold.
    """
    ranks = [(finding.confidence, (finding.lost_ratio or 0.0) >= LIMITS.gate) for finding in (earlier, later)]
    return later if ranks[1] >= ranks[0] else earlier


def _larger(first: float | None, second: float | None) -> float | None:
    """The larger of two values; the known one if the other is None."""
    return max((value for value in (first, second) if value is not None), default=None)


def finding_over_time(total: FindingTotal) -> Finding:
    """The finding with the share of the time that was lost while it was active, in its sentence too.

    A rule sees only its window. The loss may differ much between windows, and a report shows it beside the time of the
    whole run.
    """
    finding = total.finding
    if finding.lost_ratio is None or finding.state not in LOSING or not total.active_ns:
        return finding
    lost_ratio = round(total.lost_ns / total.active_ns, 6)
    args = dict(finding.args)
    # Without a job and GPUs, the sentence shows the loss as the time for which the processes are blocked.
    names = _LOSS_ARGS if args.get("job") or args.get("gpus") else (*_LOSS_ARGS, "blocked")
    values: dict[str, float] = {name: lost_ratio for name in names if args.get(name) == finding.lost_ratio}
    if isinstance(wait := args.get("late_wait"), float) and finding.lost_ratio:
        values["late_wait"] = min(1.0, wait * lost_ratio / finding.lost_ratio)
    if args.get("window_s") is not None:  # "blocked 4 of 10 s"
        values |= {"seconds": total.lost_ns / 1e9, "window_s": total.active_ns / 1e9}
    return finding._replace(
        args=_with_values(finding.args, values),
        advice=tuple(advice._replace(args=_with_values(advice.args, values)) for advice in finding.advice),
        lost_ratio=lost_ratio,
    )


def _with_values(args: _Args, values: dict[str, float]) -> _Args:
    return tuple((name, values.get(name, value)) for name, value in args)


def key_of(finding: Finding) -> Key:
    """The key under which a finding's total is kept."""
    return finding.class_id, finding.subject, finding.state.value


def _sum(first: TimeCounts, second: TimeCounts) -> TimeCounts:
    return TimeCounts(*(a + b for a, b in zip(first, second, strict=True)))


def time_of_jobs(frame: Frame) -> VerdictTotals:
    """The totals of a Frame in which only the time of its jobs is counted, not its verdict."""
    totals = VerdictTotalsBuilder()
    totals.count_jobs(frame._replace(verdict=frame.verdict._replace(job_pid=None)))
    return totals.totals()


def stall_ratio(finding: Finding) -> float | None:
    """The share of time without data that a finding reports; None if it reports none."""
    stall = dict(finding.args).get("stall")
    if isinstance(stall, float | int):
        return float(stall)
    return finding.lost_ratio if finding.state in _STALLED else None
