"""Decides whether memory grows with each batch. Pure."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_POINTS = 6
LEAST_BYTES = 8 << 20
"""The smallest growth over the whole run, in bytes. Less may be noise of the allocators."""
LEAST_RATE_RATIO = 0.5
"""Memory grows steadily if its growth rate from the middle third of the run to the last third is at least this fraction
of the rate from the first third to the middle third. Buffers stop growing once they are full; a leak does not.
"""


def growth_per_batch(points: Sequence[tuple[int, int]]) -> float | None:
    """Return the latest growth in bytes per batch; None if memory does not grow steadily, or for too few points.

    points: pairs of the number of batches so far and the memory in bytes, the oldest first.
    """
    third = len(points) // 3
    if len(points) < LEAST_POINTS:
        return None
    first, middle, last = (_mean_point(part) for part in (points[:third], points[third:-third], points[-third:]))
    if last[0] <= first[0] or last[1] - first[1] < LEAST_BYTES:
        return None
    early_rate = (middle[1] - first[1]) / max(middle[0] - first[0], 1)
    late_rate = (last[1] - middle[1]) / max(last[0] - middle[0], 1)
    return late_rate if early_rate > 0 and late_rate >= LEAST_RATE_RATIO * early_rate else None


def _mean_point(points: Sequence[tuple[int, int]]) -> tuple[float, float]:
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
