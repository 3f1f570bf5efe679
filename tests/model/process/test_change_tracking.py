"""Tracked changes equal the result of comparing everything."""

from __future__ import annotations

import random

from iotop_ai.model.process.change_tracking import TrackedDict, TrackedDictBuilder, changed, follows, removed


class Value:
    """A value that is equal only to itself."""


def test_a_mapping_is_the_same_object_until_it_changes() -> None:
    builder: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    builder.put(1, Value())
    first = builder.now
    builder.mark_published()
    assert builder.drop(2) is None
    assert builder.now is first
    builder.put(2, Value())
    assert builder.now is not first
    assert first.keys() == {1}
    assert builder.now.keys() == {1, 2}


def test_differences_equal_those_of_comparing_everything() -> None:
    dice = random.Random(7)
    builder: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    seen = [builder.now]
    followed = 0
    for _ in range(300):
        for _ in range(dice.randrange(6)):
            key = dice.randrange(12)
            if dice.random() < 0.4:
                builder.drop(key)
            else:
                builder.put(key, Value())
        followed += follows(builder.now, seen[-1])
        for old in (seen[-1], seen[max(0, len(seen) - 3)], dict(seen[-1])):
            plain_old, plain_new = dict(old), dict(builder.now)
            found = {key: builder.now[key] for key in changed(builder.now, old)}
            assert found == {k: v for k, v in plain_new.items() if plain_old.get(k) is not v}
            assert found.keys() == set(changed(plain_new, plain_old))
            gone = list(removed(builder.now, old))
            assert sorted(gone) == sorted(plain_old.keys() - plain_new.keys()) == sorted(removed(plain_new, plain_old))
        seen.append(builder.now)
        builder.mark_published()
    assert followed > 100


def test_new_keys_come_in_the_order_of_the_mapping() -> None:
    builder: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    builder.put(5, Value())
    old = builder.now
    builder.mark_published()
    for key in (3, 9, 1):
        builder.put(key, Value())
    assert follows(builder.now, old)
    assert list(changed(builder.now, old)) == [3, 9, 1]
    builder.drop(3)
    builder.put(3, Value())
    assert list(changed(builder.now, old)) == [9, 1, 3] == [key for key in builder.now if key not in old]


def test_a_key_that_came_and_went_in_between_is_in_neither_difference() -> None:
    builder: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    builder.put(1, Value())
    old = builder.now
    builder.mark_published()
    builder.put(2, Value())
    builder.drop(2)
    assert not changed(builder.now, old)
    assert not removed(builder.now, old)


def test_states_that_are_far_apart_are_compared_as_a_whole() -> None:
    builder: TrackedDictBuilder[int, Value] = TrackedDictBuilder()
    builder.put(1, Value())
    old = builder.now
    for key in (2, 3):
        builder.mark_published()
        builder.put(key, Value())
    assert not follows(builder.now, old)
    assert list(changed(builder.now, old)) == [2, 3]


def test_the_flagged_keys_follow_the_values() -> None:
    builder: TrackedDictBuilder[str, int] = TrackedDictBuilder(lambda value: value > 9)
    builder.put("a", 10)
    builder.put("b", 1)
    first = builder.now
    builder.mark_published()
    builder.put("a", 2)
    builder.put("b", 20)
    builder.put("c", 30)
    builder.drop("c")
    assert list(first.flagged or ()) == ["a"]
    assert list(builder.now.flagged or ()) == ["b"]
    without_flag: TrackedDict[str, int] = TrackedDict()
    assert without_flag.flagged is None
    assert TrackedDict(without_flag).flagged is None
