"""Decides whether memory grows with each batch. Pure."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_POINTS = 6
LEAST_BYTES = 8 << 20
"""The smallest growth over the whole run, in bytes. Less may be noise of the allocators."""
STEADY = 0.5
"""From the middle third of the run to the last, memory must grow at least at this fraction of its rate from the first
third to the middle one: the growth of buffers ends once they are full, that of a leak does not.
"""


def growth_per_batch(points: Sequence[tuple[int, int]]) -> float | None:
    """Return the growth in bytes per batch; None if memory does not grow steadily.

    points: pairs of the number of batches so far and the memory in bytes.
    """
    third = len(points) // 3
    if len(points) < LEAST_POINTS:
        return None
    first, middle, last = (_mean_point(part) for part in (points[:third], points[third:-third], points[-third:]))
    if last[0] <= first[0] or last[1] - first[1] < LEAST_BYTES:
        return None
    before = (middle[1] - first[1]) / max(middle[0] - first[0], 1)
    after = (last[1] - middle[1]) / max(last[0] - middle[0], 1)
    return after if before > 0 and after >= STEADY * before else None


def _mean_point(points: Sequence[tuple[int, int]]) -> tuple[float, float]:
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
