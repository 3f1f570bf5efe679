"""The rates of the steps that training processes report, and which messages are accepted."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from iotop_ai.model.job.steps import LoaderSettings, StepCounts, rated_steps, settings_of, step_counts_of, step_rates
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading, Status

S = 10**9
KEY, OTHER = ProcessKey(7, 70), ProcessKey(8, 80)


def counts(at_s: float, steps: int | None, batches: int, data_s: float | None, rank: int | None = None) -> StepCounts:
    return StepCounts(int(at_s * S), steps, batches, None if data_s is None else int(data_s * S), rank)


def test_the_rates_are_those_between_two_messages() -> None:
    rates = step_rates(counts(10, 40, 80, 3), counts(12, 60, 120, 4, rank=1))
    assert (rates.steps_per_s, rates.data_wait_ms, rates.data_wait_ratio, rates.rank) == (10.0, 50.0, 0.5, 1)


def test_batches_replace_steps_that_are_not_counted() -> None:
    rates = step_rates(counts(10, None, 80, 3), counts(12, None, 120, 3))
    assert (rates.steps_per_s, rates.data_wait_ms, rates.data_wait_ratio) == (20.0, 0.0, 0.0)


def test_a_wait_that_cannot_be_computed_is_unknown() -> None:
    rates = step_rates(counts(10, 40, 0, None), counts(12, 60, 0, None))
    assert (rates.steps_per_s, rates.data_wait_ms, rates.data_wait_ratio) == (10.0, None, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, counts(12, 60, 120, 4)),
        (counts(12, 60, 120, 4), counts(12, 60, 120, 4)),
        (counts(10, None, 80, 3), counts(12, 3, 120, 4)),
    ],
)
def test_without_a_usable_earlier_message_everything_is_unknown(before: StepCounts | None, after: StepCounts) -> None:
    assert set(step_rates(before, after)[4:]) == {None}


def test_totals_that_fell_give_unknown_rates() -> None:
    assert step_rates(counts(10, 40, 80, 3), counts(12, 20, 120, 1))[4:] == (None, None, None)


def test_each_process_keeps_its_rates_until_its_next_message() -> None:
    def reading(at_s: float, **tables: StepCounts) -> Reading[dict[ProcessKey, StepCounts]]:
        keys = {"one": KEY, "two": OTHER}
        return Reading({keys[name]: value for name, value in tables.items()}, Status.OK, at_ns=int(at_s * S))

    first = reading(10, one=counts(10, 10, 10, 1), two=counts(9, 10, 10, 1))
    second = reading(12, one=counts(12, 30, 30, 2), two=counts(11, 20, 20, 2))
    third = reading(14, one=counts(14, 40, 40, 2), two=counts(11, 20, 20, 2))
    one = rated_steps(None, first, None)
    two = rated_steps(first, second, one)
    three = rated_steps(second, third, two)
    assert two.value is not None
    assert three.value is not None
    assert (two.value[KEY].steps_per_s, two.value[OTHER].steps_per_s) == (10.0, 5.0)
    assert (three.value[KEY].steps_per_s, three.value[OTHER].steps_per_s) == (5.0, 5.0)
    again = rated_steps(third, third, three)
    assert (again.value, again.renewed) == (three.value, False)
    assert rated_steps(third, Reading(), three).value is None


def test_a_message_that_comes_a_tick_late_is_counted() -> None:
    """The message of the second rank is older than the newest message of the first rank."""
    first = counts(20, 40, 40, 1)
    late = [counts(9, 10, 10, 1), counts(19, 30, 30, 1), counts(19, 30, 30, 1)]
    readings = [Reading({KEY: first, OTHER: one}, Status.OK, at_ns=20 * S) for one in late]
    rates = rated_steps(None, readings[0], None)
    seen = []
    for before, after in itertools.pairwise(readings):
        rates = rated_steps(before, after, rates)
        assert rates.value is not None
        seen.append((rates.value[OTHER].steps, rates.value[OTHER].steps_per_s, rates.renewed))
    assert seen == [(20, 2.0, True), (20, 2.0, False)]


def test_the_settings_of_the_loader_come_with_the_counts() -> None:
    sent = {"at_ns": 50, "batches": 4, "loader": {"num_workers": 2, "pin_memory": True}}
    found = step_counts_of(sent, 60, 40)
    assert found is not None
    assert found.loader == LoaderSettings(workers=2, pinned=True)
    for hostile in ("num_workers", [1], {"num_workers": "2"}):
        assert step_counts_of(sent | {"loader": hostile}, 60, 40) == StepCounts(50, None, 4, None)


def test_counts_of_a_message_are_accepted_only_within_bounds() -> None:
    good = {"kind": "steps", "at_ns": 50, "steps": 3, "batches": 4, "data_ns": 5, "rank": 0, "world_size": 8}
    assert step_counts_of(good, 60, 40) == StepCounts(50, 3, 4, 5, 0, None, 8)
    for bad in (-1, 1.5, True, "7", None, 2**63, [1]):
        assert step_counts_of(good | {"batches": bad}, 60, 40) is None
        found = step_counts_of(good | {"steps": bad, "rank": bad, "data_ns": bad}, 60, 40)
        assert found == StepCounts(50, None, 4, None, None, None, 8)
    for elsewhere in (39, 61):
        moved = step_counts_of(good | {"at_ns": elsewhere}, 60, 40)
        assert moved is not None
        assert moved.at_ns == 60, "a time that is out of bounds was kept"


def test_valid_settings_are_accepted_and_others_are_unknown() -> None:
    sent = {"num_workers": 4, "prefetch_factor": 2, "pin_memory": True, "persistent_workers": False}
    assert settings_of(sent) == LoaderSettings(4, 2, True, False)
    hostile: dict[str, Any] = {"num_workers": -1, "prefetch_factor": True, "pin_memory": "yes", "persistent_workers": 1}
    assert settings_of(hostile) is None
    assert settings_of({**hostile, "num_workers": 0}) == LoaderSettings(workers=0)
    assert settings_of({**sent, "num_workers": 10**9, "more": []}) == LoaderSettings(None, 2, True, False)


@pytest.mark.parametrize("value", [None, [], "4", 4, {}])
def test_anything_else_holds_no_settings(value: Any) -> None:
    assert settings_of(value) is None
