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


def test_a_number_that_two_ranks_share_is_unknown() -> None:
    def numbers(*ids: RankIds) -> list[int | None]:
        keys = [ProcessKey(10 + n, 1) for n in range(len(ids))]
        found = with_rank_numbers([Rank(key) for key in keys], dict(zip(keys, ids, strict=True)))
        assert [rank.key for rank in found] == keys
        return [rank.number for rank in found]

    assert numbers(RankIds(rank=8, size=16), RankIds(rank=9, size=16)) == [8, 9]
    assert numbers(RankIds(rank=3, size=4), RankIds(rank=3, size=4), RankIds(rank=2, size=4)) == [None, None, 2]
    assert numbers(RankIds(rank=1, size=2, local=True), NO_IDS) == [None, None]
    assert numbers(RankIds(rank=10**6, size=10**7)) == [None]
