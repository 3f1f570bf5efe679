"""The numbers of a job's ranks over all its machines, and their text form, such as "8-15"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from iotop_ai.lazy.regex import pattern
from iotop_ai.model.job.inspection import RankIds
from iotop_ai.model.job.records import Rank
from iotop_ai.model.process.records import ProcessKey

MOST_RANGES = 8
"""The maximum number of ranges in a text; more are not expected, because the ranks of a machine form few."""
_MOST_RANKS = 10**6
_RANGES = pattern(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?){0,7}")


def with_rank_numbers(ranks: Iterable[Rank], ids: Mapping[ProcessKey, RankIds]) -> list[Rank]:
    """The ranks of one job with their numbers. Ranks that share a number get none: they inherited it from a parent."""
    all_ranks = list(ranks)
    if on_one_machine := _numbers_on_one_machine(all_ranks, ids):
        return [rank._replace(number=on_one_machine[rank.key]) for rank in all_ranks]
    count: dict[int, int] = {}
    for rank in all_ranks:
        number = _number(ids[rank.key])
        if number is not None:
            count[number] = count.get(number, 0) + 1
    return [
        rank._replace(number=number) if (number := _number(ids[rank.key])) is not None and count[number] == 1 else rank
        for rank in all_ranks
    ]


def _numbers_on_one_machine(ranks: Sequence[Rank], ids: Mapping[ProcessKey, RankIds]) -> dict[ProcessKey, int]:
    """The numbers of ranks that know only their number on this machine, if all ranks are here; otherwise {}.

    Rank 0 may know none: PyTorch Lightning starts the further ranks from it.
    """
    local = {rank.key: number for rank in ranks if ids[rank.key].local and (number := ids[rank.key].rank) is not None}
    sizes = {ids[key].size for key in local}
    unknown = [rank.key for rank in ranks if ids[rank.key].rank is None]
    if sizes != {len(ranks)} or len(local) + len(unknown) < len(ranks) or len(unknown) > 1:
        return {}
    numbers = local | dict.fromkeys(unknown, 0)
    return numbers if sorted(numbers.values()) == list(range(len(ranks))) else {}


def _number(ids: RankIds) -> int | None:
    return None if ids.local or ids.rank is None or ids.rank >= _MOST_RANKS else ids.rank


def number_ranges(numbers: Iterable[int | None]) -> str:
    """The numbers as text, such as "8-15" or "0,4,8-11"; "" if a number is unknown or there are too many ranges."""
    known_numbers: list[int] = []
    for number in numbers:
        if number is None:
            return ""
        known_numbers.append(number)
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(known_numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    if len(ranges) > MOST_RANGES:
        return ""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def checked_ranges(text: str) -> str:
    """A text from outside if it has the form that ``number_ranges`` writes; otherwise ""."""
    return text if _RANGES.fullmatch(text) else ""
