"""Finds all processes that descend from each training process, and follows them from tick to tick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotop_ai.model.process.change_tracking import changed, removed
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessTable

DEEPEST = 32
"""The most generations between a training process and a descendant that is found."""
_NONE: frozenset[ProcessKey] = frozenset()


class Descendants:
    """Follows the descendants of the training processes.

    ``update`` examines only processes that started or ended: a tick with 10,000 processes has few of them. A process
    whose parent exits still counts as a descendant of its training process.
    """

    def __init__(self) -> None:
        self._info: Mapping[ProcessKey, ProcessInfo] = {}
        self._tops: dict[int, ProcessKey] = {}
        self._top_of: dict[int, ProcessKey] = {}
        """The training process from which each descendant descends, by the descendant's PID."""
        self._below: dict[ProcessKey, frozenset[ProcessKey]] = {}

    def update(self, table: ProcessTable, tops: Iterable[ProcessKey]) -> Mapping[ProcessKey, frozenset[ProcessKey]]:
        """Return all descendants of each process in ``tops``.

        Each descendant is listed only for its nearest ancestor in ``tops``.
        """
        top_by_pid = {key.pid: key for key in tops}
        orphans: list[tuple[ProcessKey, ProcessKey]] = []
        if top_by_pid != self._tops:
            orphans = [(key, top) for top, keys in self._below.items() for key in keys]
            self._info, self._tops, self._top_of, self._below = {}, top_by_pid, {}, {}
        for key in removed(table.info, self._info):
            top = self._top_of.pop(key.pid, None)
            if top is not None:
                self._below[top] -= {key}
        new = {key.pid: key for key in changed(table.info, self._info)}
        for pid, key in new.items():
            top = None if pid in top_by_pid else self._top(table, pid, new)
            if top is not None and pid not in self._top_of:
                self._add(key, top)
        for key, top in orphans:
            found = key.pid in self._top_of or key.pid in top_by_pid
            if not found and key in table.info and top_by_pid.get(top.pid) == top:
                self._add(key, top)
        self._info = table.info
        return {key: self._below.get(key, _NONE) for key in top_by_pid.values()}

    def _add(self, key: ProcessKey, top: ProcessKey) -> None:
        self._top_of[key.pid] = top
        self._below[top] = self._below.get(top, _NONE) | {key}

    def _top(self, table: ProcessTable, pid: int, new: Mapping[int, ProcessKey]) -> ProcessKey | None:
        for _ in range(DEEPEST):
            key = new.get(pid)
            stat = None if key is None else table.stat.get(key)
            if stat is None:
                return self._top_of.get(pid)
            pid = stat.ppid
            if pid in self._tops:
                return self._tops[pid]
        return None
