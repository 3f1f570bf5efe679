"""A machine that was suspended: the start times of processes include the suspension, monotonic time does not."""

from __future__ import annotations

import time
from dataclasses import replace

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.settings import Settings
from iotop_ai.model.verdict_class import State
from iotop_ai.sources.live.source import SLEPT_NS, LiveSource
from tests.diagnosis.build import JOB_STARVED, Machine, Task, classes, play
from tests.diagnosis.job_scenes import STARTING

SLEPT_S = 8 * 3600
SLEPT = SLEPT_S * 10**9


def begun_after_sleep(machine: Machine) -> Machine:
    """The machine, with processes that have started after a suspension of 8 h."""
    assert machine.job is not None

    def started_later(task: Task) -> Task:
        return replace(task, start=task.start + SLEPT_S * 100)

    workers = tuple(started_later(worker) for worker in machine.job.workers)
    job = replace(machine.job, task=started_later(machine.job.task), workers=workers)
    return replace(machine, job=job, tasks=tuple(started_later(task) for task in machine.tasks))


def test_a_job_started_after_a_suspension_is_judged_like_any_other() -> None:
    awake = play((JOB_STARVED, 15))[-1].verdict
    after_sleep = play((begun_after_sleep(JOB_STARVED), 15), suspended_ns=SLEPT)[-1].verdict
    assert awake.state is State.STARVED
    assert classes(after_sleep) == classes(awake)
    assert after_sleep.state is State.STARVED


def test_a_job_that_starts_after_a_suspension_has_the_right_age() -> None:
    verdict = play((begun_after_sleep(STARTING), 15), suspended_ns=SLEPT)[-1].verdict
    assert verdict.state is State.STARTING
    (age,) = (e for e in verdict.primary.evidence if e.metric.endswith(".age_s"))
    (as_awake,) = (e for e in play((STARTING, 15))[-1].verdict.primary.evidence if e.metric.endswith(".age_s"))
    assert age.value == as_awake.value


def test_without_the_suspended_time_a_job_is_not_called_starved() -> None:
    """In an old recording, the age of such a job is -8 h, and nothing is claimed about it."""
    assert play((begun_after_sleep(JOB_STARVED), 15))[-1].verdict.state is not State.STARVED


class Slept(Clock):
    """The clock of a machine that a test suspends."""

    slept_ns = 0

    def suspended_ns(self) -> int:
        return super().suspended_ns() + self.slept_ns


def test_the_live_machine_reports_how_long_it_was_suspended() -> None:
    clock = Slept()
    source = LiveSource(Settings(smart=False), clock=clock)
    try:
        real = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        first, second = source.snapshot(), source.snapshot()
        clock.slept_ns = SLEPT
        third = source.snapshot()
    finally:
        source.close()
    assert first.suspended_ns is not None
    assert abs(first.suspended_ns - real) < SLEPT_NS
    # the time between two readings of a clock does not count as suspension
    assert second.suspended_ns == first.suspended_ns
    assert third.suspended_ns is not None
    assert abs(third.suspended_ns - first.suspended_ns - SLEPT) < SLEPT_NS
