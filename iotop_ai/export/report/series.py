"""Figures over time in bounded memory, with their mean, spread and peak."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

MOST_POINTS = 1800
"""The most points of a series. If a series needs more, its points are joined in pairs."""
_SECOND = 1_000_000_000


class Interval(NamedTuple):
    """The time that a value covers.

    spans: the index of each point of a series that the interval overlaps, and the seconds of the overlap. wall_ns: the
    wall time at the end of the interval.
    """

    spans: tuple[tuple[int, float], ...]
    seconds: float
    wall_ns: int


class Series:
    """A figure over time: at each point of a grid, the weighted sum of the values and the sum of the weights."""

    __slots__ = ("sums", "weights")

    def __init__(self) -> None:
        self.sums: list[float] = []
        self.weights: list[float] = []

    def add(self, interval: Interval, value: float, weight: float = 1.0) -> None:
        """Add a value. weight: multiplies the seconds of the interval."""
        sums, weights = self.sums, self.weights
        last = interval.spans[-1][0]
        if last >= len(sums):
            more = [0.0] * (last + 1 - len(sums))
            sums += more
            weights += more
        for index, seconds in interval.spans:
            sums[index] += value * weight * seconds
            weights[index] += weight * seconds

    def halve(self) -> None:
        """Join the points in pairs."""
        self.sums, self.weights = _paired(self.sums), _paired(self.weights)


def _paired(values: list[float]) -> list[float]:
    if len(values) % 2:
        values = [*values, 0.0]
    return [a + b for a, b in zip(values[::2], values[1::2], strict=True)]


class Grid:
    """The points in time that all series of a run share.

    end_ns: the end of the run; None if unknown (a stream). interval_s: the shortest time between two points. most: the
    most points of a series.
    """

    def __init__(self, begin_ns: int, end_ns: int | None, interval_s: float, most: int = MOST_POINTS) -> None:
        self.begin_ns = begin_ns
        self._most = most
        interval_ns = max(1, round(interval_s * _SECOND))
        span_ns = 0 if end_ns is None else max(0, end_ns - begin_ns)
        self.step_ns = interval_ns * max(1, math.ceil(span_ns / interval_ns / most))
        self._series: list[Series] = []

    def series(self) -> Series:
        """A new series on this grid."""
        series = Series()
        self._series.append(series)
        return series

    @property
    def points(self) -> int:
        """The number of points of the longest series, at least 1."""
        return max(1, max((len(series.sums) for series in self._series), default=1))

    def interval(self, end_ns: int, seconds: float) -> Interval | None:
        """The interval of ``seconds`` before the wall time ``end_ns``, cut at the start of the grid.

        None if it is before the start of the grid. The step of the grid is doubled until the interval ends within
        ``most`` points.
        """
        begin_ns = end_ns - round(seconds * _SECOND)
        if begin_ns < self.begin_ns:
            begin_ns = self.begin_ns
            seconds = (end_ns - begin_ns) / _SECOND
        if end_ns <= begin_ns:
            return None
        while (end_ns - 1 - self.begin_ns) // self.step_ns >= self._most:
            self.step_ns *= 2
            for series in self._series:
                series.halve()
        first, last = (begin_ns - self.begin_ns) // self.step_ns, (end_ns - 1 - self.begin_ns) // self.step_ns
        if first == last:
            return Interval(((first, (end_ns - begin_ns) / _SECOND),), seconds, end_ns)
        edges = [begin_ns, *(self.begin_ns + i * self.step_ns for i in range(first + 1, last + 1)), end_ns]
        spans = tuple((first + i, (b - a) / _SECOND) for i, (a, b) in enumerate(pairwise(edges)))
        return Interval(spans, seconds, end_ns)


class Stat(NamedTuple):
    """A figure over a run.

    mean: the weighted mean. cv: the standard deviation of the intervals' values divided by their mean; None if the mean
    is not positive. peak, peak_ns: the highest value of an interval, and the wall time at its end. weight: the sum of
    the weights, in seconds; for a time per request, in requests.
    """

    mean: float
    cv: float | None
    peak: float
    peak_ns: int
    weight: float


class Track:
    """The statistics of a figure and, if ``series`` is given, its values over time."""

    __slots__ = ("_m2", "_mean", "_peak", "_peak_ns", "_weight", "series")

    def __init__(self, series: Series | None = None) -> None:
        self.series = series
        self._weight = self._mean = self._m2 = 0.0
        self._peak, self._peak_ns = -math.inf, 0

    def add(self, interval: Interval, value: float | None, weight: float | None = 1.0) -> None:
        """Add a value. An unknown value, or a value without weight, is ignored. weight: multiplies the seconds."""
        if value is None or not weight:
            return
        if self.series is not None:
            self.series.add(interval, value, weight)
        # West's update of a weighted variance needs one pass, and does not subtract large sums.
        weight *= interval.seconds
        self._weight += weight
        deviation = value - self._mean
        self._mean += deviation * weight / self._weight
        self._m2 += weight * deviation * (value - self._mean)
        if value > self._peak:
            self._peak, self._peak_ns = value, interval.wall_ns

    @property
    def total(self) -> float | None:
        """The sum of value x weight x seconds, which is in bytes for a rate in B/s; None if no value is known."""
        return self._mean * self._weight if self._weight else None

    @property
    def stat(self) -> Stat | None:
        """The statistics; None if no value is known."""
        if not self._weight:
            return None
        cv = math.sqrt(max(0.0, self._m2) / self._weight) / self._mean if self._mean > 0 else None
        return Stat(self._mean, cv, self._peak, self._peak_ns, self._weight)


class Curve(NamedTuple):
    """Values over time, one for each ``step_s`` seconds; the first begins at the wall time ``begin_ns``.

    A value is None if it is unknown, or undefined (a mean over no requests). weights: the seconds or requests that each
    value covers, for means and for joining points.
    """

    begin_ns: int
    step_s: float
    values: tuple[float | None, ...]
    weights: tuple[float, ...]

    @property
    def known(self) -> bool:
        """Whether any value is known."""
        return any(value is not None for value in self.values)


def curve_of(grid: Grid, series: Series) -> Curve:
    """The curve of a series. All curves of a grid have the same length."""
    count = grid.points
    sums = series.sums + [0.0] * (count - len(series.sums))
    weights = series.weights + [0.0] * (count - len(series.weights))
    values = tuple(total / weight if weight > 0 else None for total, weight in zip(sums, weights, strict=True))
    return Curve(grid.begin_ns, grid.step_ns / _SECOND, values, tuple(weights))


def downsampled(curve: Curve, points: int) -> Curve:
    """The curve with neighbouring points joined, so that at most ``points`` remain."""
    group_size = max(1, math.ceil(len(curve.values) / points))
    if group_size == 1:
        return curve
    values: list[float | None] = []
    weights: list[float] = []
    for i in range(0, len(curve.values), group_size):
        pairs = zip(curve.values[i : i + group_size], curve.weights[i : i + group_size], strict=True)
        known = [(v, w) for v, w in pairs if v is not None and w > 0]
        weight = sum(w for _, w in known)
        values.append(sum(v * w for v, w in known) / weight if weight > 0 else None)
        weights.append(weight)
    return Curve(curve.begin_ns, curve.step_s * group_size, tuple(values), tuple(weights))
