"""Finds events by comparing two Snapshots: OOM kills, dropped caches, and ends of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iotop_ai.model.job.exits import ENDED, MEMBER, Ended, job_ends
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.snapshot import Event, Snapshot

_KILLED = -9
"""The exit code of a process that SIGKILL ended."""


def derive_events(
    before: Snapshot | None,
    after: Snapshot,
    watched: frozenset[ProcessKey] = frozenset(),
    child_codes: Mapping[int, int] = {},
    count_unlogged: Callable[[int], int] = int,
    killed_before: Callable[[int], bool] | None = None,
) -> list[Event]:
    """Return the events between two Snapshots of the same boot, with the time of the later Snapshot.

    The kinds of events are:
    oom_kill: the counter oom_kill of /proc/vmstat has grown; the text names up to five processes that SIGKILL ended
    drop_caches: the counter drop_pagecache or drop_slab of /proc/vmstat has grown
    process_ended: ``job_ends`` reports the end of a trainer or worker of a job, or a process in ``watched`` has ended
        with a known exit code other than 0

    child_codes: the exit code, or minus the signal, of the monitor's own children, by PID
    count_unlogged: a function that takes a number of OOM kills and returns how many of them are missing in the
        kernel's log
    killed_before: as for ``job_ends``
    """
    if before is None or before.host.boot_id != after.host.boot_id:
        return []
    old, new = before.processes.value, after.processes.value
    ends = {} if old is None or new is None or not new.gone else _ends(old, new)
    texts: list[tuple[str, str]] = []
    if before.memory.value is not None and after.memory.value is not None:
        killed = [ended.name for ended in ends.values() if ended.code == _KILLED]
        texts += _memory_events(before.memory.value, after.memory.value, killed, count_unlogged)
    job_process_ends = job_ends(before, after, killed_before)
    if not (texts or ends or job_process_ends):
        return []
    reported = [
        e if e.code is not None else e._replace(code=child_codes.get(e.key.pid)) for e in job_process_ends.values()
    ]
    reported += [e for key, e in ends.items() if e.code and key in watched and key not in job_process_ends]
    return [
        *(Event(after.at_ns, after.wall_ns, kind, text) for kind, text in texts),
        *(Event(after.at_ns, after.wall_ns, ENDED, e.text, e.role, e.key.pid, e.code, e.job_pid) for e in reported),
    ]


def _ends(old: ProcessTable, new: ProcessTable) -> dict[ProcessKey, Ended]:
    """Return the processes that have ended with a known exit code."""
    return {
        key: Ended(key, old.info[key].name, MEMBER, new.exits[key])
        for key in new.gone
        if key in new.exits and key in old.info
    }


def _memory_events(
    old: MemoryState, new: MemoryState, killed: list[str], count_unlogged: Callable[[int], int]
) -> list[tuple[str, str]]:
    out = []
    kills = count_unlogged(_growth(old.oom_kills, new.oom_kills))
    if kills:
        names = f": {', '.join(killed[:5])}" if killed else ""
        out.append(("oom_kill", f"the kernel killed {kills} process{'' if kills == 1 else 'es'} for memory{names}"))
    pages, slab = _growth(old.drop_pagecache, new.drop_pagecache), _growth(old.drop_slab, new.drop_slab)
    if pages or slab:
        caches = " and ".join(name for name, drops in (("page cache", pages), ("slab caches", slab)) if drops)
        out.append(("drop_caches", f"a user dropped the {caches}"))
    return out


def _growth(old: int | None, new: int | None) -> int:
    return 0 if old is None or new is None else max(0, new - old)


class DescendantTracker:
    """Follows the descendants of a process. ``update`` has to be called for each Snapshot.

    members: the descendants that ran at the newest ``update``
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._pids = {pid}
        self._seen: frozenset[ProcessKey] = frozenset()
        self.members: frozenset[ProcessKey] = frozenset()

    def update(self, table: ProcessTable) -> None:
        """Add new descendants and remove ended ones. A descendant whose parent has exited is kept."""
        new = {key for key in table.stat.keys() - self._seen if key.pid != self._pid}
        members = {key for key in self.members if key in table.stat}
        # Neither start times nor PIDs give the order: a child may start in its parent's clock tick, with a lower PID.
        while children := {key for key in new if table.stat[key].ppid in self._pids}:
            members |= children
            new -= children
            self._pids.update(key.pid for key in children)
        self._pids = {self._pid, *(key.pid for key in members)}
        self._seen = frozenset(table.stat)
        self.members = frozenset(members)
