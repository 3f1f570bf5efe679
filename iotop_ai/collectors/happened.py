"""What happened between two Snapshots: kills for memory, dropped caches, ends of a watched command's processes."""

from __future__ import annotations

import signal

from iotop_ai.model.memory import MemoryState
from iotop_ai.model.process import ProcessKey, ProcessTable
from iotop_ai.model.snapshot import Event, Snapshot

_KILLED = -int(signal.SIGKILL)


def how_it_ended(code: int) -> str:
    """ "exit 1", or "SIGKILL" for -9."""
    if code >= 0:
        return f"exit {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def happened(before: Snapshot | None, after: Snapshot, watched: frozenset[ProcessKey] = frozenset()) -> list[Event]:
    """The events that two Snapshots of one boot show, at the later one's time.

    oom_kill: vmstat's oom_kill grew, with the names of those that SIGKILL ended. drop_caches: vmstat's drop_pagecache
    or drop_slab grew. process_ended: a process of ``watched`` ended other than by exit 0, where its end is known.
    """
    if before is None or before.host.boot_id != after.host.boot_id:
        return []
    old, new = before.processes.value, after.processes.value
    ends = {} if old is None or new is None else _ends(old, new)
    texts: list[tuple[str, str]] = []
    if before.memory.value is not None and after.memory.value is not None:
        texts += _memory(before.memory.value, after.memory.value, [name for name, c in ends.values() if c == _KILLED])
    texts += [
        ("process_ended", f"{name} (pid {key.pid}): {how_it_ended(code)}")
        for key, (name, code) in ends.items()
        if code and key in watched
    ]
    return [Event(after.at_ns, after.wall_ns, kind, text) for kind, text in texts]


def _ends(old: ProcessTable, new: ProcessTable) -> dict[ProcessKey, tuple[str, int]]:
    """Name and exit code of the processes that are gone, where the code is known."""
    return {key: (old.info[key].name, new.exits[key]) for key in new.gone if key in new.exits and key in old.info}


def _memory(old: MemoryState, new: MemoryState, killed: list[str]) -> list[tuple[str, str]]:
    out = []
    kills = _grown(old.oom_kills, new.oom_kills)
    if kills:
        names = f": {', '.join(killed[:5])}" if killed else ""
        out.append(("oom_kill", f"the kernel killed {kills} process{'' if kills == 1 else 'es'} for memory{names}"))
    pages, slab = _grown(old.drop_pagecache, new.drop_pagecache), _grown(old.drop_slab, new.drop_slab)
    if pages or slab:
        what = " and ".join(name for name, grown in (("page cache", pages), ("slab caches", slab)) if grown)
        out.append(("drop_caches", f"somebody dropped the {what}"))
    return out


def _grown(old: int | None, new: int | None) -> int:
    return 0 if old is None or new is None else max(0, new - old)


class Family:
    """The processes that descend from one, without it, grown from Snapshot to Snapshot."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._pids = {pid}
        self._known: frozenset[ProcessKey] = frozenset()
        self.members: frozenset[ProcessKey] = frozenset()

    def look(self, table: ProcessTable) -> None:
        """Take in who was born since; a member whose parent ended stays one."""
        fresh = table.stat.keys() - self._known
        members = {key for key in self.members if key in table.stat}
        for key in sorted(fresh, key=lambda k: (k.start_ticks, k.pid)):
            if key.pid != self._pid and table.stat[key].ppid in self._pids:
                members.add(key)
                self._pids.add(key.pid)
        self._pids = {self._pid, *(key.pid for key in members)}
        self._known = frozenset(table.stat)
        self.members = frozenset(members)
