"""The times of a Snapshot's Readings, which a line stores in two short arrays instead of long numbers in each Reading.

``at`` has the times and ``took`` the durations. The "timed" field of the keyframe gives their order. A time is in µs
after the line's time ``m`` (negative if before it), with decimals unless it is a whole number of µs. A time that a
float cannot express exactly is written in ns as text. null means that the time is the same as in the previous line, and
false that there was no reading yet. A duration is in µs.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter
from typing import Any, get_origin, get_type_hints

from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.store.format.scalars import ShapeError
from iotop_ai.store.format.shapes import SAME, Elsewhere, Group, Shape

TIMED: tuple[str, ...] = tuple(name for name, hint in get_type_hints(Snapshot).items() if get_origin(hint) is Reading)
"""The names of a Snapshot's Readings, in the order of the arrays."""
_TIMED_SET = frozenset(TIMED)

_LONGEST_US = 1e17

_NO_CHANGES = [None] * len(TIMED)
_READINGS = itemgetter(*map(Snapshot._fields.index, TIMED))
_FIELDS_BEFORE_TIMES = Reading._fields.index("at_ns")
"""The number of fields of a Reading before its times, which are its last fields."""


def without_times(snapshot: Snapshot) -> Snapshot:
    """The Snapshot with its Readings stripped of their times."""
    bare: dict[str, Any] = {name: Reading(*getattr(snapshot, name)[:_FIELDS_BEFORE_TIMES]) for name in TIMED}
    return snapshot._replace(**bare)


class _Untimed(Group):
    """The shape of a Reading whose changes leave out its times."""

    def change(self, value: Any, before: Any) -> Any:
        """The fields that changed; in most new Readings only the times differ."""
        if value[0] is before[0] and value[1:_FIELDS_BEFORE_TIMES] == before[1:_FIELDS_BEFORE_TIMES]:
            return SAME
        return super().change(value, before)


def without_times_of(shape: Shape, elsewhere: Collection[str]) -> Group:
    """The shape of a Snapshot whose changes leave out the times of its Readings.

    elsewhere: further fields that are left out because they are written elsewhere in the line
    """
    assert isinstance(shape, Group)
    parts = {name: Elsewhere() if name in elsewhere else part for name, part in shape.fields.items()}
    for name in TIMED:
        reading = shape.fields[name]
        assert isinstance(reading, Group)
        parts[name] = _Untimed(Reading, tuple(reading.fields.values()), _FIELDS_BEFORE_TIMES)
    return Group(Snapshot, tuple(parts.values()))


def us_after(at_ns: int, base_ns: int) -> int | float | str:
    """The µs from ``base_ns`` to ``at_ns``; if a float cannot express them exactly, ``at_ns`` itself as text."""
    us, rest = divmod(at_ns - base_ns, 1000)
    if not rest:
        return us
    exact = (at_ns - base_ns) / 1000
    return exact if round(exact * 1000) == at_ns - base_ns else str(at_ns)


def time_ns(raw: Any, base_ns: int) -> int:
    """The time in ns that ``us_after`` wrote. Raises ShapeError."""
    if type(raw) is str and raw.removeprefix("-").isdecimal() and len(raw) <= 20:
        return int(raw)
    if type(raw) not in (int, float) or not -_LONGEST_US <= raw <= _LONGEST_US:
        raise ShapeError("a time expected")
    return base_ns + (raw * 1000 if type(raw) is int else round(raw * 1000))


def times_of(snapshot: Snapshot, before: Snapshot | None) -> dict[str, list[Any]]:
    """The arrays "at" and "took" of a line; an array without a change is left out. ``before`` is None in a keyframe."""
    base, readings = snapshot.at_ns, _READINGS(snapshot)
    if before is None:
        whole = [False if now.at_ns is None else us_after(now.at_ns, base) for now in readings]
        return {"at": whole, "took": [us_after(now.took_ns, 0) for now in readings]}
    rows = [*zip(readings, _READINGS(before), strict=True)]
    at = [
        None if now.at_ns == old.at_ns else False if now.at_ns is None else us_after(now.at_ns, base)
        for now, old in rows
    ]
    took = [None if now.took_ns == old.took_ns else us_after(now.took_ns, 0) for now, old in rows]
    return {name: row for name, row in (("at", at), ("took", took)) if row != _NO_CHANGES}


def with_times(
    bare: Snapshot, raw: dict[str, Any], before: Snapshot | None, timed: tuple[str, ...] = TIMED
) -> Snapshot:
    """The Snapshot with the times of a line. Raises ShapeError.

    Readings that ``timed`` does not name keep their times. Unknown names in it are ignored.

    before: the previous Snapshot; None for a keyframe
    timed: the names of the Readings in the order of the arrays
    """
    rows = [raw.get(name, []) for name in ("at", "took")]
    if any(type(row) is not list for row in rows):
        raise ShapeError("an array of times expected")
    changed: dict[str, Any] = {}
    for i, name in enumerate(timed):
        if name not in _TIMED_SET:
            continue
        at, took = (row[i] if i < len(row) else None for row in rows)
        old: Reading[Any] = Reading() if before is None else getattr(before, name)
        now = getattr(bare, name)
        if at is None and took is None and now is old:
            continue
        at_ns = old.at_ns if at is None else None if at is False else time_ns(at, bare.at_ns)
        took_ns = old.took_ns if took is None else time_ns(took, 0)
        changed[name] = Reading(now.value, now.status, now.reason, now.remedy, at_ns, took_ns)
    return bare._replace(**changed)


def order_of(raw: Any) -> tuple[str, ...]:
    """The order of the times that a keyframe states. Raises ShapeError."""
    if type(raw) is not list or not all(type(name) is str for name in raw):
        raise ShapeError("an array of names expected")
    return tuple(raw)
