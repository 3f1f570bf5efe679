"""The steps of a job over a window, and its measured wait beside the wait that is seen from outside."""

from __future__ import annotations

import pytest

from iotop_ai.diagnosis.facts.steps import JobSteps, StepComparison, job_steps
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from tests.job_steps import SECOND_RANK, reporting
from tests.job_times import job_key, slow_disk


def job_of(frame: Frame) -> Job:
    table = frame.snapshot.jobs.value
    assert table is not None
    return table.jobs[job_key(frame)]


def steps_of(frames: tuple[Frame, ...]) -> JobSteps:
    found = job_steps(frames[-1], job_of(frames[-1]))
    assert found is not None
    return found


def test_the_rates_are_means_over_the_window() -> None:
    found = steps_of(reporting(per_s=4.0, waits=(0.75,)))
    assert found.steps_per_s == pytest.approx(4.0, rel=0.05)
    assert found.data_wait_ratio == pytest.approx(0.75, abs=0.001)
    assert found.data_wait_ms == pytest.approx(187.5, rel=0.05)
    assert found.seen_ratio is not None
    assert found.difference == pytest.approx(found.seen_ratio - 0.75, abs=0.001)


def test_the_rank_that_waits_longest_represents_the_job() -> None:
    found = steps_of(reporting(waits=(0.1, 0.6)))
    assert [key for key, _ in found.ranks][1] == SECOND_RANK
    assert [rates.rank for _, rates in found.ranks] == [0, 1]
    assert found.data_wait_ratio == pytest.approx(0.6, abs=0.001)


def test_a_wait_that_no_rank_measures_is_unknown() -> None:
    found = steps_of(reporting(waits=(None,)))
    assert found.steps_per_s == pytest.approx(4.0, rel=0.05)
    assert (found.data_wait_ratio, found.data_wait_ms, found.difference) == (None, None, None)


def test_the_last_rates_remain_while_the_next_message_may_still_come() -> None:
    for found in (steps_of(reporting(waits=(0.5,), until=36)), steps_of(reporting(waits=(0.5,), until=30, every=15))):
        assert found.data_wait_ratio == pytest.approx(0.5, abs=0.001)
        assert found.steps_per_s == pytest.approx(4.0, rel=0.05)
    stopped = steps_of(reporting(waits=(0.5,), until=20))
    assert (stopped.steps_per_s, stopped.data_wait_ratio, stopped.difference) == (None, None, None)
    assert [rates.rank for _, rates in stopped.ranks] == [0]


def test_a_job_that_reports_nothing_has_no_steps() -> None:
    last = slow_disk()[-1]
    assert job_steps(last, job_of(last)) is None


def test_the_comparison_uses_all_time_in_which_both_waits_are_known() -> None:
    frames, comparison = reporting(waits=(0.75,)), StepComparison()
    for frame in frames:
        comparison.add(frame)
    found = comparison.of(job_of(frames[-1]))
    assert found is not None
    measured, seen = found
    assert measured == pytest.approx(0.75, abs=0.001)
    assert seen == pytest.approx(0.67, abs=0.005), "the share differs from the recording's own counters"
    assert StepComparison().of(job_of(frames[-1])) is None
