"""A job's steps in words: "12.4/s, 34 ms a step for data: 42 % measured, 40 % from outside".

The first percentage is the share of time that the job itself measured as its wait for data; the second is the share
that iotop-ai sees from outside.
"""

from __future__ import annotations

from iotop_ai.diagnosis.facts.steps import JobSteps, job_steps, loader_settings
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.steps import StepRates
from iotop_ai.present.text.units import UNKNOWN, duration, figure, percent

LATE_S = 5.0
"""The rates are shown with their age once no process of the job has reported steps for this many seconds."""
_MOST_RANKS = 16
"""The maximum number of ranks whose steps are shown."""


def steps_text(frame: Frame, job: Job) -> str:
    """The job's steps during the verdict's window; "" if none of its processes reports steps."""
    steps = job_steps(frame, job)
    return "" if steps is None else _sentence(steps) + _age(frame, steps)


def ranks_text(frame: Frame, job: Job) -> str:
    """The steps of each rank that reports them: "rank 0 12.4/s 34 ms 42 %, rank 1 ..."; "" for fewer than two ranks."""
    steps = job_steps(frame, job)
    if steps is None or len(steps.ranks) < 2:
        return ""
    parts = [f"rank {UNKNOWN if rates.rank is None else rates.rank} {_rank(rates)}" for _, rates in steps.ranks]
    more = len(parts) - _MOST_RANKS
    return ", ".join([*parts[:_MOST_RANKS], *([f"{more} more"] if more > 0 else [])])


def loader_text(frame: Frame, job: Job) -> str:
    """The settings of the job's DataLoader, as the first rank that reports any gives them: "num_workers 4,
    prefetch_factor 2, pin_memory, persistent_workers off"; "" without any.
    """
    settings = loader_settings(frame.snapshot.steps.value, job)
    numbers = (("num_workers", settings.workers), ("prefetch_factor", settings.prefetch))
    flags = (("pin_memory", settings.pinned), ("persistent_workers", settings.persistent))
    parts = [f"{name} {value}" for name, value in numbers if value is not None]
    parts += [name if value else f"{name} off" for name, value in flags if value is not None]
    return ", ".join(parts)


def steps_rate(frame: Frame, job: Job) -> str:
    """The job's rate of steps: "12.4 steps/s" or "3.3 s a step"; "" if none of its processes reports steps."""
    steps = job_steps(frame, job)
    return "" if steps is None else _rate(steps.steps_per_s, " steps/s")


def _sentence(steps: JobSteps) -> str:
    rate = _rate(steps.steps_per_s)
    if steps.data_wait_ratio is None:
        return rate if steps.steps_per_s is None else f"{rate}, wait for data not measured"
    outside = "" if steps.seen_ratio is None else f", {percent(steps.seen_ratio)} % from outside"
    of_step = "of it" if _is_slow(steps.steps_per_s) else "a step"
    wait = f"{_wait(steps.data_wait_ms)} {of_step} for data"
    return f"{rate}, {wait}: {percent(steps.data_wait_ratio)} % measured{outside}"


def _rank(rates: StepRates) -> str:
    rate = _rate(rates.steps_per_s)
    if rates.data_wait_ratio is None:
        return rate
    return f"{rate} {_wait(rates.data_wait_ms)} {percent(rates.data_wait_ratio)} %"


def _is_slow(per_s: float | None) -> bool:
    """Whether a step takes more than a second, so that its duration says more than its rate."""
    return per_s is not None and 0 < per_s < 1


def _rate(per_s: float | None, unit: str = "/s") -> str:
    if per_s is None:
        return f"{UNKNOWN}{unit}"
    return f"{figure(1 / per_s)} s a step" if _is_slow(per_s) else f"{figure(per_s)}{unit}"


def _wait(milliseconds: float | None) -> str:
    if milliseconds is None:
        return UNKNOWN
    return f"{figure(milliseconds / 1000)} s" if milliseconds >= 1000 else f"{figure(milliseconds)} ms"


def _age(frame: Frame, steps: JobSteps) -> str:
    """How long ago the job last reported its steps, as a clause; "" for less than LATE_S."""
    table = frame.snapshot.steps.value or {}
    newest_ns = max(table[key].at_ns for key, _ in steps.ranks)
    age_s = (frame.snapshot.at_ns - newest_ns) / 1e9
    return f"; no step for {duration(age_s)}" if age_s >= LATE_S else ""
