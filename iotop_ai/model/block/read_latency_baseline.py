"""The usual read latency of a device: histograms of its one-minute means, small enough to store in every keyframe."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple

_OCTAVE = (1000, 1189, 1414, 1682)
"""The lower bounds in ns of the four bins from 1 µs to 2 µs; each is the previous one times the fourth root of two."""
BOUNDS_NS = tuple(low << octave for octave in range(26) for low in _OCTAVE)
"""The lower bounds of all bins in ns, from 1 µs to about a minute."""
SIZES = (16 << 10, 128 << 10)
"""The upper bounds in bytes of the first two size buckets, by the mean size of a minute's reads; the third has no upper
bound."""
PART_NS = 3 * 3600 * 10**9
PARTS = 9
"""A histogram covers the newest nine periods of 3 h, so that the oldest can be dropped as a whole."""
MINUTE_NS = 60 * 10**9

Bins = tuple[tuple[int, int], ...]
"""Pairs of (index of a bin, number of minutes in it), ordered by index, without empty bins."""


class Baseline(NamedTuple):
    """A histogram: for one device and one size bucket, the number of minutes by their mean read latency.

    parts: the bins of each period of 3 h, as (number of the period since monotonic time 0, bins)
    """

    parts: tuple[tuple[int, Bins], ...] = ()

    @property
    def minutes(self) -> int:
        """The number of minutes counted."""
        return sum(count for _, bins in self.parts for _, count in bins)

    def low_ms(self, share: float = 0.1) -> float | None:
        """The quantile ``share`` of the minutes' read latencies, as the middle of its bin; None without minutes."""
        counts: dict[int, int] = {}
        for _, bins in self.parts:
            for index, count in bins:
                counts[index] = counts.get(index, 0) + count
        left = share * sum(counts.values())
        for index in sorted(counts):
            left -= counts[index]
            if left <= 0:
                return middle_ms(index)
        return None


class DeviceBaseline(NamedTuple):
    """The read latencies of one device.

    minute: the minute being summed, as its number since monotonic time 0; None while no minute is summed
    reads, wait_us, size_bytes: the sums of that minute so far
    sizes: the Baseline of each size bucket
    """

    minute: int | None = None
    reads: int = 0
    wait_us: int = 0
    size_bytes: int = 0
    sizes: tuple[Baseline, Baseline, Baseline] = (Baseline(), Baseline(), Baseline())


def middle_ms(index: int) -> float:
    """The middle of the bin ``index``, in ms; for the last bin, which has no upper bound, that of its neighbour."""
    index = min(max(index, 0), len(BOUNDS_NS) - 2)
    return (BOUNDS_NS[index] + BOUNDS_NS[index + 1]) / 2e6


def bin_of(wait_ms: float) -> int:
    """The index of the bin for a read latency."""
    return max(0, bisect_right(BOUNDS_NS, wait_ms * 1e6) - 1)


def size_bucket(size_bytes: float) -> int:
    """The index of the size bucket for a mean read size: 0, 1 or 2."""
    return sum(size_bytes > bound for bound in SIZES)


def with_minute(baseline: Baseline, at_ns: int, wait_ms: float) -> Baseline:
    """The baseline with the minute at ``at_ns`` added; minutes more than about a day before it are dropped."""
    number, index = at_ns // PART_NS, bin_of(wait_ms)
    kept = [part for part in baseline.parts if number - PARTS < part[0] < number]
    newest = next((bins for part, bins in baseline.parts if part == number), ())
    return Baseline((*kept, (number, _with_one_more(newest, index))))


def _with_one_more(bins: Iterable[tuple[int, int]], index: int) -> Bins:
    counts = dict(bins)
    counts[index] = counts.get(index, 0) + 1
    return tuple(sorted(counts.items()))
