"""Whether a job makes progress, by the counters of its training processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from iotop_ai.model.job.movement import WINDOW_NS, Movement, Totals
from iotop_ai.model.process.records import ProcessKey

CLK_TCK = 100
WINDOWS = 6


def last_progress_ns(ticks: Sequence[float], bytes_: Sequence[float] = ()) -> int:
    """Return when a job last made progress. ticks, bytes_: what each training process adds to its counters in 10 s."""
    keys = [ProcessKey(50 + number, 1) for number in range(len(ticks))]
    moved = [*bytes_, *[0.0] * (len(ticks) - len(bytes_))]
    movement = Movement(0)
    for window in range(WINDOWS + 1):
        totals = {
            key: Totals(read=0, chars=int(window * count), write=0, ticks=int(window * used))
            for key, used, count in zip(keys, ticks, moved, strict=True)
        }
        movement.update(window * WINDOW_NS, totals, {}, CLK_TCK)
    return movement.at_ns


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_the_idle_threads_of_many_ranks_are_not_progress(ranks: int) -> None:
    assert last_progress_ns([6.0] * ranks) == 0


@pytest.mark.parametrize("rank", [0, 7])
def test_one_rank_that_computes_is_progress(rank: int) -> None:
    ticks = [6.0] * 8
    ticks[rank] = 15.0
    assert last_progress_ns(ticks) == WINDOWS * WINDOW_NS


def test_one_rank_that_reads_is_progress() -> None:
    assert last_progress_ns([6.0, 6.0], [0.0, 400_000.0]) == WINDOWS * WINDOW_NS
    assert last_progress_ns([6.0, 6.0], [200_000.0, 200_000.0]) == 0
