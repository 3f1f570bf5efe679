"""Chooses the job that the verdict is about, and counts the hours that each job has lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from iotop_ai.diagnosis.facts.gather import Facts
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.order import job_order, work_level
from iotop_ai.model.job.records import Job
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_class import CLASS_SPECS, LOSING

_HOUR_NS = 3_600_000_000_000
_GAP = 3.0
"""A time between two decisions that is longer than this many intervals was not observed, and counts as 0."""
_DIGITS = 9
"""The number of decimal places to which hours are rounded."""
Importance = tuple[int, int, bool, int, int]
"""The sort key that ``importance`` returns."""


def job_pid(finding: Finding) -> int | None:
    """The pid of the top process of the job that a finding is about; None for a finding about the machine."""
    value = dict(finding.args).get("job_pid")
    return None if value is None or isinstance(value, str) else int(value)


def job_with(snapshot: Snapshot, pid: int) -> Job | None:
    """The job that the process with this pid belongs to; None if it belongs to no job."""
    table = snapshot.jobs.value
    jobs = () if table is None else table.jobs.values()
    return next((job for job in jobs if any(key.pid == pid for key in job.members | {job.key})), None)


def without_others(frame: Frame, pid: int) -> Frame:
    """The Frame without the findings about other jobs; unchanged if no finding would remain.

    pid: the pid of the job's top process; 0 returns the Frame unchanged.
    """
    own = tuple(f for f in frame.verdict.findings if not pid or job_pid(f) in (None, pid))
    if not own or len(own) == len(frame.verdict.findings):
        return frame
    return frame._replace(verdict=frame.verdict._replace(findings=own))


def lost_so_far(
    before: Mapping[ProcessKey, float],
    facts: Facts,
    findings: Iterable[Finding],
    decided_ns: int | None,
) -> Mapping[ProcessKey, float]:
    """The hours that each job has lost, including the time since the last decision.

    That time is multiplied by the largest lost share of the job's findings. A job that ended is dropped; while the jobs
    are unknown, the hours stay the same. before: the hours at the last decision. decided_ns: the time of the last
    decision; None at the first decision.
    """
    if facts.snapshot.jobs.value is None:
        return before
    now, interval_s = facts.snapshot.at_ns, facts.snapshot.interval_s
    step = 0 if decided_ns is None else now - decided_ns
    hours = step / _HOUR_NS if 0 < step <= _GAP * max(interval_s, facts.limits.decide_s) * 1e9 else 0.0
    shares: dict[int, float] = {}
    for finding in findings:
        pid = job_pid(finding)
        if pid is not None and finding.state in LOSING:
            shares[pid] = max(shares.get(pid, 0.0), finding.lost_ratio or 0.0)
    out = {}
    for job in facts.jobs:
        key = job.job.key
        lost = round(before.get(key, 0.0) + hours * shares.get(key.pid, 0.0), _DIGITS)
        if lost:
            out[key] = lost
    return out


def _costs(finding: Finding) -> bool:
    """Whether the finding places its job before a healthy job, because the job loses time or leaves a GPU idle."""
    return finding.state in LOSING or (CLASS_SPECS[finding.class_id].wastes and finding.severity is not Severity.INFO)


def importance(job: JobFacts, *, stays: bool = False) -> Importance:
    """A sort key: first the job with the most GPUs, then the job with the most CPU use and I/O, then the oldest.

    The pid decides between jobs that started in the same clock tick.

    stays: whether this job leads now; then only a job with more GPUs or with clearly more work is placed before it.
    """
    moved = (job.read_bytes_per_s or 0.0) + (job.write_bytes_per_s or 0.0)
    key = job.job.key
    gpus, work, age = job_order(job.gpus, work_level(job.cpu_ratio, moved) + stays, key.start_ticks)
    return gpus, work, not stays, age, key.pid


def leading_job(facts: Facts, findings: Sequence[Finding], lost: Mapping[ProcessKey, float]) -> JobFacts | None:
    """The job that the verdict is about; None if there is no job.

    Jobs are compared in this order: for an ordinary user, the user's own jobs come first; then jobs that lose time now;
    then active jobs; then the jobs with the most lost GPU-hours, and the most lost hours; then jobs by ``importance``.
    """
    euid = facts.snapshot.host.euid
    losing = {job_pid(finding) for finding in findings if _costs(finding)}
    before = None if facts.carry.verdict is None else facts.carry.verdict.job_pid

    def order(job: JobFacts) -> tuple[bool, bool, bool, float, float, Importance]:
        key = job.job.key
        hours = lost.get(key, 0.0)
        is_of_other_user = bool(euid) and job.job.uid != euid
        # Of jobs that are equal so far, a job that works only a little more does not replace the leading job.
        by_importance = importance(job, stays=key.pid == before)
        return (is_of_other_user, key.pid not in losing, not job.active, -hours * job.gpus, -hours, by_importance)

    return min(facts.jobs, key=order, default=None)


def split_by_job(
    facts: Facts, findings: Iterable[Finding], lead: JobFacts | None
) -> tuple[list[Finding], list[Finding]]:
    """Split the findings into those about the leading job or the machine, and those about losses of other jobs.

    The other findings about other jobs are dropped.
    """
    others = {job.job.key.pid for job in facts.jobs}
    if lead is not None:
        others.discard(lead.job.key.pid)
    kept, losses_of_others = [], []
    for finding in findings:
        pid = job_pid(finding)
        # While the leading job works, the death of another job does not concern it.
        is_other_death = finding.class_id == "job_died" and lead is not None and lead.active and pid != lead.job.key.pid
        if pid not in others and not is_other_death:
            kept.append(finding)
        elif _costs(finding):
            losses_of_others.append(finding)
    return kept, losses_of_others


def with_hours(facts: Facts, finding: Finding, lost: Mapping[ProcessKey, float]) -> Finding:
    """The finding with the GPU-hours that its job lost.

    They are None without a job or GPUs, and while the job's use of its GPUs is unknown.
    """
    pid = job_pid(finding)
    job = next((job for job in facts.jobs if job.job.key.pid == pid), None)
    if job is None or job.gpu_busy is None or not job.gpus:
        return finding._replace(gpu_hours_lost=None)
    return finding._replace(gpu_hours_lost=round(lost.get(job.job.key, 0.0) * job.gpus, _DIGITS))
