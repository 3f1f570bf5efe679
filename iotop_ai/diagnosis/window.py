"""Conditions over a window of seconds: only renewed samples count, and no gap is read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import itemgetter

from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.model.frame import HISTORY_S
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample

Flags = tuple[bool, ...]
"""One truth per sample of a window; what is unknown is not true."""


class Window(NamedTuple):
    """samples: oldest first, none a gap. seconds: the width asked for. needed: samples without which nothing holds."""

    samples: tuple[Sample, ...]
    seconds: float
    needed: int


_OF = {field: itemgetter(place) for place, field in enumerate(Sample._fields)}
"""What takes a field out of a Sample."""
_AT = _OF["at_ns"]


def _intervals(samples: Sequence[Sample], field: str) -> list[float]:
    """The times between two readings of one subsystem, those that count."""
    rows = map(_OF[field], samples)
    return [
        seconds for s, (_, _, seconds, renewed) in zip(samples, rows, strict=True) if renewed and seconds and not s.gap
    ]


def period_s(history: Sequence[Sample], field: str) -> float | None:
    """The middle of the times between two readings of one subsystem; None before there were two."""
    return _middle(sorted(_intervals(history, field)))


def _middle(known: list[float]) -> float | None:
    return known[len(known) // 2] if known else None


class _Sorted(NamedTuple):
    """A history with the times between the readings of each subsystem asked for, ascending; none is changed again."""

    history: Sequence[Sample]
    intervals: dict[str, list[float]]


_newest = [_Sorted((), {})]
"""Of the history asked about last: the next one differs by a Sample at each end. A cache, never a memory."""


def _sorted_of(history: Sequence[Sample]) -> dict[str, list[float]]:
    before, known = _newest[0]
    if before is history:
        return known
    found: dict[str, list[float]] = {}
    if type(history) is not tuple:
        return found
    went = len(before) + 1 - len(history)
    if history and 0 <= went <= len(before) and before[went:] == history[:-1]:
        # A copy: another thread may ask about the history before for one more subsystem.
        known = known.copy()
        found = {field: _moved_on(all_of, field, before[:went], history[-1:]) for field, all_of in known.items()}
    _newest[0] = _Sorted(history, found)
    return found


def _moved_on(known: list[float], field: str, went: Sequence[Sample], came: Sequence[Sample]) -> list[float]:
    out, rated = known.copy(), _OF[field]
    for s in went:
        _, _, seconds, renewed = rated(s)
        if renewed and seconds and not s.gap:
            del out[bisect_left(out, seconds)]
    for s in came:
        _, _, seconds, renewed = rated(s)
        if renewed and seconds and not s.gap:
            insort(out, seconds)
    return out


class Periods:
    """The periods of a history's subsystems, each worked out once."""

    __slots__ = ("_history", "_known", "_sorted")

    def __init__(self, history: Sequence[Sample]) -> None:
        self._history = history
        self._known: dict[str, float | None] = {}
        self._sorted = _sorted_of(history)

    def of(self, field: str) -> float | None:
        """As ``period_s``."""
        if field not in self._known:
            intervals = self._sorted.get(field)
            if intervals is None:
                intervals = self._sorted[field] = sorted(_intervals(self._history, field))
            self._known[field] = _middle(intervals)
        return self._known[field]


def window(
    history: Sequence[Sample],
    now_ns: int,
    seconds: float,
    fields: Iterable[str],
    limits: Thresholds = LIMITS,
    known: Periods | None = None,
) -> Window:
    """The samples of the last ``seconds``, or of three periods of the slowest of ``fields`` where that is longer.

    A sample counts when the slowest of the fields was read again in it: else one reading of a slow subsystem would
    fill several samples. Where the history is too short for three periods, two samples suffice: each is then the
    mean of a long interval. known: the periods of this history where the caller has them.
    """
    known = known or Periods(history)
    slowest, period = "", 0.0
    for field in fields:
        one = known.of(field)
        if one is not None and one > period:
            slowest, period = field, one
    if not slowest:
        return Window((), seconds, limits.least_samples)
    long_s = limits.periods * period
    width = max(seconds, long_s)
    needed = limits.least_samples if long_s <= HISTORY_S else 2
    recent = history[bisect_right(history, now_ns - int(width * 1e9), key=_AT) :]
    chosen = [
        s
        for s, (_, _, took, renewed) in zip(recent, map(_OF[slowest], recent), strict=True)
        if renewed and took is not None and s.at_ns <= now_ns and not s.gap
    ]
    return Window(tuple(chosen), width, needed)


def share(flags: Flags) -> float:
    """The part of the samples that is true; 0 without samples."""
    return sum(flags) / len(flags) if flags else 0.0


def both(*conditions: Flags) -> Flags:
    """True where all are true; the conditions belong to the same samples."""
    return tuple(map(all, zip(*conditions, strict=True)))


def either(*conditions: Flags) -> Flags:
    """True where any is true."""
    return tuple(map(any, zip(*conditions, strict=True)))


def at_least(values: Sequence[float | None], limit: float) -> Flags:
    """Where a value is known and not below the limit."""
    return tuple([v is not None and v >= limit for v in values])


def below(values: Sequence[float | None], limit: float) -> Flags:
    """Where a value is known and below the limit."""
    return tuple([v is not None and v < limit for v in values])


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values; None when there is none."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def graded(value: float | None, enter: float, leave: float, at_leave: float) -> float:
    """A level for a class with an entry and an exit of its own: 1 at ``enter``, ``at_leave`` at ``leave``.

    ``enter`` may lie on either side of ``leave``. 0 when the value is unknown; never below 0.
    """
    if value is None:
        return 0.0
    return max(0.0, at_leave + (1 - at_leave) * (value - leave) / (enter - leave))
