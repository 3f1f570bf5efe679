"""A line of the screen as spans of (text, token): what views paint and tests compare."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple
from unicodedata import category, east_asian_width, normalize

ELLIPSIS = "…"
_INVISIBLE = frozenset(chr(c) for c in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), 0x200D, 0x034F))
"""Variation selectors and joiners: terminals disagree about the width of what they change."""


class Span(NamedTuple):
    """Text in one token (a name of the look, e.g. "dim", "bad", "strong"; see present/theme.py)."""

    text: str
    token: str = "text"


class Line(NamedTuple):
    """One row. background: "" or "sel", "panel". key: what a click on the row means ("disk:sda", "process:812")."""

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


@lru_cache(maxsize=4096)
def _wide_cells(text: str) -> int:
    return sum(char_cells(c) for c in text)


@lru_cache(maxsize=2048)
def char_cells(char: str) -> int:
    """Columns of one character on a terminal: 0, 1 or 2."""
    if category(char) in ("Mn", "Me", "Cf") or 0x1160 <= ord(char) <= 0x11FF:
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def cells(text: str) -> int:
    """Columns that the text takes on a terminal."""
    return len(text) if text.isascii() else _wide_cells(text)


def plain(text: str) -> str:
    """Outside text ready for a cell: composed, without characters whose width terminals disagree about."""
    if text.isascii():
        return text
    return "".join(c for c in normalize("NFC", text) if c not in _INVISIBLE)


def cut(text: str, width: int, mark: str = ELLIPSIS) -> str:
    """The text in at most ``width`` columns, ending in ``mark`` when something was taken away."""
    text = plain(text)
    if cells(text) <= width:
        return text
    if width < cells(mark):
        return ""
    return _head(text, width - cells(mark)) + mark


def _head(text: str, width: int) -> str:
    if text.isascii():
        return text[: max(0, width)]
    x = 0
    for i, char in enumerate(text):
        x += char_cells(char)
        if x > width:
            return text[:i]
    return text


def spans_cells(spans: Iterable[Span]) -> int:
    """Columns of several spans."""
    return sum(cells(span.text) for span in spans)


def cut_spans(spans: Iterable[Span], width: int) -> list[Span]:
    """The spans in at most ``width`` columns; the one that does not fit is cut and marked, the rest dropped."""
    out: list[Span] = []
    room = width
    for span in spans:
        need = cells(span.text)
        if need > room:
            if room > 0:
                out.append(Span(cut(span.text, room), span.token))
            break
        out.append(span)
        room -= need
    return out


def place(width: int, *given: Cell, background: str = "", key: str = "") -> Line:
    """A line of exactly ``width`` columns; a cell that would overlap the one before starts after it and is cut.

    A gap belongs to the span before it, so that a row has few spans.
    """
    spans: list[Span] = []
    x = 0
    for start, text, token in sorted(
        [(c.column - cells(c.text) + 1 if c.right else c.column, c.text, c.token) for c in given if c.text], key=_first
    ):
        if start < x:
            text, start = _tail(text, x - start), x
        if start >= width or not text:
            continue
        if start > x:
            _gap(spans, x, start)
        text = _head(text, width - start)
        if spans and spans[-1].token == token:
            spans[-1] = Span(spans[-1].text + text, token)
        else:
            spans.append(Span(text, token))
        x = start + cells(text)
    if x < width:
        _gap(spans, x, width)
    return Line(tuple(spans), background, key)


_first = itemgetter(0)
_NO_GAP = ("block-", "tint-", "graph", "hot", "cursor", "bad")


def _gap(spans: list[Span], x: int, to: int) -> None:
    blanks = " " * (to - x)
    # A gap after a block, a graph or an underlined word is its own: else it is painted, or stretches the graph.
    if spans and not spans[-1].token.startswith(_NO_GAP):
        spans[-1] = Span(spans[-1].text + blanks, spans[-1].token)
    else:
        spans.append(Span(blanks))


def _tail(text: str, skip: int) -> str:
    """The text without its first ``skip`` columns; a wide character cut in two becomes a blank."""
    if text.isascii():
        return text[max(0, skip) :]
    x = 0
    for i, char in enumerate(text):
        if x >= skip:
            return " " * (x - skip) + text[i:]
        x += char_cells(char)
    return ""


def row(width: int, left: Iterable[Span], right: Iterable[Span] = (), key: str = "", background: str = "") -> Line:
    """A line of exactly ``width`` columns: ``left`` from column 0, ``right`` ending at the last; left gives way."""
    end = cut_spans(right, width)
    room = width - spans_cells(end)
    start = cut_spans(left, room - (1 if end else 0))
    gap = room - spans_cells(start)
    if gap:
        _gap(start, 0, gap)
    return Line((*start, *end), background, key)


def blank(width: int) -> Line:
    """An empty row."""
    return Line((Span(" " * width),))
