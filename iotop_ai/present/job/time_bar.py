"""The row below the banner that shows how the verdict's job spent its time during the verdict's window."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import LOST, SHARES, TimeShares
from iotop_ai.model.verdict_class import LOSING, State
from iotop_ai.present.job.current import current_job
from iotop_ai.present.job.time_words import Part, parts_of, time_is_counted, window_shares
from iotop_ai.present.screen.staleness import dimmed, is_silent
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Cell, Line, Span, cut, place, row, spans_cells
from iotop_ai.present.text.panel import panel

_WORDS_AT = (10, 30)
"""The columns in which the words of the two largest shares begin. They are fixed, so that the bar does not move."""
_MARGIN = 0.1
"""Unexplained time is named before computing only if its share is larger by at least this much. Without the margin, two
similar shares would change places from second to second.
"""
_BAR_AT = 50
"""The column in which the bar begins."""
_LEAST_BAR = 8
"""The minimum number of columns of a bar."""
_STEPS_FROM = 100
_STEPS_CELLS = 14
"""_STEPS_FROM: the minimum width of a screen that shows the job's steps on the right. _STEPS_CELLS: the width of that
field.
"""
_BAR_WORDS = {"data_disk": "disk", "data_network": "network", "data_cpu": "CPU", "data_other": "other"}
"""The words in the bar for the shares whose own names are longer."""
LETTERS = {
    "compute": "c", "collective": "l", "transfer": "t", "data_disk": "d", "data_network": "n", "data_cpu": "u",
    "data_other": "o", "host": "h", "checkpoint": "k", "startup": "s", "compile": "m", "stopped": "p", "hung": "g",
    "unexplained": "?",
}  # fmt: skip
"""The letter of each share, shown where the share's part of the bar has no room for its word. No two letters
are equal.
"""
_GLYPHS = {"compute": "─", "unexplained": "╌"}
"""The characters of the bar for the shares that are not lost time. As in the timeline, lost time has a heavier line,
so that it stands out without colours.
"""


@panel
def time_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The two largest shares in words, and a bar of all shares; [] if the job's time is not counted."""
    if not time_is_counted(frame):
        return []
    shares = window_shares(frame)
    if shares is None:
        line = place(width, Cell(1, "time", "dim"), Cell(_WORDS_AT[0], "measuring", "dim"))
    else:
        line = _line(frame, shares, width)
    return [dimmed(line, width) if is_silent(view) else line]


def _line(frame: Frame, shares: TimeShares, width: int) -> Line:
    out: list[Span] = [Span(" time", "dim")]
    values = shares[:-1]  # without whole_ms
    for column, part in zip(_WORDS_AT, _display_order(parts_of(values)), strict=False):
        out.append(Span(" " * (column - spans_cells(out))))
        out += [Span(f"{part.name} ", "dim"), Span(part.figure, "strong" if column == _WORDS_AT[0] else "text")]
        out.append(Span(" %", "dim"))
    steps = _steps(frame) if width >= _STEPS_FROM else ""
    room = width - 1 - _BAR_AT - (_STEPS_CELLS + 1 if steps else 0)
    if room >= _LEAST_BAR:
        out += [Span(" " * (_BAR_AT - spans_cells(out))), *bar_spans(values, room, frame.verdict.state)]
    if steps:
        out.append(Span(f" {cut(steps, _STEPS_CELLS):>{_STEPS_CELLS}}"))
    return row(width, out)


def _display_order(parts: Sequence[Part]) -> list[Part]:
    """The shares in the order in which the row names them: the largest first, but computing before unexplained time
    unless the latter is clearly larger (_MARGIN).
    """
    out = list(parts)
    positions = {part.share: i for i, part in enumerate(out)}
    compute, unexplained = positions.get("compute"), positions.get("unexplained")
    if compute is None or unexplained is None:
        return out
    if 0 <= out[unexplained].value - out[compute].value < _MARGIN:
        out.insert(unexplained, out.pop(compute))
    return out


def _steps(frame: Frame) -> str:
    """The rate of steps of the verdict's job; "" if it does not report steps."""
    job = current_job(frame) if frame.snapshot.steps.value else None
    if job is None:
        return ""
    # imported here because it is not needed at start-up
    from iotop_ai.present.job.steps import steps_rate

    return steps_rate(frame, job)


def bar_spans(values: Sequence[float], room: int, state: State) -> list[Span]:
    """The shares, in their fixed order, as a bar of ``room`` columns; each is named if the name fits.

    Computing has the colour of the state OK. The largest loss has the colour of the verdict's state if that state loses
    time.
    """
    total = sum(values)
    if not total or room <= 0:
        return []
    largest = largest_loss(values)
    out: list[Span] = []
    cumulative, begin = 0.0, 0
    for name, value in zip(SHARES, values, strict=True):
        # Each part ends at its share of the total, so that rounding errors do not add up.
        cumulative += value
        end = round(cumulative / total * room)
        out += _part_spans(name, end - begin, share_token(name, name == largest, state))
        begin = end
    return out


def largest_loss(values: Sequence[float]) -> str:
    """The name of the largest share that counts as lost for a known reason. values: the shares in the order
    of SHARES.
    """
    return max(LOST, key=lambda name: values[SHARES.index(name)])


def share_token(share: str, is_largest_loss: bool, state: State) -> str:
    """The colour of a share. state: the state of the job's verdict."""
    if share == "compute":
        return "ok"
    if share == "unexplained":
        return "dim"
    if not is_largest_loss or state not in LOSING:
        return "graph"
    return "warn" if state is State.SLOWED else "hot"


def _part_spans(share: str, size: int, token: str) -> list[Span]:
    glyph, word = _GLYPHS.get(share, "━"), f" {_BAR_WORDS.get(share, share)} "
    if size < len(word) + 2:
        word = LETTERS[share]
    if size < len(word) + 2:
        return [Span(glyph * size, token)] if size else []
    before = (size - len(word)) // 2
    return [Span(glyph * before, token), Span(word), Span(glyph * (size - before - len(word)), token)]
