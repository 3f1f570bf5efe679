"""The interval contains the true difference as often as promised, although consecutive values resemble each other."""

from __future__ import annotations

import random

import pytest

from iotop_ai.export.compare.bootstrap import Interval, Points, block_length, difference_interval, student_factor


def noisy(mean: float, autocorrelation: float, rng: random.Random, n: int = 120) -> Points:
    """Values around a mean with a spread of 1. autocorrelation: how much each value resembles the previous value."""
    value, out = rng.gauss(0, 1), []
    for _ in range(n):
        value = autocorrelation * value + rng.gauss(0, (1 - autocorrelation**2) ** 0.5)
        out.append(mean + value)
    return Points(tuple(out), (1.0,) * n, 1.0)


@pytest.mark.parametrize("autocorrelation", [0.0, 0.6, 0.9])
def test_equal_runs_seldom_differ(autocorrelation: float) -> None:
    rng = random.Random(1)
    wrong = 0
    for seed in range(150):
        found = difference_interval(noisy(5, autocorrelation, rng), noisy(5, autocorrelation, rng), seed, 300)
        assert found is not None
        wrong += not found.has_zero
    # 5 % are expected. If values resemble each other for long, a run of two minutes gives more.
    assert wrong / 150 <= {0.0: 0.08, 0.6: 0.09, 0.9: 0.13}[autocorrelation]


def test_a_difference_is_found_and_the_interval_contains_it() -> None:
    rng = random.Random(2)
    found = [difference_interval(noisy(5, 0.5, rng), noisy(7, 0.5, rng), seed, 300) for seed in range(60)]
    assert sum(one is not None and one.low > 0 for one in found) >= 58
    assert sum(one is not None and one.low <= 2 <= one.high for one in found) >= 52


def test_the_same_input_gives_the_same_interval() -> None:
    rng = random.Random(3)
    one, other = noisy(1, 0.3, rng), noisy(2, 0.3, rng)
    assert difference_interval(one, other, 7) == difference_interval(one, other, 7)
    assert difference_interval(one, other, 7) != difference_interval(one, other, 8)


def test_values_that_resemble_each_other_make_blocks_longer() -> None:
    rng = random.Random(4)
    plain, slow = (block_length(noisy(0, autocorrelation, rng, 600).values) for autocorrelation in (0.0, 0.95))
    assert plain < 6 < slow
    assert block_length([3.0] * 50) == 1.0


def test_runs_that_are_too_short_have_no_interval() -> None:
    rng = random.Random(5)
    assert difference_interval(noisy(1, 0, rng, 14), noisy(2, 0, rng, 200), 1) is None
    unknown = Points((0.0,) * 100, (0.0,) * 100, 1.0)
    assert difference_interval(unknown, noisy(2, 0, rng), 1) is None


def test_the_interval_between_constants_has_no_width() -> None:
    constant = Points((2.0,) * 60, (1.0,) * 60, 1.0)
    assert difference_interval(constant, constant, 1) == Interval(0.0, 0.0)
    assert difference_interval(constant, constant._replace(values=(5.0,) * 60), 1) == pytest.approx((3.0, 3.0))


def test_values_are_weighted() -> None:
    """For a time per request, a second with many requests counts more."""
    points = Points((10.0, 100.0) * 50, (9.0, 1.0) * 50, 1.0)
    assert points.mean == pytest.approx(19.0)
    found = difference_interval(points, points, 1)
    assert found is not None
    assert found.has_zero


@pytest.mark.parametrize(("degrees", "t"), [(4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)])
def test_the_quantiles_of_students_distribution_are_right(degrees: int, t: float) -> None:
    assert student_factor(degrees) * 1.96 == pytest.approx(t, rel=0.02)


def padded(points: Points, n: int) -> Points:
    """The points, followed by unknown points up to a length of ``n``."""
    more = n - len(points.values)
    return Points((*points.values, *(0.0,) * more), (*points.weights, *(0.0,) * more), points.step_s)


@pytest.mark.parametrize("known", [6, 12])
def test_few_known_points_in_a_long_run_have_no_interval(known: int) -> None:
    rng = random.Random(5)
    pairs = [(noisy(5, 0.6, rng, known), noisy(5, 0.6, rng, known)) for _ in range(20)]
    assert all(difference_interval(padded(a, 300), padded(b, 300), 1, 100) is None for a, b in pairs)


def test_unknown_points_change_nothing() -> None:
    rng = random.Random(6)
    a, b = noisy(5, 0.6, rng), noisy(6, 0.6, rng)
    assert difference_interval(padded(a, 500), padded(b, 300), 1) == difference_interval(a, b, 1)


def steps_of(usual_s: float, rng: random.Random, run_s: int) -> tuple[Points, float]:
    """The steps per second of a run, a point a second, and the mean length of a step; each step is one reading."""
    per_s: list[float] = []
    lengths: list[int] = []
    while len(per_s) < run_s:
        lengths.append(max(1, round(rng.gauss(usual_s, 0.15 * usual_s))))
        per_s += [1 / lengths[-1]] * lengths[-1]
    return Points(tuple(per_s[:run_s]), (1.0,) * run_s, 1.0), sum(lengths) / len(lengths)


@pytest.mark.parametrize(("usual_s", "run_s", "known"), [(20.0, 60, 0), (20.0, 200, 100), (5.0, 120, 100)])
def test_a_reading_that_fills_many_points_counts_once(usual_s: float, run_s: int, known: int) -> None:
    rng = random.Random(6)
    found = []
    for seed in range(100):
        pair = [steps_of(usual_s, rng, run_s) for _ in range(2)]
        found.append(difference_interval(*(points.spaced(length_s) for points, length_s in pair), seed, 200))
    intervals = [one for one in found if one is not None]
    assert len(intervals) == known, "a run has an interval if it has 5 readings or more"
    assert sum(not one.has_zero for one in intervals) <= 8


def test_points_are_joined_without_a_change_of_their_mean() -> None:
    points = Points((1.0, 1.0, 0.0, 2.0, 4.0, 3.0), (1.0, 1.0, 0.0, 1.0, 0.5, 1.0), 1.0)
    joined = points.spaced(2.0)
    assert joined == Points((1.0, (2.0 + 2.0 + 3.0) / 2.5), (2.0, 2.5), 2.0)
    assert joined.mean == pytest.approx(points.mean)
    assert points.spaced(1.0) == points
    assert Points((0.0,), (0.0,), 1.0).spaced(5.0) == Points((), (), 5.0)
