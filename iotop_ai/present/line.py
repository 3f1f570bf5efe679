"""A line of the screen as spans of (text, token): what views paint and tests compare."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Text in one token (a name of the look, e.g. "dim", "bad", "strong"; see tui/theme.py)."""

    text: str
    token: str = "text"


class Line(NamedTuple):
    """One row. background: "" or "sel", "panel", "tint-bad", "tint-warn". key: what a click on the row means."""

    spans: tuple[Span, ...]
    background: str = ""
    key: str = ""

    @property
    def text(self) -> str:
        """The row's characters without their looks."""
        return "".join(span.text for span in self.spans)


class Cell(NamedTuple):
    """Text placed at a column: its first, or with ``right`` its last (inclusive)."""

    column: int
    text: str
    token: str = "text"
    right: bool = False


def place(width: int, *cells: Cell, background: str = "", key: str = "") -> Line:
    """A line of exactly ``width`` columns; a cell that would overlap the one before starts after it and is cut."""
    spans: list[Span] = []
    x = 0
    starts = sorted(((c.column - len(c.text) + 1 if c.right else c.column), c) for c in cells if c.text)
    for start, cell in starts:
        text = cell.text
        if start < x:
            text, start = text[x - start :], x
        if start >= width or not text:
            continue
        if start > x:
            spans.append(Span(" " * (start - x)))
        text = text[: width - start]
        spans.append(Span(text, cell.token))
        x = start + len(text)
    if x < width:
        spans.append(Span(" " * (width - x)))
    return Line(tuple(spans), background, key)
