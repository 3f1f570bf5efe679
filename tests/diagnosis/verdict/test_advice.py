"""The cores that an advice counts are those of the job, whatever the monitor can use."""

from __future__ import annotations

import pytest

from iotop_ai.diagnosis.facts.gather import Facts
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.verdict.advice import job_cores, job_idle_cores, job_worker_advice, worker_advice
from iotop_ai.model.job.records import JobPlace
from iotop_ai.present.verdict.cures import advice_text
from tests.diagnosis.build import COMPUTING, JOB_PREPARING, replace
from tests.diagnosis.facts.test_idle_cores import facts_within

FREE, BUSY = tuple(range(8)), tuple(range(56, 64))
MACHINE = replace(JOB_PREPARING, cores=64, job=replace(COMPUTING, worker_cpu=0.1))
"""Its cores 0 to 7 are mostly free, and its other 56 cores are busy. The job uses less than one core."""


def facts_of(place: JobPlace, of_monitor: tuple[int, ...] | None) -> tuple[Facts, JobFacts]:
    """The facts of a job at this place, if the monitor can use these cores; None stands for all."""
    facts = facts_within(of_monitor, MACHINE)
    return facts, facts.jobs[0]._replace(place=place)


def at(numbers: tuple[int, ...]) -> JobPlace:
    return JobPlace(allowed_cores=len(numbers), allowed_numbers=numbers)


@pytest.mark.parametrize(
    ("place", "of_monitor", "cores", "idle"),
    [
        (at(tuple(range(64))), (60,), 64, 6.0),
        (at(FREE), (60,), 8, 6.0),
        (at(FREE), None, 8, 6.0),
        (at(BUSY), FREE, 8, 0.0),
        (at(tuple(range(256))), (60,), 64, 6.0),  # the kernel also lists cores that are offline
        (at(tuple(range(100, 108))), FREE, 8, 6.0),  # a container has given the cores other numbers
        (JobPlace(), FREE, 8, 6.0),
    ],
)
def test_the_cores_are_those_of_the_job(
    place: JobPlace, of_monitor: tuple[int, ...] | None, cores: float, idle: float
) -> None:
    found = facts_of(place, of_monitor)
    assert (job_cores(*found), job_idle_cores(*found)) == (cores, pytest.approx(idle))


def test_workers_are_counted_by_physical_and_idle_cores_by_logical_ones() -> None:
    """On a machine with two threads per core, "31 of 16 cores idle" is impossible."""
    facts, job = facts_of(at(FREE), None)
    facts = facts._replace(physical_cores=4)
    assert (job_cores(facts, job), job_idle_cores(facts, job)) == (8, pytest.approx(6))
    (advice,) = job_worker_advice(facts, job._replace(workers=1))
    assert advice_text(advice) == "raise num_workers 1 -> 3 (80 % of 4 physical cores)"
    (advice,) = worker_advice(facts._replace(allowed_cores=8), 1)
    assert "of 4 physical cores" in advice_text(advice)


def test_a_higher_quota_is_advised_only_if_cores_of_the_job_are_idle() -> None:
    for numbers, of_monitor, advised in ((FREE, BUSY, True), (BUSY, FREE, False)):
        advice = job_worker_advice(*facts_of(at(numbers)._replace(cpu_cores=0.5), of_monitor))
        assert ("raise_quota" in {a.template for a in advice}) is advised
