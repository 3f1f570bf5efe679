"""The process tree: the children and the descendants of each process, and the monitor's own processes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import compress
from operator import itemgetter

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.process.change_tracking import TrackedDict, follows
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat, ProcessTable

_PPID = itemgetter(ProcessStat._fields.index("ppid"))


class ProcessTree(NamedTuple):
    """The process tree. keys: the process of each pid. children: the child pids of each pid."""

    keys: Mapping[int, ProcessKey]
    children: Mapping[int, Collection[int]]

    def with_descendants(self, roots: Iterable[int]) -> frozenset[int]:
        """Those pids of ``roots`` that exist, and the pids of all their descendants."""
        pids: set[int] = set()
        todo = [pid for pid in roots if pid in self.keys]
        while todo:
            pid = todo.pop()
            if pid not in pids:
                pids.add(pid)
                todo.extend(self.children.get(pid, ()))
        return frozenset(pids)


NO_PROCESSES = ProcessTree({}, {})


class ProcessTrees:
    """The newest process tree. It is built again only after a process started, ended or got another parent."""

    def __init__(self) -> None:
        self._table: ProcessTable | None = None
        self._keys: tuple[ProcessKey, ...] = ()
        self._parents: list[int] = []
        self._tree = NO_PROCESSES

    def of(self, table: ProcessTable | None) -> ProcessTree:
        """The process tree of a process table."""
        if table is None:
            return NO_PROCESSES
        if table is self._table:  # it is asked for several times per table
            return self._tree
        self._table = table
        keys, parents = tuple(table.stat), [*map(_PPID, table.stat.values())]
        if parents != self._parents or keys != self._keys:
            self._keys, self._parents, self._tree = keys, parents, _tree(keys, parents)
        return self._tree


def _tree(keys: tuple[ProcessKey, ...], parents: list[int]) -> ProcessTree:
    children: dict[int, list[int]] = {}
    for key, ppid in zip(keys, parents, strict=True):
        below = children.get(ppid)
        if below is None:
            children[ppid] = [key.pid]
        else:
            below.append(key.pid)
    return ProcessTree({key.pid: key for key in keys}, children)


class MonitorPids:
    """Finds the monitor's processes in a table.

    It keeps the last answer, because most tables differ from the previous table in only a few processes.
    """

    def __init__(self) -> None:
        self._stat: Mapping[ProcessKey, ProcessStat] = {}
        self._own_pid = 0
        self._children: dict[ProcessKey, ProcessInfo] = {}
        self._pids: frozenset[int] = frozenset()

    def of(self, table: ProcessTable, own_pid: int) -> frozenset[int]:
        """The pids of the monitor, its helpers and their descendants (smartctl), but not of a recorded command."""
        if self._own_pid != own_pid or not self._still_valid(table):
            self._own_pid = own_pid
            self._update(table)
        self._stat = table.stat
        return self._pids

    def _update(self, table: ProcessTable) -> None:
        own_pid = self._own_pid
        parents = [*map(_PPID, table.stat.values())]
        children = {key: table.info[key] for key in compress(table.stat, map(own_pid.__eq__, parents))}
        pids = {own_pid}
        newest = {
            key.pid for key, info in children.items() if any(part.startswith("iotop_ai.") for part in info.cmdline)
        }
        while newest - pids:
            pids |= newest
            newest = {key.pid for key in compress(table.stat, map(newest.__contains__, parents))}
        self._children, self._pids = children, frozenset(pids)

    def _still_valid(self, table: ProcessTable) -> bool:
        """Whether the last answer holds for this table too: the monitor has the same children and descendants."""
        stat, before, pids = table.stat, self._stat, self._pids
        if stat is not before:
            if not isinstance(stat, TrackedDict) or not follows(stat, before):
                return False
            for key in stat.touched:
                old, new = before.get(key), stat.get(key)
                old_ppid, new_ppid = None if old is None else old.ppid, None if new is None else new.ppid
                if old_ppid != new_ppid and (old_ppid in pids or new_ppid in pids):
                    return False
        info = table.info
        return all(info.get(key) is child for key, child in self._children.items())
