"""The cached stats of a large group equal those that are computed from all its members."""

from __future__ import annotations

import random

from iotop_ai.model.process.change_tracking import TrackedDictBuilder
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat, ProcessTable, ThreadLook, awake
from iotop_ai.present.process.group_stats import CACHED_FROM_MEMBERS, GroupStats, GroupStatsCache, group_stats

GROUP = ("sleep", "root", "")


def stat_of(state: str, threads: int, pages: int) -> ProcessStat:
    return ProcessStat(state, 1, 0, 0, 0, 0, 0, threads, pages, 0)


def by_hand(keys: tuple[ProcessKey, ...], table: ProcessTable) -> GroupStats:
    states = [
        "D" if key in table.threads and table.threads[key].states[0][0] == "D" else table.stat[key].state
        for key in keys
    ]
    worst = min(states, key="DRtTZSI".index)
    stats = [table.stat[key] for key in keys]
    return GroupStats(worst, states.count(worst), (sum(s.threads for s in stats), sum(s.rss_pages for s in stats)))


def test_cached_stats_equal_those_of_all_members() -> None:
    dice = random.Random(11)
    keys = tuple(ProcessKey(pid, 1) for pid in range(CACHED_FROM_MEMBERS + 40))
    other = ProcessKey(9000, 1)
    info = {key: ProcessInfo(*("sleep", (), "root"), 0) for key in keys} | {other: ProcessInfo("cat", (), "root", 0)}
    builder: TrackedDictBuilder[ProcessKey, ProcessStat] = TrackedDictBuilder(awake)
    for key in (*keys, other):
        builder.put(key, stat_of("S", 1, 10))
    cache = GroupStatsCache()
    for _ in range(200):
        for _ in range(dice.randrange(3)):
            builder.put(dice.choice((other, other, *keys[:3])), stat_of(dice.choice("SDR"), 2, dice.randrange(50)))
        looks = {keys[5]: ThreadLook((("D", 1),), ())} if dice.random() < 0.2 else {}
        table = ProcessTable({}, builder.now, info, frozenset(), 1, 1, (1,), {}, {}, looks, {})
        assert cache.stats(GROUP, keys, table) == by_hand(keys, table)
        if dice.random() < 0.2:  # this Frame was not drawn
            builder.mark_published()
            builder.put(keys[1], stat_of("R", 1, 1))
        builder.mark_published()


def test_without_a_member_that_can_be_read_the_stats_are_unknown() -> None:
    table = ProcessTable({}, {}, {}, frozenset(), 1, 1, (1,), {}, {}, {}, {})
    assert group_stats((), table) == GroupStats("?", 0, None)
    assert group_stats((ProcessKey(1, 1), ProcessKey(2, 1)), table) == GroupStats("?", 2, None)
