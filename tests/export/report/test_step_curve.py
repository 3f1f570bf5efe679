"""The steps in a trainer's log, at the times of the recorded run."""

from __future__ import annotations

import pytest

from iotop_ai.export.report.step_curve import with_steps
from iotop_ai.model.errors import InputError
from iotop_ai.sources.imports.step_log import PRINTED, StepLog, StepPoint, StepSeries, read_step_log
from tests.export.compare.kept import TRUTH, log, path, story
from tests.export.report.stories import read

S = 1_000_000_000
RUN_S = 40.1


def points(*pairs: tuple[float, int]) -> StepLog:
    begin_ns = story("slow").begin_ns
    return StepLog(PRINTED, tuple(StepPoint(step, begin_ns + round(at * S)) for at, step in pairs))


@pytest.mark.parametrize("name", TRUTH, ids="of_{}".format)
def test_a_real_log_gives_the_true_steps(name: str) -> None:
    steps = with_steps(story(name), read_step_log(str(log(name)), allow_root=True)).steps
    assert steps is not None
    assert steps.per_s == pytest.approx(TRUTH[name]["steps_per_s"], rel=0.02)
    assert steps.steps == pytest.approx(TRUTH[name]["steps"], abs=20)
    assert steps.curve is not None
    assert len(steps.curve.values) <= 42


def test_a_count_that_begins_again_is_continued() -> None:
    steps = with_steps(story("slow"), points((5, 10), (10, 20), (12, 4), (20, 20))).steps
    assert steps is not None
    assert steps.steps == 10 + 4 + 16
    assert steps.per_s == pytest.approx(30 / 15)


@pytest.mark.parametrize(("every_s", "expected"), [(1, 40), (10, 4), (30, 1), (100, 1)])
def test_the_curve_has_as_many_points_as_the_log_has_lines(every_s: int, expected: int) -> None:
    steps = with_steps(story("slow"), points(*((at, 12 * at) for at in range(-200, 300, every_s)))).steps
    assert steps is not None
    assert steps.curve is not None
    assert len(steps.curve.values) == expected
    assert sum(steps.curve.weights) == pytest.approx(RUN_S, abs=0.01)
    assert steps.per_s == pytest.approx(12)


def test_only_steps_during_the_recording_count() -> None:
    steps = with_steps(story("slow"), points((-100, 0), (0, 100), (20, 120), (30, 150))).steps
    assert steps is not None
    assert steps.steps == 50


def test_a_pause_does_not_count_as_a_slow_step() -> None:
    every = [(t / 10, t) for t in range(50)]
    late = [(30 + t / 10, 50 + t) for t in range(50)]
    steps = with_steps(story("slow"), points(*every, *late)).steps
    assert steps is not None
    assert steps.per_s == pytest.approx(10, rel=0.02)
    assert steps.curve is not None
    assert steps.curve.values[20] is None


def test_a_log_of_another_run_is_refused() -> None:
    with pytest.raises(InputError, match="outside of the recording"):
        with_steps(story("slow"), points((5000, 1), (5010, 2)))


def test_a_log_without_times_has_a_mean_and_no_curve() -> None:
    found = with_steps(story("slow"), StepLog("x", (StepPoint(10, None), StepPoint(400, None)), 11.9)).steps
    assert found is not None
    assert (found.steps, found.per_s, found.curve, found.note[:20]) == (400, 11.9, None, "the log has no times")


def test_the_first_step_of_a_progress_bar_is_at_the_start_of_the_job() -> None:
    bar = StepLog(PRINTED, tuple(StepPoint(12 * t, None, float(t)) for t in range(0, 35, 5)))
    steps = with_steps(story("slow"), bar).steps
    assert steps is not None
    assert steps.per_s == pytest.approx(12, rel=0.01)


def bar(*points: tuple[int, float], total: str = "100") -> tuple[StepPoint, ...]:
    return tuple(StepPoint(step, None, elapsed_s, total) for step, elapsed_s in points)


def test_progress_bars_of_epochs_have_a_mean_and_no_curve() -> None:
    epoch = bar((0, 0.0), (50, 5.0), (100, 10.0))
    steps = with_steps(story("slow"), StepLog(PRINTED, epoch * 3)).steps
    assert steps is not None
    assert (steps.steps, steps.per_s, steps.curve) == (300, 10.0, None)
    assert "several progress bars" in steps.note


def test_progress_bars_of_evaluations_do_not_count() -> None:
    evaluation = bar((0, 0.0), (5, 3.0), total="5")
    points = (*bar((0, 0.0), (10, 10.0)), *evaluation, *bar((20, 25.0)), *evaluation, *bar((30, 35.0)))
    steps = with_steps(story("slow"), StepLog(PRINTED, points)).steps
    assert steps is not None
    assert steps.steps == 30
    assert steps.per_s == pytest.approx(30 / 35, rel=0.01)
    assert steps.curve is not None


def test_several_steps_in_the_same_second_all_count() -> None:
    steps = with_steps(story("slow"), points(*((2 + i // 10, i) for i in range(300)))).steps
    assert steps is not None
    assert steps.steps == 290, "steps without an end were counted"
    assert steps.per_s == pytest.approx(10)


def test_a_progress_bar_with_whole_seconds_counts_each_redraw() -> None:
    redraws = StepLog(PRINTED, tuple(StepPoint(10 * i, None, float(i // 10), "9999") for i in range(300)))
    steps = with_steps(story("slow"), redraws).steps
    assert steps is not None
    assert steps.per_s == pytest.approx(100, rel=0.01)


def test_steps_before_the_checkpoint_of_a_resumed_run_do_not_count() -> None:
    before = [(at, 10 * at) for at in range(1, 16)]
    after = [(at, 145 + 10 * (at - 20)) for at in range(20, 31)]
    steps = with_steps(story("slow"), points(*before, *after)).steps
    assert steps is not None
    assert steps.steps == 140 + 100
    assert steps.per_s == pytest.approx(10)


def test_a_resumed_run_without_times_continues_the_count() -> None:
    counts = (50, 100, 150, 200, 170, 220, 270)
    steps = with_steps(story("slow"), StepLog("x", tuple(StepPoint(step, None) for step in counts), 2.0)).steps
    assert steps is not None
    assert steps.steps == 200 + 100


def test_ranks_and_evaluations_are_counted_separately() -> None:
    begin_ns = story("slow").begin_ns
    found = []
    for at in range(1, 31):
        for rank, late in (("0", 0.0), ("1", 0.3)):
            wall_ns = begin_ns + round((at + late) * S)
            found.append(StepPoint(500 + 10 * (at - (rank == "1")), wall_ns, series=StepSeries(True, rank, "step")))
        found += [StepPoint(i, begin_ns + at * S, series=StepSeries(False, "", "batch")) for i in range(at % 7)]
    steps = with_steps(story("slow"), StepLog(PRINTED, tuple(found))).steps
    assert steps is not None
    assert (steps.steps, steps.per_s) == (290, pytest.approx(10))


def test_a_progress_bar_begins_with_the_job_even_before_the_part_that_is_read() -> None:
    whole = StepLog(PRINTED, bar(*((12 * t, float(t)) for t in range(41)), total="480"))
    steps = with_steps(read(path("slow"), "+20s"), whole).steps
    assert steps is not None
    assert steps.per_s == pytest.approx(12, rel=0.02)
    assert steps.steps < 12 * 22
