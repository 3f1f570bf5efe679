"""Tracked changes equal the result of comparing everything."""

from __future__ import annotations

import random

from iotop_ai.model.process.change_tracking import TrackedDict, TrackedDictBuilder, changed, follows, removed


class Value:
    """A value that is equal only to itself."""


def test_a_mapping_is_the_same_object_until_it_changes() -> None:
    ledger: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    ledger.put(1, Value())
    first = ledger.now
    ledger.mark_published()
    assert ledger.drop(2) is None
    assert ledger.now is first
    ledger.put(2, Value())
    assert ledger.now is not first
    assert first.keys() == {1}
    assert ledger.now.keys() == {1, 2}


def test_differences_equal_those_of_comparing_everything() -> None:
    dice = random.Random(7)
    ledger: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    seen = [ledger.now]
    followed = 0
    for _ in range(300):
        for _ in range(dice.randrange(6)):
            key = dice.randrange(12)
            if dice.random() < 0.4:
                ledger.drop(key)
            else:
                ledger.put(key, Value())
        followed += follows(ledger.now, seen[-1])
        for old in (seen[-1], seen[max(0, len(seen) - 3)], dict(seen[-1])):
            plain_old, plain_new = dict(old), dict(ledger.now)
            found = {key: ledger.now[key] for key in changed(ledger.now, old)}
            assert found == {k: v for k, v in plain_new.items() if plain_old.get(k) is not v}
            assert found.keys() == set(changed(plain_new, plain_old))
            went = list(removed(ledger.now, old))
            assert sorted(went) == sorted(plain_old.keys() - plain_new.keys()) == sorted(removed(plain_new, plain_old))
        seen.append(ledger.now)
        ledger.mark_published()
    assert followed > 100


def test_new_keys_come_in_the_order_of_the_mapping() -> None:
    ledger: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    ledger.put(5, Value())
    old = ledger.now
    ledger.mark_published()
    for key in (3, 9, 1):
        ledger.put(key, Value())
    assert follows(ledger.now, old)
    assert list(changed(ledger.now, old)) == [3, 9, 1]
    ledger.drop(3)
    ledger.put(3, Value())
    assert list(changed(ledger.now, old)) == [9, 1, 3] == [key for key in ledger.now if key not in old]


def test_a_key_that_came_and_went_in_between_is_in_neither_difference() -> None:
    ledger: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    ledger.put(1, Value())
    old = ledger.now
    ledger.mark_published()
    ledger.put(2, Value())
    ledger.drop(2)
    assert not changed(ledger.now, old)
    assert not removed(ledger.now, old)


def test_states_that_are_far_apart_are_compared_as_a_whole() -> None:
    ledger: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    ledger.put(1, Value())
    old = ledger.now
    for key in (2, 3):
        ledger.mark_published()
        ledger.put(key, Value())
    assert not follows(ledger.now, old)
    assert list(changed(ledger.now, old)) == [2, 3]


def test_a_flag_is_set_if_its_values_changed() -> None:
    ledger: TrackedDictBuilder[str, int] = TrackedDictBuilder(lambda value: value > 9)
    ledger.put("a", 10)
    ledger.put("b", 1)
    first = ledger.now
    ledger.mark_published()
    ledger.put("a", 2)
    ledger.put("b", 20)
    ledger.put("c", 30)
    ledger.drop("c")
    assert list(first.flagged or ()) == ["a"]
    assert list(ledger.now.flagged or ()) == ["b"]
    unasked: TrackedDict[str, int] = TrackedDict()
    assert unasked.flagged is None
    assert TrackedDict(unasked).flagged is None
