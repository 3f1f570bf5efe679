"""The numbers of ranks, over all machines of a job."""

from __future__ import annotations

import pytest

from iotop_ai.model.job.inspection import NO_IDS, RankIds
from iotop_ai.model.job.rank_numbers import checked_ranges, number_ranges, with_rank_numbers
from iotop_ai.model.job.records import Rank
from iotop_ai.model.process.records import ProcessKey


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), ""),
        ((13,), "13"),
        (range(8, 16), "8-15"),
        ((11, 0, 4, 10, 8, 9), "0,4,8-11"),
        ((0, None), ""),
        (range(0, 16, 2), "0,2,4,6,8,10,12,14"),
        (range(0, 18, 2), ""),
    ],
)
def test_numbers_are_written_as_ranges(numbers: tuple[int | None, ...], text: str) -> None:
    assert number_ranges(numbers) == text
    assert checked_ranges(text) == text


@pytest.mark.parametrize("text", ["8-", "x", "1,,2", "-1", "1" * 10, ",".join("123456789"), "1 2", "1\n", "[b]1[/b]"])
def test_text_that_is_not_a_range_is_dropped(text: str) -> None:
    assert checked_ranges(text) == ""


def numbers(*ids: RankIds) -> list[int | None]:
    keys = [ProcessKey(10 + n, 1) for n in range(len(ids))]
    found = with_rank_numbers([Rank(key) for key in keys], dict(zip(keys, ids, strict=True)))
    assert [rank.key for rank in found] == keys
    return [rank.number for rank in found]


def test_a_number_that_two_ranks_share_is_unknown() -> None:
    assert numbers(RankIds(rank=8, size=16), RankIds(rank=9, size=16)) == [8, 9]
    assert numbers(RankIds(rank=3, size=4), RankIds(rank=3, size=4), RankIds(rank=2, size=4)) == [None, None, 2]
    assert numbers(RankIds(rank=10**6, size=10**7)) == [None]


def local(rank: int, size: int) -> RankIds:
    return RankIds(rank=rank, size=size, local=True)


def test_the_number_on_the_machine_counts_if_all_ranks_are_on_it() -> None:
    assert numbers(NO_IDS, local(2, 3), local(1, 3)) == [0, 2, 1]  # Lightning's rank 0 has started the others
    assert numbers(local(0, 2), local(1, 2)) == [0, 1]
    assert numbers(NO_IDS, local(1, 4)) == [None, None]  # two more ranks are elsewhere
    assert numbers(NO_IDS, NO_IDS, local(1, 3)) == [None, None, None]
    assert numbers(local(0, 2), local(0, 2)) == [None, None]
    assert numbers(NO_IDS, local(2, 2)) == [None, None]
    assert numbers(RankIds(rank=0, size=2), local(1, 2)) == [0, None]
