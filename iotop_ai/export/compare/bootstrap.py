"""The confidence interval of the difference between two means over time, by circular block bootstrap.

Readings that are a second apart resemble each other, so their plain standard error is far too small. Therefore blocks
of neighbouring points are drawn instead of single points. Source of the block length: Politis and White (2004),
Automatic block-length selection for the dependent bootstrap, with the correction of Patton, Politis and White (2009).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

ROUNDS = 1000
"""The number of differences that are drawn."""
LEAST_BLOCKS = 5
"""With fewer blocks, a run does not show how much its values vary."""
LEAST_BLOCK_S = 3.0
"""The shortest length of a block, in seconds."""
_LENGTH_FACTOR = 1.5
"""Blocks are longer than the estimated best length by this factor.

In a simulation of 300 pairs of runs from one distribution (120 points; autocorrelation 0, 0.6 and 0.9), a difference
was found in 3, 4 and 8 % of the pairs with this factor, and in 5, 7 and 18 % without it. The aim is 5 %.
"""
_Z = 1.96
"""The 97.5 % quantile of the normal distribution."""
_TAIL = 0.025
"""The share of the drawn differences that lies below the interval, and the share above it."""
_LEAST_STRETCH = 5
"""The least number of insignificant autocorrelations in a row (K_N of the source)."""


class Points(NamedTuple):
    """A figure over time.

    weights: how much each value counts, in seconds or requests; 0 if the value is unknown. step_s: the seconds between
    two points.
    """

    values: tuple[float, ...]
    weights: tuple[float, ...]
    step_s: float

    @property
    def mean(self) -> float | None:
        """The weighted mean; None if no value is known."""
        weight = sum(self.weights)
        return sum(v * w for v, w in zip(self.values, self.weights, strict=True)) / weight if weight > 0 else None

    @property
    def known(self) -> Points:
        """The points whose value is known."""
        pairs = [(v, w) for v, w in zip(self.values, self.weights, strict=True) if w > 0]
        return Points(tuple(v for v, _ in pairs), tuple(w for _, w in pairs), self.step_s)

    def spaced(self, spacing_s: float) -> Points:
        """The known points; neighbours are joined so that the points are ``spacing_s`` apart on average, or further.

        Points that repeat one reading show no variation, and would be taken for several readings that agree.
        """
        if spacing_s <= self.step_s:
            return self
        known = self.known
        n = len(known.values)
        count = min(n, max(1, int(n * self.step_s / spacing_s)))
        edges = [i * n // count for i in range(count + 1)] if n else [0]
        groups = [Points(known.values[a:b], known.weights[a:b], self.step_s) for a, b in pairwise(edges)]
        values = tuple(group.mean or 0.0 for group in groups)
        return Points(values, tuple(sum(group.weights) for group in groups), spacing_s)


class Interval(NamedTuple):
    """The 95 % confidence interval of a difference: the mean after minus the mean before."""

    low: float
    high: float

    @property
    def has_zero(self) -> bool:
        """Whether the interval contains 0, so that there may be no difference."""
        return self.low <= 0 <= self.high


def block_length(values: Sequence[float]) -> float:
    """The best block length, in points, for the mean of values that resemble their neighbours; at least 1."""
    n = len(values)
    mean = sum(values) / n
    deviations = [value - mean for value in values]
    longest = min(n - 1, math.ceil(math.sqrt(n)) + _LEAST_STRETCH)
    covariances = [
        sum(a * b for a, b in zip(deviations, deviations[lag:], strict=False)) / n for lag in range(longest + 1)
    ]
    if covariances[0] <= 0:
        return 1.0
    limit = 2 * math.sqrt(math.log10(n) / n)
    small = [abs(covariance) / covariances[0] < limit for covariance in covariances]
    stretch = max(_LEAST_STRETCH, math.ceil(math.sqrt(math.log10(n))))
    # The first lag that is followed by a stretch of insignificant autocorrelations.
    significant = next((m for m in range(longest) if all(small[m + 1 : m + 1 + stretch])), longest)
    cut = min(longest, max(1, 2 * significant))
    g = total = 0.0
    for lag in range(-cut, cut + 1):
        share = abs(lag) / cut
        kernel = 1.0 if share <= 0.5 else 2 * (1 - share)
        g += kernel * abs(lag) * covariances[abs(lag)]
        total += kernel * covariances[abs(lag)]
    if total <= 0:
        return 1.0
    return max(1.0, math.cbrt(2 * g * g / (4 / 3 * total * total) * n))


def _least_block_points(step_s: float) -> int:
    """The number of points in the shortest block. step_s: the seconds between two points."""
    return math.ceil(LEAST_BLOCK_S / step_s)


def least_run_s(step_s: float) -> float:
    """The shortest run that has LEAST_BLOCKS blocks, in seconds. step_s: the seconds between two points."""
    return LEAST_BLOCKS * _least_block_points(step_s) * step_s


def _points_per_block(points: Points) -> int:
    """The number of points in a block; 0 if the run is too short.

    A block is as long as the values require, at least n^(1/3) points and LEAST_BLOCK_S, and short enough for
    LEAST_BLOCKS to fit into the run.
    """
    n, least = len(points.values), _least_block_points(points.step_s)
    most = n // LEAST_BLOCKS
    if most < least:
        return 0
    return min(most, math.ceil(_LENGTH_FACTOR * max(block_length(points.values), math.cbrt(n), least)))


class _Resampler:
    """Draws random means of a run from blocks, which wrap around at the end of the run.

    Each mean uses as many points as the run has known points.
    """

    def __init__(self, points: Points, rng: random.Random) -> None:
        points = points.known  # unknown points do not show how much the values vary
        self.n = len(points.values)
        self.block_points = _points_per_block(points)
        self._draw, self._bits = rng.getrandbits, self.n.bit_length()
        products = [v * w for v, w in zip(points.values, points.weights, strict=True)]
        sums = list(accumulate([*products, *products], initial=0.0))
        weights = list(accumulate([*points.weights, *points.weights], initial=0.0))
        size = self.block_points
        sizes = [min(size, self.n - begin) for begin in range(0, self.n, size)] if size else []
        blocks_by_size = {
            size: (self._sums_over_blocks(sums, size), self._sums_over_blocks(weights, size)) for size in set(sizes)
        }
        self._block_sums = [blocks_by_size[size] for size in sizes]

    def _sums_over_blocks(self, sums: list[float], size: int) -> list[float]:
        """For each point, the sum over the ``size`` points that begin with it. sums: the running totals."""
        return [sums[begin + size] - sums[begin] for begin in range(self.n)]

    @property
    def block_count(self) -> float:
        """The length of the run in blocks; 0 if the run is too short."""
        return self.n / self.block_points if self.block_points else 0.0

    def draw_mean(self) -> float | None:
        """One random mean; None if the sum of the drawn weights is 0: very small weights may be lost in rounding."""
        total = weight = 0.0
        draw, bits, n = self._draw, self._bits, self.n
        for sums, weights in self._block_sums:
            # This is randrange written inline: a call takes three times as long, and a comparison draws a million
            # times.
            while (begin := draw(bits)) >= n:
                pass
            total += sums[begin]
            weight += weights[begin]
        return total / weight if weight > 0 else None


def student_factor(degrees: float) -> float:
    """The 97.5 % quantile of Student's t divided by that of the normal distribution (Abramowitz and Stegun 26.7.5)."""
    z, v = _Z, max(1.0, degrees)
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v * v)
    return t / z


def difference_interval(before: Points, after: Points, seed: int, rounds: int = ROUNDS) -> Interval | None:
    """The confidence interval of the difference of two means.

    None if a run is too short or has no known value, or if most of the drawn means have no weight.

    The limits are percentiles of the drawn differences, widened by Student's factor and by a correction for the bias
    of a variance that is estimated from few blocks. The same seed gives the same interval.
    """
    mean_before, mean_after = before.mean, after.mean
    if mean_before is None or mean_after is None:
        return None
    rng = random.Random(seed)
    resampler_before, resampler_after = _Resampler(before, rng), _Resampler(after, rng)
    blocks = min(resampler_before.block_count, resampler_after.block_count)
    if blocks < LEAST_BLOCKS:
        return None
    differences = sorted(
        b - a
        for _ in range(rounds)
        if (a := resampler_before.draw_mean()) is not None and (b := resampler_after.draw_mean()) is not None
    )
    if len(differences) < rounds / 2:
        return None
    low, high = (differences[min(len(differences) - 1, int(len(differences) * q))] for q in (_TAIL, 1 - _TAIL))
    factor, difference = student_factor(blocks - 1) / math.sqrt(1 - 1 / blocks), mean_after - mean_before
    return Interval(difference - (difference - low) * factor, difference + (high - difference) * factor)
