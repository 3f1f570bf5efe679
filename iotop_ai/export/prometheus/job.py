"""Metrics of training jobs: the seconds of each share of their time, from which a query computes ratios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotop_ai.export.prometheus.families import COUNTER, GAUGE, INFO, Family, Labels, family
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.rank_numbers import number_ranges
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.time_shares import SHARES
from iotop_ai.model.process.records import ProcessKey

JOB = "iotop_job"
MOST_JOBS = 16


def job_families(frame: Frame) -> list[Family]:
    """The families of the jobs, at most MOST_JOBS of them. The label ``pid`` is the pid of the job's top process."""
    table = frame.snapshot.jobs.value
    jobs = {} if table is None else dict(list(table.jobs.items())[:MOST_JOBS])
    times = {} if table is None else table.times
    late_ranks = _late_ranks(frame.verdict.findings, jobs)
    return [
        family(
            *(f"{JOB}_time_seconds", COUNTER, "Time of a job since it was first seen, by what it was spent on."),
            [
                ((*_labels(job), ("bucket", share)), milliseconds / 1000)
                for key, job in jobs.items()
                if key in times
                for share, milliseconds in zip(SHARES, times[key], strict=True)
            ],
            "seconds",
        ),
        family(
            *(f"{JOB}_ranks", GAUGE, "Training processes of a job on this machine."),
            [(_labels(job), len(job.ranks)) for job in jobs.values()],
        ),
        family(
            *(f"{JOB}_gpus", GAUGE, "GPUs of a job on this machine."),
            [(_labels(job), len(job.gpus)) for job in jobs.values()],
        ),
        family(
            *(JOB, INFO, "Identity of a job, for joins: its ranks' numbers, and a name that all its ranks share."),
            [((*_labels(job), *_identity(job)), 1) for job in jobs.values()],
        ),
        family(
            *(f"{JOB}_late_rank", GAUGE, "Number of the rank for which the others on this machine wait."),
            [(_labels(job), late_ranks.get(key)) for key, job in jobs.items()],
        ),
    ]


def _identity(job: Job) -> Labels:
    ranks = number_ranges(rank.number for rank in job.ranks)
    return (("user", job.user), ("framework", job.framework), ("ranks", ranks), ("rank_group", job.group))


def _late_ranks(findings: Iterable[Finding], jobs: Mapping[ProcessKey, Job]) -> dict[ProcessKey, int]:
    """The number of the first late rank of each job: of an imbalance warning, or of a wait for data.

    An imbalance of severity info means that a rank has less to do; then no rank is late.
    """
    out: dict[ProcessKey, int] = {}
    for finding in findings:
        args = dict(finding.args)
        pid = args.get("late_pid")
        if finding.class_id == "imbalance" and finding.severity is not Severity.INFO:
            pid = args.get("pid")
        for key, job in jobs.items() if pid is not None else ():
            for rank in job.ranks:
                if rank.key.pid == pid and rank.number is not None:
                    out.setdefault(key, rank.number)
    return out


def _labels(job: Job) -> Labels:
    kind, _, number = job.label.partition(" ")
    slurm = number.partition(".")[0] if kind == "slurm" else ""
    return (
        ("pid", str(job.key.pid)),
        ("script", job.name),
        ("slurm_job_id", slurm),
        ("unit", "" if slurm else job.label),
    )
