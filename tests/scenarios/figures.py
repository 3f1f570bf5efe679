"""The figures of many runs: how often, how soon and how steadily the verdict is right, and how near to the truth."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.scenarios.plan import BACKGROUND, HELD_OUT
from tests.scenarios.score import Score, score

Record = dict[str, Any]
NEAR, NEAR_BACKGROUND = 0.10, 0.15


class Scored(NamedTuple):
    """A run and its score."""

    record: Record
    score: Score

    @property
    def label(self) -> str:
        """The right class."""
        return str(self.record["label"])

    @property
    def right(self) -> bool:
        """Whether the class that was named most often is the right one."""
        return self.score.got == self.label


def scored(records: Sequence[Record]) -> list[Scored]:
    """Return every run that has rows, with its score."""
    return [
        Scored(r, score(r["label"], r["rows"], window_s=r["window_s"], started=r["started"], also=r["also"]))
        for r in records
        if "rows" in r
    ]


class Figures(NamedTuple):
    """The figures of a set of runs. Ratios are from 0 to 1. A figure is None if no run has data for it.

    false_alarms: the share of the negatives' ticks that raise an alarm about another class. late_s: the median delay in
    seconds, of the runs that were right at some time. near: the share of windows whose share of time lost is within
    0.10 of the trainer's log, or within 0.15 beside a busy core.
    """

    runs: int
    top1: float | None
    top3: float | None
    false_alarms: float | None
    late_s: float | None
    flaps_per_minute: float | None
    near: float | None
    windows: int


def figures(runs: Sequence[Scored]) -> Figures:
    """Return the figures of these runs."""
    negatives = [r for r in runs if r.record["negative"]]
    ticks = sum(r.score.decided for r in negatives)
    late = [r.score.late_s for r in runs if r.score.late_s is not None]
    watched = sum(r.score.watched_s for r in runs)
    near = [
        abs(error) <= (NEAR_BACKGROUND if r.record["kind"] == BACKGROUND else NEAR)
        for r in runs
        for error in r.score.errors
    ]
    return Figures(
        len(runs),
        _share(runs, lambda r: r.right),
        _share(runs, lambda r: r.score.top3),
        sum(r.score.alarms for r in negatives) / ticks if ticks else None,
        statistics.median(late) if late else None,
        60 * sum(r.score.flaps for r in runs) / watched if watched else None,
        sum(near) / len(near) if near else None,
        len(near),
    )


def _share(runs: Sequence[Scored], holds: Callable[[Scored], bool]) -> float | None:
    return sum(holds(r) for r in runs) / len(runs) if runs else None


def tuned_and_held_out(runs: Sequence[Scored]) -> tuple[list[Scored], list[Scored]]:
    """Return the runs that were used for tuning, and the runs with held-out parameters."""
    return (
        [r for r in runs if r.record["kind"] != HELD_OUT],
        [r for r in runs if r.record["kind"] == HELD_OUT],
    )


def confusion(runs: Sequence[Scored]) -> dict[str, Counter[str]]:
    """Return for each label how often each class was named."""
    out: dict[str, Counter[str]] = {}
    for run in sorted(runs, key=lambda r: r.label):
        out.setdefault(run.label, Counter())[run.score.got or "nothing"] += 1
    return out
