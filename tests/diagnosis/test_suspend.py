"""A machine that has slept: process starts count the sleep, monotonic time does not."""

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
    """The same machine whose processes have started, by the kernel's count, after a sleep of 8 h."""
    assert machine.job is not None

    def later(task: Task) -> Task:
        return replace(task, start=task.start + SLEPT_S * 100)

    workers = tuple(later(worker) for worker in machine.job.workers)
    job = replace(machine.job, task=later(machine.job.task), workers=workers)
    return replace(machine, job=job, tasks=tuple(later(task) for task in machine.tasks))


def test_a_job_begun_after_a_sleep_is_judged_as_one_without() -> None:
    awake = play((JOB_STARVED, 15))[-1].verdict
    asleep = play((begun_after_sleep(JOB_STARVED), 15), suspended_ns=SLEPT)[-1].verdict
    assert awake.state is State.STARVED
    assert classes(asleep) == classes(awake)
    assert asleep.state is State.STARVED


def test_a_job_that_starts_after_a_sleep_has_its_own_age() -> None:
    verdict = play((begun_after_sleep(STARTING), 15), suspended_ns=SLEPT)[-1].verdict
    assert verdict.state is State.STARTING
    (age,) = (e for e in verdict.primary.evidence if e.metric.endswith(".age_s"))
    (as_awake,) = (e for e in play((STARTING, 15))[-1].verdict.primary.evidence if e.metric.endswith(".age_s"))
    assert age.value == as_awake.value


def test_without_the_figure_it_is_judged_as_it_was_recorded() -> None:
    """An old recording of such a job: its age is -8 h, and nothing is claimed of it."""
    assert play((begun_after_sleep(JOB_STARVED), 15))[-1].verdict.state is not State.STARVED


class Slept(Clock):
    """A machine that sleeps on request."""

    slept_ns = 0

    def suspended_ns(self) -> int:
        return super().suspended_ns() + self.slept_ns


def test_the_live_machine_tells_how_long_it_has_slept() -> None:
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
    assert second.suspended_ns == first.suspended_ns  # what lies between two readings of a clock is no sleep
    assert third.suspended_ns is not None
    assert abs(third.suspended_ns - first.suspended_ns - SLEPT) < SLEPT_NS
