"""What a line need not say of the process table because it follows from the rest: the usual times of its sweeps.

In each tick all io is read, and the stat of one cohort in turn and of the processes whose io changed. So ``io_at_ns``,
``stat_at`` and ``stat_out`` are written only where they differ from that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from iotop_ai.model.followed import changed
from iotop_ai.model.process import ProcessKey, ProcessTable
from iotop_ai.model.reading import Reading
from iotop_ai.store.shape import Shape, shape_of

_TABLE: Shape = shape_of(ProcessTable)
_KEY = shape_of(frozenset[ProcessKey])
_RULED = ("io_at_ns", "stat_at", "stat_out")


def _ruled(before: ProcessTable, after: ProcessTable, at_ns: int | None, moved: Iterable[ProcessKey]) -> dict[str, Any]:
    """The three fields after a usual sweep. at_ns: of the Reading; moved: processes whose io is listed in the line."""
    io_at_ns = before.io_at_ns if at_ns is None else at_ns
    cohorts = len(before.stat_at)
    if not cohorts or after.stat_at_ns == before.stat_at_ns:
        return {"io_at_ns": io_at_ns, "stat_at": before.stat_at, "stat_out": before.stat_out}
    turn = (before.stat_at.index(max(before.stat_at)) + 1) % cohorts
    there = after.stat
    out = {key: at for key, at in before.stat_out.items() if key.pid % cohorts != turn and key in there}
    out.update((key, after.stat_at_ns) for key in moved if key.pid % cohorts != turn and key in there)
    stat_at = tuple(after.stat_at_ns if i == turn else at for i, at in enumerate(before.stat_at))
    return {"io_at_ns": io_at_ns, "stat_at": stat_at, "stat_out": out}


def expected(before: Reading[ProcessTable], after: Reading[ProcessTable]) -> Reading[ProcessTable]:
    """``before`` with what follows: the change of a line is taken against this."""
    old, new = before.value, after.value
    if old is None or new is None:
        return before
    moved = [key for key in changed(new.io, old.io) if old.io.get(key) != new.io[key]]
    return before._replace(value=old._replace(**_ruled(old, new, after.at_ns, moved)))


def settled(raw: Any, before: Reading[ProcessTable], after: Reading[ProcessTable]) -> Reading[ProcessTable]:
    """``after``, to which a line's change was applied, with what follows and what the line says against it.

    raw: the line's change of the Reading, {} when it has none. Raises ShapeError.
    """
    old, new = before.value, after.value
    change = raw.get("value", {}) if type(raw) is dict else {}
    if old is None or new is None or type(change) is not dict or "=" in change:
        return after
    io = change.get("io", {})
    moved = _KEY.load(list(io.get("+", {})))
    table = new._replace(**_ruled(old, new, after.at_ns, moved))
    said = {name: change[name] for name in _RULED if name in change}
    return after._replace(value=_TABLE.apply(said, table) if said else table)
