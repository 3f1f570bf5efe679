"""Which job the verdict speaks of, and what each job has lost so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from iotop_ai.diagnosis.facts import Facts
from iotop_ai.diagnosis.jobs import JobFacts
from iotop_ai.model.finding import LOSING, Finding, Severity
from iotop_ai.model.job import Job
from iotop_ai.model.process import ProcessKey
from iotop_ai.model.snapshot import Snapshot

_HOUR_NS = 3_600_000_000_000
_GAP = 3.0
"""A step longer than so many intervals was not watched: nothing is counted for it."""
_DIGITS = 9


def job_pid(finding: Finding) -> int | None:
    """The pid at the top of the job that a finding is about; None for one about the machine."""
    value = dict(finding.args).get("job_pid")
    return None if value is None or isinstance(value, str) else int(value)


def job_with(snapshot: Snapshot, pid: int) -> Job | None:
    """The job that a process belongs to; None when it belongs to none."""
    table = snapshot.jobs.value
    jobs = () if table is None else table.jobs.values()
    return next((job for job in jobs if any(key.pid == pid for key in job.members | {job.key})), None)


def lost_so_far(
    before: Mapping[ProcessKey, float],
    facts: Facts,
    findings: Iterable[Finding],
    decided_ns: int | None,
) -> Mapping[ProcessKey, float]:
    """Hours that each job has lost, by its key: what is held against it, times the time since the last decision.

    A job that is gone is forgotten. decided_ns: None at the first decision.
    """
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


def _told(finding: Finding) -> bool:
    """Whether it puts its job before one that is well: something is lost, or a GPU lies idle beside it."""
    return finding.state in LOSING or (finding.class_id == "no_gpu" and finding.severity is not Severity.INFO)


def leading_job(facts: Facts, findings: Sequence[Finding], lost: Mapping[ProcessKey, float]) -> JobFacts | None:
    """The job that the verdict is about; None where there is none.

    An ordinary user's own before others', one that loses something before one that does not, then the one that has
    lost most GPU-hours, then hours.
    """
    euid = facts.snapshot.host.euid
    losing = {job_pid(finding) for finding in findings if _told(finding)}

    def order(job: JobFacts) -> tuple[bool, bool, bool, float, float, int]:
        key = job.job.key
        hours = lost.get(key, 0.0)
        theirs = bool(euid) and job.job.uid != euid
        return (theirs, key.pid not in losing, not job.active, -hours * job.gpus, -hours, key.pid)

    return min(facts.jobs, key=order, default=None)


def sided(facts: Facts, findings: Iterable[Finding], lead: JobFacts | None) -> tuple[list[Finding], list[Finding]]:
    """What is said about the leading job and the machine, and what other jobs lose beside it."""
    others = {job.job.key.pid for job in facts.jobs}
    if lead is not None:
        others.discard(lead.job.key.pid)
    front, back = [], []
    for finding in findings:
        pid = job_pid(finding)
        # A job that is gone is news of another one while one is at work.
        gone = finding.class_id == "job_died" and lead is not None and lead.active and pid != lead.job.key.pid
        if pid not in others and not gone:
            front.append(finding)
        elif _told(finding):
            back.append(finding)
    return front, back


def with_hours(facts: Facts, finding: Finding, lost: Mapping[ProcessKey, float]) -> Finding:
    """The finding with the GPU-hours that its job has lost so far; None where no GPU of it is seen."""
    pid = job_pid(finding)
    job = next((job for job in facts.jobs if job.job.key.pid == pid), None)
    if job is None or job.gpu_busy is None or not job.gpus:
        return finding._replace(gpu_hours_lost=None)
    return finding._replace(gpu_hours_lost=round(lost.get(job.job.key, 0.0) * job.gpus, _DIGITS))
