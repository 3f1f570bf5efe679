"""Groups of idle processes are updated at each tick, and equal a new grouping."""

from __future__ import annotations

import random

from iotop_ai.model.process.change_tracking import TrackedDictBuilder
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessTable
from iotop_ai.present.process.groups import IdleGroupsCache, _IdleGroups

OWN = 3
NAMES = ("sleep", "python", "sh", "cat")


def table_of(ledger: TrackedDictBuilder[ProcessKey, ProcessInfo]) -> ProcessTable:
    return ProcessTable({}, {}, ledger.now, frozenset(), 1, 1, (1,), {}, {}, {}, {})


def test_updated_groups_equal_newly_made_ones() -> None:
    dice = random.Random(3)
    for pattern, kernel in (("", False), ("py|cat", False), ("", True)):
        ledger: TrackedDictBuilder[ProcessKey, ProcessInfo] = TrackedDictBuilder()
        kept, cache = 0, IdleGroupsCache()
        before = None
        members: dict[ProcessKey, str] = {}
        for tick in range(120):
            for _ in range(dice.randrange(4)):
                key = ProcessKey(dice.randrange(1, 30), 5)
                if dice.random() < 0.3:
                    ledger.drop(key)
                else:
                    name = dice.choice(NAMES)
                    ledger.put(key, ProcessInfo(name, (name,), "root", 0, kernel=dice.random() < 0.1))
            if not ledger.now:
                ledger.mark_published()
                continue
            table = table_of(ledger)
            if dice.random() < 0.3:
                members = {key: dice.choice("12") for key in ledger.now if dice.random() < 0.3}
            found = cache.groups(table, pattern, OWN, members, kernel=kernel)
            fresh = _IdleGroups(table, pattern, OWN, members, kernel=kernel)
            assert found.groups == fresh.groups, tick
            assert list(found.groups) == list(fresh.groups), tick
            assert sorted(found.position, key=found.position.__getitem__) == list(ledger.now)
            kept += found is before
            before = found
            ledger.mark_published()
        assert kept > 50
