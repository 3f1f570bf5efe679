"""The state, threads and memory of a process group. For large groups, the sums are cached while no member changes,
because adding up ten thousand sleeping processes for each Frame would take long.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from operator import itemgetter

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.process.change_tracking import TrackedDict, follows
from iotop_ai.model.process.records import ProcessKey, ProcessStat, ProcessTable, ThreadLook
from iotop_ai.present.process.names import listed_name

CACHED_FROM_MEMBERS = 64
"""The stats of a group with at least this many members are cached."""
_MOST_GROUPS = 8
"""The largest number of groups whose stats are cached."""
_RANK = {"D": 0, "R": 1, "t": 2, "T": 3, "Z": 4, "S": 5, "I": 6}
"""The rank of each process state; the lowest rank is the most important."""
_STATE, _THREADS, _PAGES = map(itemgetter, map(ProcessStat._fields.index, ("state", "threads", "rss_pages")))
"""Functions that return these fields of a ProcessStat."""

GroupId = tuple[str, str, str]
"""What identifies a group: the (name, user, job) of all its members, as in ``Group``."""


class GroupStats(NamedTuple):
    """The aggregated stats of a group's members.

    state: the most important process state among the members, such as D; "?" if none is readable. in_state: the number
    of members in that state. sums: the sums of (threads, resident pages) over the readable members; None if there are
    none.
    """

    state: str
    in_state: int
    sums: tuple[int, int] | None


class _Entry(NamedTuple):
    """The stats of a group, and their inputs: the keys of the group, and ``ProcessTable.stat``."""

    keys: Collection[ProcessKey]
    stat: Mapping[ProcessKey, ProcessStat]
    result: GroupStats


class GroupStatsCache:
    """The stats of the large groups, cached from Frame to Frame."""

    def __init__(self) -> None:
        self._entries: OrderedDict[GroupId, _Entry] = OrderedDict()

    def stats(self, group_id: GroupId, keys: Collection[ProcessKey], table: ProcessTable) -> GroupStats:
        """The stats of a group. group_id: the name, user and job of its members."""
        if len(keys) < CACHED_FROM_MEMBERS:
            return group_stats(keys, table)
        entry = self._entries.get(group_id)
        # ``TrackedDict.touched`` lists changed stats, but not changed states of threads.
        any_sampled = any_in_group(group_id, table.threads, table)
        if entry is not None and entry.keys is keys and not any_sampled and _unchanged(group_id, entry.stat, table):
            if entry.stat is not table.stat:
                self._entries[group_id] = entry._replace(stat=table.stat)
            return entry.result
        result = group_stats(keys, table)
        self._entries.pop(group_id, None)
        if not any_sampled:
            self._entries[group_id] = _Entry(keys, table.stat, result)
            while len(self._entries) > _MOST_GROUPS:
                self._entries.popitem(last=False)
        return result


def group_stats(keys: Collection[ProcessKey], table: ProcessTable) -> GroupStats:
    """The stats of these processes, computed without a cache."""
    if len(keys) == 1:
        (key,) = keys
        stat = table.stat.get(key)
        return GroupStats(process_state(stat, table.threads.get(key)), 1, stat and (stat.threads, stat.rss_pages))
    stats = [*filter(None, map(table.stat.get, keys))]
    if len(stats) == len(keys) and table.threads.keys().isdisjoint(keys):
        counts = Counter(map(_STATE, stats))  # counts a thousand processes at C speed
    else:
        counts = Counter(map(process_state, map(table.stat.get, keys), map(table.threads.get, keys)))
    worst = min(counts, key=lambda s: _RANK.get(s, 7), default="?")
    sums = (sum(map(_THREADS, stats)), sum(map(_PAGES, stats))) if stats else None
    return GroupStats(worst, counts[worst], sums)


def process_state(stat: ProcessStat | None, sampled: ThreadLook | None) -> str:
    """The state of a process: D if a sampled thread is in D, else that of the main thread; "?" when unknown."""
    if sampled is not None and any(state == "D" for state, _ in sampled.states):
        return "D"
    return "?" if stat is None else stat.state


def any_in_group(group_id: GroupId, keys: Collection[ProcessKey], table: ProcessTable) -> bool:
    """Whether any of these few processes has this name and user, and so may be in the group."""
    name, user, _ = group_id
    infos = filter(None, map(table.info.get, keys))
    return any(info.user == user and listed_name(info) == name for info in infos)


def _unchanged(group_id: GroupId, stat: Mapping[ProcessKey, ProcessStat], table: ProcessTable) -> bool:
    """Whether all processes of this name and user have the same stat now as in ``stat``; False if that is not known."""
    now = table.stat
    if now is stat:
        return True
    return isinstance(now, TrackedDict) and follows(now, stat) and not any_in_group(group_id, now.touched, table)
