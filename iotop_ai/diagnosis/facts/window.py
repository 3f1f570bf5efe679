"""Selects a window of Samples and tests conditions over it: only new readings count, and gaps are left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import HISTORY_S
from iotop_ai.model.sample import Sample

Flags = tuple[bool, ...]
"""One truth value per sample of a window; an unknown value counts as false."""


class Window(NamedTuple):
    """The samples of a span of time."""

    samples: tuple[Sample, ...]
    """The samples, oldest first, without gaps."""
    seconds: float
    """The length of the window in seconds."""
    needed: int
    """The fewest samples with which a condition can be judged."""


_GETTERS = {field: itemgetter(index) for index, field in enumerate(Sample._fields)}
"""A getter for each field of a Sample."""
_AT_NS = _GETTERS["at_ns"]


def _intervals(samples: Sequence[Sample], field: str) -> list[float]:
    """The seconds between the readings of one subsystem, without gaps."""
    rows = map(_GETTERS[field], samples)
    return [
        seconds for s, (_, _, seconds, renewed) in zip(samples, rows, strict=True) if renewed and seconds and not s.gap
    ]


class Periods:
    """The median time between readings, by subsystem; each is computed once per history."""

    __slots__ = ("_history", "_periods")

    def __init__(self, history: Sequence[Sample]) -> None:
        self._history = history
        self._periods: dict[str, float | None] = {}

    def of(self, field: str) -> float | None:
        """The median seconds between readings of one subsystem; None without two readings."""
        if field not in self._periods:
            intervals = sorted(_intervals(self._history, field))
            self._periods[field] = intervals[len(intervals) // 2] if intervals else None
        return self._periods[field]


def recent_window(
    history: Sequence[Sample],
    now_ns: int,
    seconds: float,
    fields: Iterable[str],
    limits: Thresholds = LIMITS,
    periods: Periods | None = None,
) -> Window:
    """The samples of the last ``seconds``, or of three periods of the slowest of ``fields`` if that is longer.

    A sample counts only if the slowest of the fields was read again in it; otherwise one reading of a slow subsystem
    would fill several samples. If the history is too short for three periods, two samples suffice, because each is then
    a mean over a long interval. If none of the fields was read twice, the window is empty. periods: the periods of this
    history, if the caller has them.
    """
    periods = periods or Periods(history)
    slowest, period = "", 0.0
    for field in fields:
        field_period = periods.of(field)
        if field_period is not None and field_period > period:
            slowest, period = field, field_period
    if not slowest:
        return Window((), seconds, limits.least_samples)
    long_s = limits.periods * period
    width = max(seconds, long_s)
    needed = limits.least_samples if long_s <= HISTORY_S else 2
    recent = history[bisect_right(history, now_ns - int(width * 1e9), key=_AT_NS) :]
    chosen = [
        s
        for s, (_, _, interval_s, renewed) in zip(recent, map(_GETTERS[slowest], recent), strict=True)
        if renewed and interval_s is not None and s.at_ns <= now_ns and not s.gap
    ]
    return Window(tuple(chosen), width, needed)


def share(flags: Flags) -> float:
    """The share of the samples for which the flag is true; 0 if there are no samples."""
    return sum(flags) / len(flags) if flags else 0.0


def both(*conditions: Flags) -> Flags:
    """For each sample, whether all conditions are true. All conditions must be about the same samples."""
    return tuple(map(all, zip(*conditions, strict=True)))


def either(*conditions: Flags) -> Flags:
    """For each sample, whether any of the conditions is true. All conditions must be about the same samples."""
    return tuple(map(any, zip(*conditions, strict=True)))


def at_least(values: Sequence[float | None], limit: float) -> Flags:
    """For each value, whether it is known and at least ``limit``."""
    return tuple([v is not None and v >= limit for v in values])


def below(values: Sequence[float | None], limit: float) -> Flags:
    """For each value, whether it is known and below ``limit``."""
    return tuple([v is not None and v < limit for v in values])


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values; None if no value is known."""
    listed: Sequence[Any] = tuple(values)
    # Most often all values are known, or none; looking at each one first would take three times as long.
    if listed and listed[0] is None:
        listed = [value for value in listed if value is not None]
    try:
        total: float = sum(listed)
    except TypeError:
        return mean([value for value in listed if value is not None])
    return total / len(listed) if listed else None


def claim_level(value: float | None, enter: float, leave: float, at_leave: float) -> float:
    """The level of a claim whose class has its own exit threshold: 1 at ``enter``, ``at_leave`` at ``leave``.

    ``enter`` may be above or below ``leave``. The level is 0 when the value is unknown, and never negative.
    """
    if value is None:
        return 0.0
    return max(0.0, at_leave + (1 - at_leave) * (value - leave) / (enter - leave))
