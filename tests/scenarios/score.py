"""Scores a run: compares the verdicts of its ticks with its label and with the trainer's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

WINDOW_S = 10.0
SETTLED_S = 15.0
"""The seconds after a start that are not scored, because a job fills its queues then."""

Row = Mapping[str, Any]
"""One tick, in the form in which watch.py prints it."""


class Score(NamedTuple):
    """The score of one run.

    The scored ticks are those after the class's window and SETTLED_S. got: the class that came first most often in
    them. top3: whether ``got`` is the label, or the label was among the first three classes in at least half of them.
    late_s: the seconds from the beginning of the scored ticks to the first one with the right class; None without one.
    right: the share of the scored ticks in which the right class came first. flaps: the number of changes of the first
    class after the first right tick, in ``watched_s`` seconds. errors: for each tick, the error of the share of time
    lost, against the trainer's log. alarms: the number of ticks that raise a false alarm, of ``decided`` ticks.
    """

    got: str
    top3: bool
    late_s: float | None
    right: float
    flaps: int
    watched_s: float
    errors: tuple[float, ...]
    alarms: int
    decided: int


def true_stall(steps: Sequence[Mapping[str, float]], end: float, seconds: float = WINDOW_S) -> float | None:
    """Return the share of the window in which the trainer waited for data; None if its log does not cover it."""
    start = end - seconds
    if not steps or steps[0]["at"] > start or steps[-1]["at"] < end - 3:
        return None
    lost = sum(max(0.0, min(end, s["at"]) - max(start, s["at"] - s["wait"])) for s in steps)
    return lost / seconds


def score(
    label: str, rows: Sequence[Row], *, window_s: float = WINDOW_S, started: float = 0.0, also: Sequence[str] = ()
) -> Score:
    """Compare the rows with the label. started: the monotonic second at which the trainer was started."""
    due = max(rows[0]["at"] + window_s, started + SETTLED_S) if rows else 0.0
    decided = [row for row in rows if not row["measuring"] and row["classes"]]
    scored = [row for row in decided if row["at"] >= due] or decided
    firsts = [row["classes"][0] for row in scored]
    first_right = next((i for i, row in enumerate(decided) if row["classes"][0] == label), None)
    later = [] if first_right is None else decided[first_right:]
    near = [label in row["classes"][:3] for row in scored]
    got = max(dict.fromkeys(firsts), key=firsts.count) if firsts else ""
    acceptable = {label, *also}
    return Score(
        got=got,
        top3=got == label or (bool(near) and sum(near) * 2 >= len(near)),
        late_s=None if first_right is None else max(0.0, decided[first_right]["at"] - due),
        right=firsts.count(label) / len(firsts) if firsts else 0.0,
        flaps=sum(a["classes"][0] != b["classes"][0] for a, b in pairwise(later)),
        watched_s=later[-1]["at"] - later[0]["at"] if len(later) > 1 else 0.0,
        errors=tuple(
            row["stall"] - row["truth"] for row in decided if row["stall"] is not None and row["truth"] is not None
        ),
        alarms=sum(bool(row["alarm"]) and row["classes"][0] not in acceptable for row in decided),
        decided=len(decided),
    )
