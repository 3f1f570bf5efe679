"""When each Reading of a Snapshot was taken, as one short array of a line instead of a long number in each Reading.

The order of the array stands as "timed" in the keyframe. A moment is written in µs after the line's own ``m``
(negative: before it), with decimals where it is no whole µs; null: as in the line before; false: never. ``took`` is a
duration in µs.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter
from typing import Any, get_origin

from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.typed import hints_of
from iotop_ai.store.shape import SAME, Elsewhere, Group, Shape
from iotop_ai.store.wire import ShapeError

TIMED: tuple[str, ...] = tuple(name for name, hint in hints_of(Snapshot).items() if get_origin(hint) is Reading)
"""The Readings of a Snapshot, in the order of the arrays."""
_KNOWN = frozenset(TIMED)

_LONGEST_US = 1e17

_SAME = [None] * len(TIMED)
_READINGS = itemgetter(*map(Snapshot._fields.index, TIMED))
_TIMELESS = Reading._fields.index("at_ns")
"""So many fields of a Reading stand before its times, which are its last."""


def without_times(snapshot: Snapshot) -> Snapshot:
    """The Snapshot with its Readings' times taken off."""
    bare: dict[str, Any] = {name: Reading(*getattr(snapshot, name)[:_TIMELESS]) for name in TIMED}
    return snapshot._replace(**bare)


class _Untimed(Group):
    """A Reading, of which no change tells the times."""

    def change(self, value: Any, before: Any) -> Any:
        """The fields that changed; most Readings are new for their times alone."""
        if value[0] is before[0] and value[1:_TIMELESS] == before[1:_TIMELESS]:
            return SAME
        return super().change(value, before)


def without_times_of(shape: Shape, elsewhere: Collection[str]) -> Group:
    """A Snapshot's shape whose changes tell neither its Readings' times nor the fields that stand elsewhere."""
    assert isinstance(shape, Group)
    parts = {name: Elsewhere() if name in elsewhere else part for name, part in shape.fields.items()}
    for name in TIMED:
        reading = shape.fields[name]
        assert isinstance(reading, Group)
        parts[name] = _Untimed(Reading, tuple(reading.fields.values()), _TIMELESS)
    return Group(Snapshot, tuple(parts.values()))


def moment(at_ns: int, base_ns: int) -> int | float | str:
    """µs after a base; the ns as text where a float cannot hold them."""
    us, rest = divmod(at_ns - base_ns, 1000)
    if not rest:
        return us
    exact = (at_ns - base_ns) / 1000
    return exact if round(exact * 1000) == at_ns - base_ns else str(at_ns)


def moment_ns(raw: Any, base_ns: int) -> int:
    """The ns of a written moment. Raises ShapeError."""
    if type(raw) is str and raw.removeprefix("-").isdecimal() and len(raw) <= 20:
        return int(raw)
    if type(raw) not in (int, float) or not -_LONGEST_US <= raw <= _LONGEST_US:
        raise ShapeError("a moment expected")
    return base_ns + (raw * 1000 if type(raw) is int else round(raw * 1000))


def times_of(snapshot: Snapshot, before: Snapshot | None) -> dict[str, list[Any]]:
    """The arrays "at" and "took" of a line; one in which all is as before is left out. before: None in a keyframe."""
    base, readings = snapshot.at_ns, _READINGS(snapshot)
    if before is None:
        whole = [False if now.at_ns is None else moment(now.at_ns, base) for now in readings]
        return {"at": whole, "took": [moment(now.took_ns, 0) for now in readings]}
    rows = [*zip(readings, _READINGS(before), strict=True)]
    at = [
        None if now.at_ns == old.at_ns else False if now.at_ns is None else moment(now.at_ns, base) for now, old in rows
    ]
    took = [None if now.took_ns == old.took_ns else moment(now.took_ns, 0) for now, old in rows]
    return {name: row for name, row in (("at", at), ("took", took)) if row != _SAME}


def with_times(
    bare: Snapshot, raw: dict[str, Any], before: Snapshot | None, timed: tuple[str, ...] = TIMED
) -> Snapshot:
    """The Snapshot with the times of a line. before: None for a keyframe; timed: the order. Raises ShapeError.

    Readings that the order does not name keep what they have; names that are not known are left alone.
    """
    rows = [raw.get(name, []) for name in ("at", "took")]
    if any(type(row) is not list for row in rows):
        raise ShapeError("an array of times expected")
    changed: dict[str, Any] = {}
    for i, name in enumerate(timed):
        if name not in _KNOWN:
            continue
        at, took = (row[i] if i < len(row) else None for row in rows)
        old: Reading[Any] = Reading() if before is None else getattr(before, name)
        now = getattr(bare, name)
        if at is None and took is None and now is old:
            continue
        at_ns = old.at_ns if at is None else None if at is False else moment_ns(at, bare.at_ns)
        took_ns = old.took_ns if took is None else moment_ns(took, 0)
        changed[name] = Reading(now.value, now.status, now.reason, now.remedy, at_ns, took_ns)
    return bare._replace(**changed)


def order_of(raw: Any) -> tuple[str, ...]:
    """The order that a keyframe names. Raises ShapeError."""
    if type(raw) is not list or not all(type(name) is str for name in raw):
        raise ShapeError("an array of names expected")
    return tuple(raw)
