"""What the stat of a fold's members says together: of ten thousand sleepers it is kept while none of them changes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from operator import itemgetter

from iotop_ai.model.followed import Followed, follows
from iotop_ai.model.process import ProcessKey, ProcessStat, ProcessTable, ThreadLook
from iotop_ai.model.record import NamedTuple

MANY = 64
"""Members from which on the answer is kept."""
_KEPT = 8
_WEIGHT = {"D": 0, "R": 1, "t": 2, "T": 3, "Z": 4, "S": 5, "I": 6}
_STATE, _THREADS, _PAGES = map(itemgetter, map(ProcessStat._fields.index, ("state", "threads", "rss_pages")))


class Crowd(NamedTuple):
    """state: the one that matters most, "?" where none is readable; in_state: how many are in it.

    known: (threads, resident pages) of those that are readable, summed; None where none is.
    """

    state: str
    in_state: int
    known: tuple[int, int] | None


class _Kept(NamedTuple):
    keys: Collection[ProcessKey]
    stat: Mapping[ProcessKey, ProcessStat]
    crowd: Crowd


_kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()


def crowd_of(who: tuple[str, str], keys: Collection[ProcessKey], table: ProcessTable) -> Crowd:
    """What is known of the members of a fold. who: the name and the user that all of them have."""
    if len(keys) == 1:
        (key,) = keys
        stat = table.stat.get(key)
        return Crowd(_letter(stat, table.threads.get(key)), 1, stat and (stat.threads, stat.rss_pages))
    if len(keys) < MANY:
        return _asked(keys, table)
    kept = _kept.get(who)
    looked = any_of(who, table.threads, table)
    if kept is not None and kept.keys is keys and not looked and _as_before(who, kept.stat, table):
        if kept.stat is not table.stat:
            _kept[who] = kept._replace(stat=table.stat)
        return kept.crowd
    found = _asked(keys, table)
    _kept.pop(who, None)
    if not looked:
        _kept[who] = _Kept(keys, table.stat, found)
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return found


def any_of(who: tuple[str, str], keys: Collection[ProcessKey], table: ProcessTable) -> bool:
    """Whether a process of this name and user is among these few."""
    return any((info := table.info.get(key)) is not None and (info.name, info.user) == who for key in keys)


def _as_before(who: tuple[str, str], stat: Mapping[ProcessKey, ProcessStat], table: ProcessTable) -> bool:
    """Whether none of this name has another stat now."""
    now = table.stat
    return now is stat or (isinstance(now, Followed) and follows(now, stat) and not any_of(who, now.touched, table))


def _asked(keys: Collection[ProcessKey], table: ProcessTable) -> Crowd:
    stats = [*filter(None, map(table.stat.get, keys))]
    if len(stats) == len(keys) and table.threads.keys().isdisjoint(keys):
        counts = Counter(map(_STATE, stats))  # a thousand sleepers are counted at C speed
    else:
        counts = Counter(map(_letter, map(table.stat.get, keys), map(table.threads.get, keys)))
    worst = min(counts, key=lambda s: _WEIGHT.get(s, 7), default="?")
    known = (sum(map(_THREADS, stats)), sum(map(_PAGES, stats))) if stats else None
    return Crowd(worst, counts[worst], known)


def _letter(stat: ProcessStat | None, look: ThreadLook | None) -> str:
    if look is not None and any(state == "D" for state, _ in look.states):
        return "D"
    return "?" if stat is None else stat.state
