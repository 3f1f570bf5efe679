"""The counters of a job's time lose nothing, and the shares of an interval add up to 1."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.job.time_shares import (
    DATA,
    LOST,
    SHARES,
    TimeCounts,
    TimeShares,
    add_time,
    mean_shares,
    shares_of,
    time_shares,
)

PARTS = len(SHARES)
counts = st.lists(st.integers(0, 10**12), min_size=PARTS, max_size=PARTS).map(lambda v: TimeCounts(*v))
intervals = st.integers(0, 10**9)


@st.composite
def divided(draw: st.DrawFn) -> tuple[float, ...]:
    """Parts that add up to 1 as nearly as floats can, many of which are 0."""
    weights = draw(st.lists(st.sampled_from((0, 0, 1)) | st.integers(0, 1000), min_size=PARTS, max_size=PARTS))
    if not any(weights):
        weights[draw(st.integers(0, PARTS - 1))] = 1
    whole = sum(weights)
    return tuple(weight / whole for weight in weights)


@given(counts, st.lists(st.tuples(divided(), intervals), max_size=20))
def test_no_millisecond_is_lost_and_no_counter_falls(
    start: TimeCounts, ticks: list[tuple[tuple[float, ...], int]]
) -> None:
    seen = [start]
    for shares, milliseconds in ticks:
        seen.append(add_time(seen[-1], shares, milliseconds))
        grown = [b - a for a, b in zip(seen[-2], seen[-1], strict=True)]
        # A share of 0 gets nothing, and every other share is right to a millisecond.
        assert all(abs(got - share * milliseconds) <= 1.001 for got, share in zip(grown, shares, strict=True))
        assert all(share or not got for got, share in zip(grown, shares, strict=True))
    assert seen[-1].whole_ms == start.whole_ms + sum(milliseconds for _, milliseconds in ticks)
    assert all(b >= a for before, after in pairwise(seen) for a, b in zip(before, after, strict=True))


def test_a_millisecond_lost_by_rounding_goes_to_the_largest_remainder() -> None:
    shares = [0.0] * PARTS
    shares[0], shares[3], shares[5] = 0.5, 0.3, 0.2
    assert add_time(TimeCounts(), shares, 7) == TimeCounts(compute=4, data_disk=2, data_cpu=1)


@given(counts, counts)
def test_the_shares_between_two_readings_add_up_to_one(before: TimeCounts, grown: TimeCounts) -> None:
    after = TimeCounts(*(a + b for a, b in zip(before, grown, strict=True)))
    found = time_shares(before, after)
    if not grown.whole_ms:
        assert found is None
        return
    assert found is not None
    assert found.whole_ms == grown.whole_ms
    assert sum(found[:PARTS]) == pytest.approx(1.0)
    assert found.data + found.goodput + sum(
        getattr(found, name) for name in SHARES if name not in (*DATA, "compute")
    ) == pytest.approx(1.0)


def test_an_unknown_interval_has_no_shares() -> None:
    some, more = TimeCounts(compute=500, host=3), TimeCounts(compute=900, host=3)
    assert time_shares(None, some) is None
    assert time_shares(some, None) is None
    assert time_shares(some, some) is None
    assert time_shares(some, more._replace(host=2)) is None, "shares were given though a counter fell"
    assert time_shares(some, more) == TimeShares(1.0, *[0.0] * (PARTS - 1), 400)
    assert shares_of(()) is None
    assert shares_of(TimeCounts()) is None


def test_several_intervals_are_weighted_by_their_lengths() -> None:
    short, long = shares_of(TimeCounts(compute=1000)), shares_of(TimeCounts(compute=1000, data_disk=2000))
    assert short is not None
    assert long is not None
    both = mean_shares([short, long])
    assert both is not None
    assert (both.compute, both.data_disk, both.whole_ms) == (0.5, 0.5, 4000)
    assert mean_shares([]) is None


@given(st.lists(counts.filter(lambda one: one.whole_ms > 0), min_size=1, max_size=6))
def test_several_intervals_have_the_shares_of_their_sum(parts: list[TimeCounts]) -> None:
    together = mean_shares([one for part in parts if (one := shares_of(part)) is not None])
    assert together == pytest.approx(shares_of([sum(column) for column in zip(*parts, strict=True)]))


def test_the_names_of_the_shares_are_fixed() -> None:
    assert TimeShares._fields == (*SHARES, "whole_ms")
    assert set(DATA) < set(LOST)
    assert set(SHARES) - set(LOST) == {"compute", "unexplained"}
