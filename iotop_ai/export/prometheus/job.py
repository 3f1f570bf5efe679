"""Training jobs: where their time goes, in seconds, so that any share over any time is one query."""

from __future__ import annotations

from iotop_ai.export.prometheus.families import COUNTER, GAUGE, INFO, Family, Labels, family
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.time_shares import SHARES

JOB = "iotop_job"
MOST_JOBS = 16


def job_families(frame: Frame) -> list[Family]:
    """Every job; the label pid is of the process at its top."""
    table = frame.snapshot.jobs.value
    jobs = {} if table is None else dict(list(table.jobs.items())[:MOST_JOBS])
    times = {} if table is None else table.times
    return [
        family(
            *(f"{JOB}_time_seconds", COUNTER, "Time of a job since it is watched, by what it was spent on."),
            [
                ((*_labels(job), ("bucket", bucket)), milliseconds / 1000)
                for key, job in jobs.items()
                if key in times
                for bucket, milliseconds in zip(SHARES, times[key], strict=True)
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
            *(JOB, INFO, "Identity of a job, to join with."),
            [((*_labels(job), ("user", job.user), ("framework", job.framework)), 1) for job in jobs.values()],
        ),
    ]


def _labels(job: Job) -> Labels:
    kind, _, number = job.label.partition(" ")
    slurm = number.partition(".")[0] if kind == "slurm" else ""
    return (
        ("pid", str(job.key.pid)),
        ("script", job.name),
        ("slurm_job_id", slurm),
        ("unit", "" if slurm else job.label),
    )
