"""Keeps the newest step counts of each training process that reports them."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from iotop_ai.model.job.steps import StepCounts
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.reading import Reading, Status

MOST_PROCESSES = 512
"""The most reporting processes that are kept. A machine has a few of them per GPU."""

_MICROSECOND_NS = 1000
"""Times are rounded down to a multiple of this, because a recording stores the times of Readings in µs."""


class StepReports:
    """Takes the step messages of training processes and makes a table of them in each tick (a reading of the machine).

    ``take`` runs on the listening thread, and ``reading`` runs on the sampling thread. since_ns: when listening began.
    """

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._lock = threading.Lock()
        self._newest: dict[int, StepCounts] = {}
        self._keys: dict[int, ProcessKey] = {}
        self._table: Mapping[ProcessKey, StepCounts] = {}
        self._ended: set[int] = set()
        """The PIDs of the processes that had ended at the last tick."""

    def take(self, pid: int, counts: StepCounts) -> None:
        """Store the totals of a process.

        Ignores totals that are older than the stored ones, and new processes when MOST_PROCESSES are kept already.
        """
        with self._lock:
            previous = self._newest.get(pid)
            if previous is None and len(self._newest) >= MOST_PROCESSES:
                return
            if previous is None or counts.at_ns > previous.at_ns:
                self._newest[pid] = counts

    def reading(self, processes: ProcessTable | None) -> Reading[Mapping[ProcessKey, StepCounts]]:
        """Return the totals by process. A process appears as soon as it is in ``processes``.

        A process that has ended stays in the table for one more tick, which shows its last message. processes: None
        when they are unknown; no process counts as ended then.
        """
        with self._lock:
            newest = dict(self._newest)
        if newest or self._table:
            running = {} if processes is None else {key.pid: key for key in processes.info if key.pid in newest}
            self._keys.update(running)
            self._forget(newest, set() if processes is None else newest.keys() - running.keys())
            table = {self._keys[pid]: counts for pid, counts in newest.items() if pid in self._keys}
            if table != self._table:
                self._table = table
        at_ns = max((counts.at_ns for counts in self._table.values()), default=self._since_ns)
        return Reading(self._table, Status.OK, at_ns=at_ns - at_ns % _MICROSECOND_NS)

    def _forget(self, newest: dict[int, StepCounts], ended: set[int]) -> None:
        """Forget the processes that had already ended at the previous tick."""
        ended_before, self._ended = self._ended & ended, ended
        for pid in ended_before:
            del newest[pid]
            self._keys.pop(pid, None)
            with self._lock:
                self._newest.pop(pid, None)
