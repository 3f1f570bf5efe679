"""Which processes are this monitor's own."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from operator import itemgetter

from iotop_ai.model.followed import Followed, follows
from iotop_ai.model.process import ProcessInfo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.model.record import NamedTuple

_PPID = itemgetter(ProcessStat._fields.index("ppid"))


class _Found(NamedTuple):
    """pids: the answer for a table's stat. children: of this monitor, with what each is."""

    stat: Mapping[ProcessKey, ProcessStat]
    own_pid: int
    children: dict[ProcessKey, ProcessInfo]
    pids: frozenset[int]


_newest = [_Found({}, 0, {}, frozenset())]
"""The answer before: most tables differ by few processes. A cache, never a memory."""


def monitor_pids(table: ProcessTable, own_pid: int) -> frozenset[int]:
    """This monitor and its helpers with what they start (smartctl); a command that it records is no helper."""
    last = _newest[0]
    if last.own_pid == own_pid and _stands(last, table):
        _newest[0] = last._replace(stat=table.stat)
        return last.pids
    parents = [*map(_PPID, table.stat.values())]
    children = {key: table.info[key] for key in compress(table.stat, map(own_pid.__eq__, parents))}
    found = {own_pid}
    newest = {key.pid for key, info in children.items() if any(part.startswith("iotop_ai.") for part in info.cmdline)}
    while newest - found:
        found |= newest
        newest = {key.pid for key in compress(table.stat, map(newest.__contains__, parents))}
    _newest[0] = _Found(table.stat, own_pid, children, frozenset(found))
    return _newest[0].pids


def _stands(last: _Found, table: ProcessTable) -> bool:
    """Whether nobody came, went or moved below those that were found, and the children are what they were."""
    stat, before, pids = table.stat, last.stat, last.pids
    if stat is not before:
        if not isinstance(stat, Followed) or not follows(stat, before):
            return False
        for key in stat.touched:
            old, new = before.get(key), stat.get(key)
            was, now = None if old is None else old.ppid, None if new is None else new.ppid
            if was != now and (was in pids or now in pids):
                return False
    info = table.info
    return all(info.get(key) is known for key, known in last.children.items())
