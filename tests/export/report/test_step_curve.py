"""The steps in a trainer's log, at the times of the recorded run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from iotop_ai.export.report.step_curve import with_steps
from iotop_ai.export.report.story import Steps
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


def test_a_run_shorter_than_a_step_does_not_get_the_steps_of_the_whole_log() -> None:
    steps = with_steps(story("slow"), points(*((at, at // 90) for at in range(-9000, 9000, 90)))).steps
    assert steps is not None
    assert (steps.steps, steps.per_s) == (0, pytest.approx(1 / 90))


def printed(path: Path, *lines: tuple[float, str]) -> Steps:
    """The steps of a printed log. lines: the seconds after the beginning of the run, and the text."""
    begin_ns = story("slow").begin_ns
    moments = ((datetime.fromtimestamp(begin_ns / S + at, UTC), text) for at, text in lines)
    (path / "train.log").write_text("".join(f"{moment:%F %T.%f}Z {text}\n" for moment, text in moments))
    steps = with_steps(story("slow"), read_step_log(str(path / "train.log"))).steps
    assert steps is not None
    return steps


FIRST_50 = [(t / 10, f"step {t} loss 0.5") for t in range(50)]
LAST_50 = [(30 + t / 10, f"step {50 + t} loss 0.5") for t in range(50)]


def test_a_long_time_without_a_step_counts_as_slow(tmp_path: Path) -> None:
    steps = printed(tmp_path, *FIRST_50, (6.0, "cannot open 7.jpg"), *LAST_50)
    assert (steps.steps, steps.per_s) == (99, pytest.approx(99 / 34.9, rel=0.01))
    assert steps.curve is not None
    assert steps.curve.values[20] == pytest.approx(1 / 25.1, rel=0.01)


@pytest.mark.parametrize(
    "text",
    [
        "val loss 0.4",
        "Evaluating",
        "validation batch 3",
        "step 49: train loss 0.5, val loss 0.6",
        "iter 49 eval 1",
    ],
)
def test_an_evaluation_does_not_count_as_a_slow_step(text: str, tmp_path: Path) -> None:
    steps = printed(tmp_path, *FIRST_50, (29.0, text), *LAST_50)
    assert (steps.steps, steps.per_s) == (98, pytest.approx(10, rel=0.02))
    assert steps.curve is not None
    assert steps.curve.values[20] is None


def test_a_restart_does_not_count_as_a_slow_step(tmp_path: Path) -> None:
    again = [(30 + t / 10, f"step {t} loss 0.5") for t in range(1, 50)]
    steps = printed(tmp_path, *FIRST_50, *again)
    assert (steps.steps, steps.per_s) == (49 + 48, pytest.approx(10, rel=0.02))


def test_evaluations_in_most_lines_do_not_explain_a_long_time(tmp_path: Path) -> None:
    lines = [(at, f"{text} val loss 0.6") for at, text in (*FIRST_50, *LAST_50)]
    assert printed(tmp_path, *lines).per_s == pytest.approx(99 / 34.9, rel=0.01)


def test_only_another_progress_bar_explains_a_long_time() -> None:
    one, two = bar(*((t, t / 10) for t in range(50))), bar(*((t, 25 + t / 10) for t in range(50, 100)))
    slow = with_steps(story("slow"), StepLog(PRINTED, (*one, *two))).steps
    paused = with_steps(story("slow"), StepLog(PRINTED, (*one, *bar((1, 2.0), total="5"), *two))).steps
    assert slow is not None
    assert paused is not None
    assert (slow.per_s, paused.per_s) == pytest.approx((99 / 34.9, 10), rel=0.02)


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
    assert "each of its progress bars" in steps.note


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


def test_steps_logged_just_before_a_run_resumes_count_in_the_curve() -> None:
    logged = points((0, 100), (10, 150), (10, 200), (20, 140), (30, 150))
    steps = with_steps(story("slow"), logged).steps
    assert steps is not None
    assert steps.steps == 50 + 50 + 0 + 10


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


def test_the_progress_bars_of_several_ranks_are_not_mixed() -> None:
    """The elapsed time of rank 1 is a second behind, so it falls from line to line."""
    one, two = bar(*((10 * t, float(t)) for t in range(1, 31))), bar(*((10 * t, float(t)) for t in range(30)))
    mixed = tuple(
        point._replace(series=StepSeries(rank=rank))
        for pair in zip(one, two, strict=True)
        for rank, point in zip("01", pair, strict=True)
    )
    steps = with_steps(story("slow"), StepLog(PRINTED, mixed)).steps
    assert steps is not None
    assert steps.curve is not None
    assert (steps.steps <= 290, steps.per_s) == (True, pytest.approx(10, rel=0.01))


def test_a_progress_bar_begins_with_the_job_even_before_the_part_that_is_read() -> None:
    whole = StepLog(PRINTED, bar(*((12 * t, float(t)) for t in range(41)), total="480"))
    steps = with_steps(read(path("slow"), "+20s"), whole).steps
    assert steps is not None
    assert steps.per_s == pytest.approx(12, rel=0.02)
    assert steps.steps < 12 * 22
