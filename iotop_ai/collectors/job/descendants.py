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

    Call ``update`` in each tick, that is, after each reading of the processes. While the training processes stay the
    same, it examines only the processes that started or ended since the last call: of 10,000 processes, these are few.
    A process whose parent exits still counts as a descendant of its training process.
    """

    def __init__(self) -> None:
        self._info: Mapping[ProcessKey, ProcessInfo] = {}
        self._trainers: dict[int, ProcessKey] = {}
        """The training processes of the last call, by PID."""
        self._trainer_of: dict[int, ProcessKey] = {}
        """The training process from which each descendant descends, by the descendant's PID."""
        self._descendants: dict[ProcessKey, frozenset[ProcessKey]] = {}
        """The descendants of each training process."""

    def update(self, table: ProcessTable, trainers: Iterable[ProcessKey]) -> Mapping[ProcessKey, frozenset[ProcessKey]]:
        """Return all descendants of each process in ``trainers``.

        Each descendant is listed only for its nearest ancestor in ``trainers``.
        """
        trainer_by_pid = {key.pid: key for key in trainers}
        earlier_pairs: list[tuple[ProcessKey, ProcessKey]] = []
        if trainer_by_pid != self._trainers:
            earlier_pairs = [(key, trainer) for trainer, keys in self._descendants.items() for key in keys]
            self._info, self._trainers, self._trainer_of, self._descendants = {}, trainer_by_pid, {}, {}
        for key in removed(table.info, self._info):
            trainer = self._trainer_of.pop(key.pid, None)
            if trainer is not None:
                self._descendants[trainer] -= {key}
        new = {key.pid: key for key in changed(table.info, self._info)}
        for pid, key in new.items():
            trainer = None if pid in trainer_by_pid else self._find_trainer(table, pid, new)
            if trainer is not None and pid not in self._trainer_of:
                self._add(key, trainer)
        # A descendant whose parent has exited cannot be found through its ancestors, so it keeps its earlier training
        # process.
        for key, trainer in earlier_pairs:
            listed = key.pid in self._trainer_of or key.pid in trainer_by_pid
            if not listed and key in table.info and trainer_by_pid.get(trainer.pid) == trainer:
                self._add(key, trainer)
        self._info = table.info
        return {key: self._descendants.get(key, _NONE) for key in trainer_by_pid.values()}

    def _add(self, key: ProcessKey, trainer: ProcessKey) -> None:
        self._trainer_of[key.pid] = trainer
        self._descendants[trainer] = self._descendants.get(trainer, _NONE) | {key}

    def _find_trainer(self, table: ProcessTable, pid: int, new: Mapping[int, ProcessKey]) -> ProcessKey | None:
        """Return the nearest training process above a process; None if there is none.

        new: the processes that have started, by PID. All other descendants are in ``_trainer_of`` already.
        """
        for _ in range(DEEPEST):
            key = new.get(pid)
            stat = None if key is None else table.stat.get(key)
            if stat is None:
                return self._trainer_of.get(pid)
            pid = stat.ppid
            if pid in self._trainers:
                return self._trainers[pid]
        return None
