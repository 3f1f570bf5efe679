"""Groups the rows of an nvidia-smi log into rounds. A round is the result of one query: a row for each GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from statistics import median
from typing import NamedTuple

from iotop_ai.model.errors import InputError
from iotop_ai.model.gpu.state import GpuState

_SAMPLED_ROWS = 4096
_MS = 1_000_000
_FACTOR = 3
"""The time between two queries is at least this multiple of the time between two rows of the same query."""
_QUERY_NS = 500 * _MS
"""The usual limit, in ns, of the time between two rows of one query. A longer time needs more rounds as evidence."""
_SHORTEST_LOOP_NS = 100 * _MS
"""Rows that are closer together than this, in ns, may belong to different GPUs of one query."""
_MOST_PAUSES = 0.05
"""A log may be that of a single GPU if at most this share of the gaps between its rows is unusually long."""


class Row(NamedTuple):
    """The values of one GPU at one time.

    identity: the name of the GPU; "" in a log without a column that identifies GPUs
    logged_ns: the time of the row; None in a log without a timestamp column
    lost: why the GPU gives no values; "" if it does
    follows_header: whether a header is directly above the row
    """

    identity: str
    logged_ns: int | None
    state: GpuState
    lost: str
    follows_header: bool = False


class _Spacing(NamedTuple):
    """How to separate the rounds of a log.

    gpu_count: the number of rows in a round; 0 if it is not known yet
    limit_ns: the longest time between two rows of a round
    """

    gpu_count: int
    limit_ns: int


def rounds(path: str, rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each query. Raises InputError if it is not clear which GPU each row belongs to."""
    sample = list(islice(rows, _SAMPLED_ROWS))
    rows = chain(sample, rows)
    if not sample or sample[0].identity:
        yield from _rounds_by_identity(rows, _positions_in_query(sample))
        return
    spacing = _find_spacing(sample)
    if spacing is None:
        raise InputError(_unclear_message(path))
    for number, (may_be_incomplete, group) in enumerate(_rounds_by_time(rows, spacing), 1):
        if len(group) > spacing.gpu_count or (len(group) < spacing.gpu_count and not may_be_incomplete):
            raise InputError(f"{_unclear_message(path)} (round {number})")
        yield [_with_number(row, position, spacing.gpu_count) for position, row in enumerate(group)]


def _unclear_message(path: str) -> str:
    return f"{path}: it does not show which GPU a row belongs to; log with index or uuid"


def _rounds_by_identity(rows: Iterator[Row], positions: dict[str, int]) -> Iterator[list[Row]]:
    """Split the rows into rounds.

    A GPU that occurs again begins the next round. So does a GPU that a query lists before the GPU of the previous row,
    because rows of a query may be missing.

    positions: by GPU, its position in a query; a GPU that is not in it may be anywhere
    """
    rows_by_gpu: dict[str, Row] = {}
    last = -1
    for row in rows:
        position = positions.get(row.identity)
        if row.identity in rows_by_gpu or (position is not None and position < last):
            yield list(rows_by_gpu.values())
            rows_by_gpu, last = {}, -1
        rows_by_gpu[row.identity] = row
        last = last if position is None else position
    if rows_by_gpu:
        yield list(rows_by_gpu.values())


def _positions_in_query(sample: list[Row]) -> dict[str, int]:
    """Return each GPU's position in a query.

    The positions are those in the longest part of the sample that has no pause and no GPU twice. A pause is longer
    than half the usual time between two rows of one GPU, so it separates two queries.
    """
    times_ns: dict[str, list[int]] = {}
    for row in sample:
        times_ns.setdefault(row.identity, []).append(row.logged_ns or 0)
    intervals_ns = [later - earlier for times in times_ns.values() for earlier, later in pairwise(times)]
    limit_ns = median(intervals_ns) / 2 if intervals_ns else math.inf
    parts: list[list[str]] = [[]]
    for before, row in pairwise([*sample[:1], *sample]):
        gap_ns = _gap_ns(before, row)
        if gap_ns is None or gap_ns > limit_ns or row.identity in parts[-1]:
            parts.append([])
        parts[-1].append(row.identity)
    longest: list[str] = max(parts, key=len)
    return {identity: position for position, identity in enumerate(longest)}


def _rounds_by_time(rows: Iterator[Row], spacing: _Spacing) -> Iterator[tuple[bool, list[Row]]]:
    """Split the rows into rounds, where the time between two rows exceeds the limit.

    Yields (whether the round may be incomplete, its rows). A round may be incomplete at the end of a log, or where
    another log begins or the clock was set back. The iterator ends early with a round that has more rows than
    ``spacing.gpu_count``, unless that number is 0 (unknown).
    """
    group: list[Row] = []
    for row in rows:
        if group:
            gap_ns = _gap_ns(group[-1], row)
            if gap_ns is None or not 0 <= gap_ns <= spacing.limit_ns:
                yield gap_ns is None or gap_ns < 0, group
                group = []
        group.append(row)
        if 0 < spacing.gpu_count < len(group):
            yield False, group
            return
    if group:
        yield True, group


def _gap_ns(before: Row, row: Row) -> int | None:
    """Return the time between two rows in ns; None if another log begins between them."""
    return None if row.follows_header else (row.logged_ns or 0) - (before.logged_ns or 0)


def _find_spacing(sample: list[Row]) -> _Spacing | None:
    """Find out how to separate the rounds of a log that does not identify the GPUs; None if that is impossible."""
    if any(row.logged_ns is None for row in sample):
        return None
    all_gaps = (_gap_ns(*pair) for pair in pairwise(sample))
    # A gap of 0 counts as 1 ms, so that the ratio of two gaps is finite.
    gaps_ns = sorted(max(gap, _MS) for gap in all_gaps if gap is not None and gap >= 0)
    wide_steps = [(high / low, low, high) for low, high in pairwise(gaps_ns) if high >= _FACTOR * low]
    # The greatest step from one gap to the next longer one probably separates the rounds, so it is tried first.
    for _, low, high in sorted(wide_steps, reverse=True):
        limit_ns = math.isqrt(low * high)
        # To split the rows, only the limit is needed; the split then shows the number of GPUs.
        split = _rounds_by_time(iter(sample), _Spacing(0, limit_ns))
        counts = {len(group) for may_be_incomplete, group in split if not may_be_incomplete}
        rounds_seen = sum(gap > limit_ns for gap in gaps_ns)
        if len(counts) == 1 and rounds_seen >= (1 if low <= _QUERY_NS else 3):
            return _Spacing(counts.pop(), limit_ns)
    if not gaps_ns:
        return _Spacing(1, 0)
    pauses = sum(gap > _FACTOR * gaps_ns[len(gaps_ns) // 2] for gap in gaps_ns)
    if gaps_ns[0] >= _SHORTEST_LOOP_NS and pauses <= max(1, _MOST_PAUSES * len(gaps_ns)):
        return _Spacing(1, 0)
    return None


def _with_number(row: Row, position: int, gpu_count: int) -> Row:
    """Return the row with its position in the round as the name of its GPU."""
    identity = "GPU" if gpu_count == 1 else f"GPU {position}"
    return row._replace(identity=identity, state=row.state._replace(uuid=identity, number=position))
