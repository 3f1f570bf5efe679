"""The times at which processes were read, which a line omits if they follow from the usual order of the reads.

A sweep reads one file in /proc/PID of many processes. At a usual tick, one sweep reads ``io`` of all processes, and
another reads ``stat`` of one cohort and of the processes whose ``io`` changed. Cohorts are groups of processes that
take turns. The times of a usual tick can be predicted from the previous line, so three fields of a ProcessTable
are written only if they differ from the prediction: ``io_at_ns``, ``stat_at`` (the time of each cohort's newest sweep)
and ``stat_out`` (the times of the processes that were read out of turn).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from iotop_ai.model.process.change_tracking import changed
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.reading import Reading
from iotop_ai.store.format.shapes import Shape, shape_of

_TABLE: Shape = shape_of(ProcessTable)
_KEYS = shape_of(frozenset[ProcessKey])
_PREDICTED = ("io_at_ns", "stat_at", "stat_out")


def _prediction(
    before: ProcessTable, after: ProcessTable, at_ns: int | None, io_changed: Iterable[ProcessKey]
) -> dict[str, Any]:
    """The values of the three fields at a usual tick.

    at_ns: the time of the Reading
    io_changed: the processes whose io is in the line
    """
    io_at_ns = before.io_at_ns if at_ns is None else at_ns
    cohorts = len(before.stat_at)
    if not cohorts or after.stat_at_ns == before.stat_at_ns:
        return {"io_at_ns": io_at_ns, "stat_at": before.stat_at, "stat_out": before.stat_out}
    cohort = (before.stat_at.index(max(before.stat_at)) + 1) % cohorts
    present = after.stat
    stat_out = {key: at for key, at in before.stat_out.items() if key.pid % cohorts != cohort and key in present}
    stat_out.update((key, after.stat_at_ns) for key in io_changed if key.pid % cohorts != cohort and key in present)
    stat_at = tuple(after.stat_at_ns if i == cohort else at for i, at in enumerate(before.stat_at))
    return {"io_at_ns": io_at_ns, "stat_at": stat_at, "stat_out": stat_out}


def with_predicted_times(before: Reading[ProcessTable], after: Reading[ProcessTable]) -> Reading[ProcessTable]:
    """``before`` with the predicted times; the line contains the changes relative to it."""
    old, new = before.value, after.value
    if old is None or new is None:
        return before
    io_changed = [key for key in changed(new.io, old.io) if old.io.get(key) != new.io[key]]
    return before._replace(value=old._replace(**_prediction(old, new, after.at_ns, io_changed)))


def with_written_times(raw: Any, before: Reading[ProcessTable], after: Reading[ProcessTable]) -> Reading[ProcessTable]:
    """``after`` with the predicted times, except for those that the line contains. Raises ShapeError.

    raw: the line's change of the Reading; {} if it did not change
    after: the Reading after this change was applied
    """
    old, new = before.value, after.value
    change = raw.get("value", {}) if type(raw) is dict else {}
    if old is None or new is None or type(change) is not dict or "=" in change:
        return after
    io = change.get("io", {})
    io_changed = _KEYS.load(list(io.get("+", {})))
    table = new._replace(**_prediction(old, new, after.at_ns, io_changed))
    written = {name: change[name] for name in _PREDICTED if name in change}
    return after._replace(value=_TABLE.apply(written, table) if written else table)
