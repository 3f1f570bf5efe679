"""The folds of those that rest are kept from tick to tick: what came of it is what a new fold of all would be."""

from __future__ import annotations

import random

from iotop_ai.model.followed import Ledger
from iotop_ai.model.process import ProcessInfo, ProcessKey, ProcessTable
from iotop_ai.present.groups import _Resting, _resting

OWN = 3
NAMES = ("sleep", "python", "sh", "cat")


def table_of(ledger: Ledger[ProcessKey, ProcessInfo]) -> ProcessTable:
    return ProcessTable({}, {}, ledger.now, frozenset(), 1, 1, (1,), {}, {}, {}, {})


def test_kept_folds_are_those_of_a_fold_of_all() -> None:
    dice = random.Random(3)
    for pattern in ("", "py|cat"):
        ledger: Ledger[ProcessKey, ProcessInfo] = Ledger()
        kept = 0
        before = None
        for tick in range(120):
            for _ in range(dice.randrange(4)):
                key = ProcessKey(dice.randrange(1, 30), 5)
                if dice.random() < 0.3:
                    ledger.drop(key)
                else:
                    name = dice.choice(NAMES)
                    ledger.put(key, ProcessInfo(name, (name,), "root", 0, kernel=dice.random() < 0.1))
            if not ledger.now:
                ledger.turn()
                continue
            table = table_of(ledger)
            found, fresh = _resting(table, pattern, OWN), _Resting(table, pattern, OWN)
            assert found.groups == fresh.groups, tick
            assert list(found.groups) == list(fresh.groups), tick
            assert sorted(found.place, key=found.place.__getitem__) == list(ledger.now)
            kept += found is before
            before = found
            ledger.turn()
        assert kept > 50
