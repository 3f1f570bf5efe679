"""Groups the rows of an nvidia-smi log into rounds. A round is the result of one query: a row for each GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from typing import NamedTuple

from iotop_ai.model.errors import InputError
from iotop_ai.model.gpu.state import GpuState

_SAMPLED_ROWS = 4096
_MS = 1_000_000
_FACTOR = 3
"""Two queries are at least this many times as far apart as two rows of the same query."""
_QUERY_NS = 500 * _MS
"""The usual limit, in ns, of the time between two rows of one query. A longer time needs more rounds as evidence."""
_SHORTEST_LOOP_NS = 100 * _MS
"""Rows that are closer together than this, in ns, may belong to different GPUs of one query."""
_MOST_PAUSES = 0.05


class Row(NamedTuple):
    """The values of one GPU at one time.

    identity: the name of the GPU; "" in a log without a column that identifies GPUs
    logged_ns: the time of the row; None in a log without a timestamp column
    lost: why the GPU gives no values; "" if it does
    begins: whether a header is directly above the row
    """

    identity: str
    logged_ns: int | None
    state: GpuState
    lost: str
    begins: bool = False


class _Spacing(NamedTuple):
    """How to separate the rounds of a log.

    gpus: the number of rows in a round
    limit_ns: the longest time between two rows of a round
    """

    gpus: int
    limit_ns: int


def rounds(path: str, rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each query. Raises InputError if it is not clear which GPU each row belongs to."""
    sample = list(islice(rows, _SAMPLED_ROWS))
    rows = chain(sample, rows)
    if not sample or sample[0].identity:
        yield from _named(rows)
        return
    spacing = _spacing(sample)
    if spacing is None:
        raise InputError(_unclear(path))
    for number, found in enumerate(_spaced(rows, spacing), 1):
        last, whole = found
        if len(whole) > spacing.gpus or (len(whole) < spacing.gpus and not last):
            raise InputError(f"{_unclear(path)} (round {number})")
        yield [_numbered(row, place, spacing.gpus) for place, row in enumerate(whole)]


def _unclear(path: str) -> str:
    return f"{path}: it does not show which GPU a row belongs to; log with index or uuid"


def _named(rows: Iterator[Row]) -> Iterator[list[Row]]:
    rows_by_gpu: dict[str, Row] = {}
    for row in rows:
        if row.identity in rows_by_gpu:
            yield list(rows_by_gpu.values())
            rows_by_gpu = {}
        rows_by_gpu[row.identity] = row
    if rows_by_gpu:
        yield list(rows_by_gpu.values())


def _spaced(rows: Iterator[Row], spacing: _Spacing) -> Iterator[tuple[bool, list[Row]]]:
    """Split the rows where the time between them exceeds the limit. Yield (whether it may be incomplete, its rows).

    A round may be incomplete at the end of a log, or where another log begins or the clock was set back.
    """
    found: list[Row] = []
    for row in rows:
        if found:
            step = _step(found[-1], row)
            if step is None or not 0 <= step <= spacing.limit_ns:
                yield step is None or step < 0, found
                found = []
        found.append(row)
    if found:
        yield True, found


def _step(before: Row, row: Row) -> int | None:
    """Return the time between two rows in ns; None if another log begins between them."""
    return None if row.begins else (row.logged_ns or 0) - (before.logged_ns or 0)


def _spacing(sample: list[Row]) -> _Spacing | None:
    """Find out how to separate the rounds of a log that does not identify the GPUs; None if that is impossible."""
    if any(row.logged_ns is None for row in sample):
        return None
    found = (_step(*pair) for pair in pairwise(sample))
    steps = sorted(max(step, _MS) for step in found if step is not None and step >= 0)
    wide = [(high / low, low, high) for low, high in pairwise(steps) if high >= _FACTOR * low]
    for _, low, high in sorted(wide, reverse=True):
        limit_ns = math.isqrt(low * high)
        counts = {len(whole) for last, whole in _spaced(iter(sample), _Spacing(0, limit_ns)) if not last}
        rounds_seen = sum(step > limit_ns for step in steps)
        if len(counts) == 1 and rounds_seen >= (1 if low <= _QUERY_NS else 3):
            return _Spacing(counts.pop(), limit_ns)
    if not steps:
        return _Spacing(1, 0)
    pauses = sum(step > _FACTOR * steps[len(steps) // 2] for step in steps)
    if steps[0] >= _SHORTEST_LOOP_NS and pauses <= max(1, _MOST_PAUSES * len(steps)):
        return _Spacing(1, 0)
    return None


def _numbered(row: Row, place: int, gpus: int) -> Row:
    """Return the row with its position in the round as the name of its GPU."""
    identity = "GPU" if gpus == 1 else f"GPU {place}"
    return row._replace(identity=identity, state=row.state._replace(uuid=identity, number=place))
