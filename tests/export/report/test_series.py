"""Figures over time: their means lose nothing, whatever the grid is."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.export.report.series import Curve, Grid, Series, Track, curve_of, downsampled

S = 1_000_000_000
VALUES = st.lists(st.tuples(st.floats(0.1, 7.0), st.floats(0, 1e6)), min_size=1, max_size=80)


def filled(values: list[tuple[float, float]], grid: Grid, begin_ns: int = 0) -> Track:
    track, at = Track(grid.series()), begin_ns
    for seconds, value in values:
        at += round(seconds * S)
        interval = grid.interval(at, seconds)
        assert interval is not None
        track.add(interval, value)
    return track


def whole(series: Series) -> tuple[float, float]:
    return sum(series.sums), sum(series.weights)


@given(VALUES, st.integers(4, 50))
def test_no_second_and_no_byte_is_lost(values: list[tuple[float, float]], most: int) -> None:
    """A grid with a known end and one that grows have the same sums."""
    seconds = sum(one for one, _ in values)
    truth = sum(length * value for length, value in values)
    for grid in (Grid(0, round(seconds * S) + 80, 1.0, most), Grid(0, None, 1.0, most)):
        series = filled(values, grid).series
        assert series is not None
        assert len(series.sums) <= most + 1
        assert whole(series) == (pytest.approx(truth, rel=1e-6), pytest.approx(seconds))


@given(VALUES)
def test_the_statistics_of_a_series_are_those_of_its_values(values: list[tuple[float, float]]) -> None:
    stat = filled([(1.0, value) for _, value in values], Grid(0, None, 1.0)).stat
    plain = [value for _, value in values]
    assert stat is not None
    assert stat.mean == pytest.approx(statistics.fmean(plain))
    assert stat.peak == max(plain)
    if stat.mean > 1e-3:
        assert stat.cv == pytest.approx(statistics.pstdev(plain) / stat.mean, abs=1e-4)


def test_a_time_per_request_is_weighted_by_the_number_of_requests() -> None:
    grid = Grid(0, None, 1.0)
    track = Track(grid.series())
    for second, (await_ms, reads) in enumerate([(10.0, 90.0), (100.0, 10.0), (None, 0.0)], 1):
        interval = grid.interval(second * S, 1.0)
        assert interval is not None
        track.add(interval, await_ms, reads)
    assert track.stat is not None
    assert track.stat.mean == pytest.approx(19.0)
    assert track.stat.peak_ns == 2 * S
    assert track.series is not None
    assert curve_of(grid, track.series).values == (10.0, 100.0)


def test_an_unknown_value_is_neither_zero_nor_interpolated() -> None:
    grid = Grid(0, 10 * S, 1.0)
    track = Track(grid.series())
    for second in (1, 2, 9, 10):
        interval = grid.interval(second * S, 1.0)
        assert interval is not None
        track.add(interval, float(second))
    assert track.series is not None
    assert curve_of(grid, track.series).values == (1.0, 2.0, *[None] * 6, 9.0, 10.0)
    assert Track().stat is None


def test_an_interval_before_the_start_is_cut_or_left_out() -> None:
    grid = Grid(10 * S, None, 1.0)
    assert grid.interval(10 * S, 5.0) is None
    interval = grid.interval(12 * S, 5.0)
    assert interval is not None
    assert sum(seconds for _, seconds in interval.spans) == interval.seconds == 2.0


def test_points_that_are_joined_are_weighted() -> None:
    curve = Curve(0, 1.0, (1.0, 3.0, None, 5.0, None, None, 7.0), (1.0, 3.0, 0.0, 2.0, 0.0, 0.0, 1.0))
    assert downsampled(curve, 4) == Curve(0, 2.0, (2.5, 5.0, None, 7.0), (4.0, 2.0, 0.0, 1.0))
    assert downsampled(curve, 7) is curve
