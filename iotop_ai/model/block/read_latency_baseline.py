"""Past read times of a device, as histograms of one-minute means that are small enough for every keyframe."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple

_OCTAVE = (1000, 1189, 1414, 1682)
"""The lower bounds in ns of the four bins of the first octave: 1 µs times the powers of the fourth root of two."""
BOUNDS_NS = tuple(low << octave for octave in range(26) for low in _OCTAVE)
"""The lower bounds of all bins in ns, from 1 µs to about a minute."""
SIZES = (16 << 10, 128 << 10)
"""The upper bounds in bytes of the first two size buckets, by the mean size of a minute's reads; the third is
unbounded."""
PART_NS = 3 * 3600 * 10**9
PARTS = 9
MINUTE_NS = 60 * 10**9

Bins = tuple[tuple[int, int], ...]
"""Pairs of (bin, number of minutes in that bin), ordered by bin, without empty bins."""


class Baseline(NamedTuple):
    """The minutes of one device and one bucket of read sizes, counted by their mean read time.

    parts: the bins of each period of 3 h, as (number of the period since the clock's zero, bins)
    """

    parts: tuple[tuple[int, Bins], ...] = ()

    @property
    def minutes(self) -> int:
        """The number of minutes counted."""
        return sum(count for _, bins in self.parts for _, count in bins)

    def low_ms(self, share: float = 0.1) -> float | None:
        """The read time below which ``share`` of the minutes lie, as the middle of a bin; None without minutes."""
        counts: dict[int, int] = {}
        for _, bins in self.parts:
            for place, count in bins:
                counts[place] = counts.get(place, 0) + count
        left = share * sum(counts.values())
        for place in sorted(counts):
            left -= counts[place]
            if left <= 0:
                return middle_ms(place)
        return None


class DeviceBaseline(NamedTuple):
    """The read times of one device.

    minute: the number of the current minute; None if the current minute is not counted
    reads, wait_us, size_bytes: the sums of the current minute so far
    sizes: the Baseline of each size bucket
    """

    minute: int | None = None
    reads: int = 0
    wait_us: int = 0
    size_bytes: int = 0
    sizes: tuple[Baseline, Baseline, Baseline] = (Baseline(), Baseline(), Baseline())


def middle_ms(place: int) -> float:
    """The middle of the bin ``place``, in ms."""
    place = min(max(place, 0), len(BOUNDS_NS) - 2)
    return (BOUNDS_NS[place] + BOUNDS_NS[place + 1]) / 2e6


def bin_of(wait_ms: float) -> int:
    """The index of the bin that a read time belongs to."""
    return max(0, bisect_right(BOUNDS_NS, wait_ms * 1e6) - 1)


def size_of(size_bytes: float) -> int:
    """The index of the bucket that a read size belongs to."""
    return sum(size_bytes > bound for bound in SIZES)


def with_minute(baseline: Baseline, at_ns: int, wait_ms: float) -> Baseline:
    """The baseline with one more minute; minutes older than about a day are dropped."""
    number, place = at_ns // PART_NS, bin_of(wait_ms)
    kept = [part for part in baseline.parts if number - PARTS < part[0] < number]
    newest = next((bins for part, bins in baseline.parts if part == number), ())
    return Baseline((*kept, (number, _with(newest, place))))


def _with(bins: Iterable[tuple[int, int]], place: int) -> Bins:
    counts = dict(bins)
    counts[place] = counts.get(place, 0) + 1
    return tuple(sorted(counts.items()))
