"""The newest steps of each training process that reports them."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from iotop_ai.model.job.steps import StepCounts
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.reading import Reading, Status

MOST_PROCESSES = 512
"""Reporting processes that are kept: a machine has a few per GPU."""

_FINE_NS = 1000
"""A recording holds the times of Readings in µs."""


class StepReports:
    """Takes messages on the listening thread; ``reading`` gives the table of a tick on the sampling thread.

    since_ns: when listening began.
    """

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._lock = threading.Lock()
        self._newest: dict[int, StepCounts] = {}
        self._keys: dict[int, ProcessKey] = {}
        self._table: Mapping[ProcessKey, StepCounts] = {}
        self._gone: set[int] = set()

    def take(self, pid: int, counts: StepCounts) -> None:
        """The totals of a process. Drops older messages, and further processes than MOST_PROCESSES."""
        with self._lock:
            known = self._newest.get(pid)
            if known is None and len(self._newest) >= MOST_PROCESSES:
                return
            if known is None or counts.at_ns > known.at_ns:
                self._newest[pid] = counts

    def reading(self, processes: ProcessTable | None) -> Reading[Mapping[ProcessKey, StepCounts]]:
        """The table by process; a process that is not in ``processes`` yet comes with the next tick.

        A process that has ended is left out from the second tick on, so that one tick has its last message.
        """
        with self._lock:
            newest = dict(self._newest)
        if newest or self._table:
            running = {} if processes is None else {key.pid: key for key in processes.info if key.pid in newest}
            self._keys.update(running)
            self._forget(newest, {pid for pid in newest if pid not in running})
            table = {self._keys[pid]: counts for pid, counts in newest.items() if pid in self._keys}
            if table != self._table:
                self._table = table
        at_ns = max((counts.at_ns for counts in self._table.values()), default=self._since_ns)
        return Reading(self._table, Status.OK, at_ns=at_ns - at_ns % _FINE_NS)

    def _forget(self, newest: dict[int, StepCounts], ended: set[int]) -> None:
        """Forget the processes that had ended at the previous tick already."""
        gone, self._gone = self._gone & ended, ended
        for pid in gone:
            del newest[pid]
            self._keys.pop(pid, None)
            with self._lock:
                self._newest.pop(pid, None)
