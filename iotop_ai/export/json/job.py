"""The ``jobs`` part of a snapshot: the shares of each training job's time."""

from __future__ import annotations

from typing import Any

from iotop_ai.diagnosis.facts.steps import job_steps
from iotop_ai.export.field_names import rates_object, rounded
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.steps import LoaderSettings
from iotop_ai.model.job.task_states import JobRates
from iotop_ai.model.job.time_shares import TimeCounts, TimeShares

Object = dict[str, Any]


def job_objects(frame: Frame) -> list[Object] | None:
    """One object per job; [] without a job, None when unknown.

    time: the shares of the interval; null if not recorded. time_s: the seconds of each share since the job was first
    watched. steps: the steps of the last 10 s; null if no process of the job reports any.
    """
    table, sample = frame.snapshot.jobs.value, frame.sample.jobs.value
    if table is None:
        return None
    out = []
    for key, job in table.jobs.items():
        shares = None if sample is None else sample.times.get(key)
        rates = None if sample is None else sample.jobs.get(key)
        out.append(
            {
                "pid": key.pid,
                "name": job.name,
                "user": job.user,
                "label": job.label,
                "framework": job.framework,
                "ranks": len(job.ranks),
                "workers": len(job.workers),
                "gpus": sorted(job.gpus),
                "data_stall_ratio": rounded(data_stall_ratio(job, shares, rates)),
                "goodput_ratio": None if shares is None else rounded(shares.goodput),
                "time": None if shares is None else rates_object(shares),
                "time_s": seconds_object(table.times.get(key)),
                "steps": steps_object(frame, job),
            }
        )
    return out


def steps_object(frame: Frame, job: Job) -> Object | None:
    """The steps that the job's processes report: first the job's figures, then those of each rank; None without any.

    The job's steps_per_s is that of its slowest rank, and its data_wait_* are those of the rank that waits longest.
    data_seen_ratio: the share of time in which the job waits for data, as the monitor measures it from outside.
    data_difference_ratio: data_seen_ratio minus data_wait_ratio. loader: the settings of a rank's DataLoader; null for
    another loader.
    """
    steps, table = job_steps(frame, job), frame.snapshot.steps.value
    if steps is None or table is None:
        return None
    return {
        "steps_per_s": rounded(steps.steps_per_s),
        "data_wait_ms": rounded(steps.data_wait_ms),
        "data_wait_ratio": rounded(steps.data_wait_ratio),
        "data_seen_ratio": rounded(steps.seen_ratio),
        "data_difference_ratio": rounded(steps.difference),
        "ranks": [
            {
                "pid": key.pid,
                "rank": rates.rank,
                "steps": table[key].progress,
                **rates_object(rates),
                "age_s": rounded(max(0.0, (frame.snapshot.at_ns - table[key].at_ns) / 1e9)),
                "loader": loader_object(table[key].loader),
            }
            for key, rates in steps.ranks
        ],
    }


def loader_object(settings: LoaderSettings | None) -> Object | None:
    """The settings of a DataLoader under its own names; None without any."""
    if settings is None:
        return None
    return {
        "num_workers": settings.workers,
        "prefetch_factor": settings.prefetch,
        "pin_memory": settings.pinned,
        "persistent_workers": settings.persistent,
    }


def data_stall_ratio(job: Job, shares: TimeShares | None, rates: JobRates | None) -> float | None:
    """The share of the interval in which the job waits for data; None if unknown.

    If the job's time was not counted, it is the share of samples in which the trainer waits for its workers. It is then
    None for a job without workers, in which such samples cannot be recognised.
    """
    if shares is not None:
        return shares.data
    return rates.stall_ratio if rates is not None and job.workers else None


def seconds_object(counts: TimeCounts | None) -> Object | None:
    """Counted milliseconds as seconds; None without counts."""
    return None if counts is None else {name: value / 1000 for name, value in counts._asdict().items()}
