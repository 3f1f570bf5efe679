"""The states during a span of time as one bar: each run of a state shows the state's name where it fits."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.text.line import Span
from iotop_ai.present.text.states import GLYPHS, HUE
from iotop_ai.present.text.units import duration

MEASURING, GAP = "measuring", ""
"""The states of a Run without a verdict: before the first verdict, and between two verdicts."""


class Run(NamedTuple):
    """A stretch of time in one state."""

    state: str
    seconds: float


def runs_between(states: Sequence[tuple[int, str]], from_ns: int, to_ns: int) -> list[Run]:
    """The runs between two times.

    states: the changes of state as (at_ns, state), the oldest first. The first change is not after ``from_ns``.
    """
    out = []
    for i, (at, word) in enumerate(states):
        end = states[i + 1][0] if i + 1 < len(states) else to_ns
        start, end = max(at, from_ns), min(end, to_ns)
        if end > start:
            out.append(Run(word, (end - start) / 1e9))
    return out


def run_spans(runs: Sequence[Run], width: int) -> list[Span]:
    """The bar, of the characters of GLYPHS, and "·" for no verdict.

    The width of a run is proportional to its duration; a run too short for a cell is left out.
    """
    whole = sum(run.seconds for run in runs)
    if not whole or width <= 0:
        return []
    out: list[Span] = []
    passed, begin = 0.0, 0
    for i, run in enumerate(runs, 1):
        # Each run ends at its share of the total, so that rounding errors do not add up.
        passed += run.seconds
        end = width if i == len(runs) else round(passed / whole * width)
        out += _run(run, end - begin)
        begin = end
    return out


def _run(run: Run, size: int) -> list[Span]:
    if run.state in (MEASURING, GAP):
        glyph, token = "·", "dim"
    else:
        hue = HUE.get(run.state, "bad")
        glyph, token = GLYPHS.get(run.state, "━"), "hot" if hue == "bad" else hue
    word = f" {run.state} {duration(run.seconds)} "
    if size < len(word) + 4 or not run.state:
        return [Span(glyph * size, token)] if size else []
    before = (size - len(word)) // 2
    return [Span(glyph * before, token), Span(word), Span(glyph * (size - before - len(word)), token)]
