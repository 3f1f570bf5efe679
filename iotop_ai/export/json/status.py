"""The recorder's answer to a training process: the verdict on its job, and the shares of the job's time so far."""

from __future__ import annotations

from typing import Any

from iotop_ai.diagnosis.engine import with_job_verdict
from iotop_ai.diagnosis.facts.leading_job import job_with, without_others
from iotop_ai.diagnosis.facts.steps import StepComparison
from iotop_ai.export.field_names import rates_object, rounded
from iotop_ai.export.json.job import seconds_object, steps_object
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import shares_of
from iotop_ai.present.verdict.headline import advice, because, finding_object, headline, text_of

Object = dict[str, Any]


def status_object(frame: Frame | None, pid: int, comparison: StepComparison) -> Object:
    """The verdict on the job that process ``pid`` belongs to, and the shares of the job's time so far.

    Every part is null while unknown. verdict: the machine's verdict until the job is recognised; null without a Frame.
    steps: the steps of the last 10 s. measured: the wait for data that the job measures itself, and the wait that the
    monitor measures from outside, over all the time in which both are known.
    """
    if frame is None:
        return dict.fromkeys(("verdict", "job", "time", "time_s", "data_stall_ratio", "steps", "measured"))
    job = job_with(frame.snapshot, pid)
    job_frame = frame if job is None else without_others(with_job_verdict(frame, pid), job.key.pid)
    table = frame.snapshot.jobs.value
    counts = None if job is None or table is None else table.times.get(job.key)
    shares = None if counts is None else shares_of(counts)
    return {
        "verdict": verdict_object(job_frame),
        "job": None if job is None else {"pid": job.key.pid, "name": job.name, "ranks": len(job.ranks)},
        "time": None if shares is None else rates_object(shares),
        "time_s": None if shares is None else seconds_object(counts),
        "data_stall_ratio": None if shares is None else rounded(shares.data),
        "steps": None if job is None else steps_object(frame, job),
        "measured": None if job is None else _measured(comparison.of(job)),
    }


def _measured(waits: tuple[float, float] | None) -> Object | None:
    if waits is None:
        return None
    measured, seen = waits
    return {
        "data_wait_ratio": rounded(measured),
        "data_seen_ratio": rounded(seen),
        "data_difference_ratio": rounded(seen - measured),
    }


def verdict_object(frame: Frame) -> Object:
    """The first finding as an object, with its sentences."""
    verdict = frame.verdict
    return {
        **finding_object(verdict.primary),
        "measuring": verdict.measuring,
        "text": text_of(headline(verdict)),
        "because": text_of(because(verdict)),
        "do": text_of(advice(verdict)),
    }
