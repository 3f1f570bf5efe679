"""The layout of tables: which columns fit, where they are placed, and the rule (the line above) with their titles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.text.line import Cell, Line, Span, cells, cut, cut_spans, place, spans_cells, stretches
from iotop_ai.present.text.units import token_of

_new = tuple.__new__  # faster than the constructor, see present/text/line.py


class Column(NamedTuple):
    """A column of a table.

    width: the columns of the screen that it takes, including the gap before its text. drop: when the table is too wide,
    the columns with the largest number are dropped together, then the columns with the next smaller number; 0 is never
    dropped. wide: the width if there is room; 0 for the normal width. left: whether its text is aligned to the left.
    gap: the minimum number of blanks before its text.
    """

    id: str
    title: str
    width: int
    drop: int = 0
    wide: int = 0
    left: bool = False
    gap: int = 1


class ColumnSlot(NamedTuple):
    """A column placed in the table. first, last: the first and the last column of the screen for its text."""

    column: Column
    first: int
    last: int

    def cell(self, text: str, token: str = "") -> Cell:
        """The text as a cell of this column. token: "" for the token that ``token_of`` gives the text."""
        first, last = self.first, self.last
        if len(text) > last - first + 1 or not text.isascii():
            text = cut(text, last - first + 1)
        left = self.column.left
        return _new(Cell, (first if left else last, text, token or token_of(text), not left))


def fit_columns(columns: Sequence[Column], room: int) -> list[Column]:
    """The columns that are kept. Those with the largest ``drop`` number are dropped first, until all fit ``room``."""
    return list(_fit_columns(tuple(columns), room))


@lru_cache(maxsize=32)
def _fit_columns(columns: tuple[Column, ...], room: int) -> list[Column]:
    """``fit_columns``, cached while the window keeps its width."""
    kept = list(columns)
    while sum(c.width for c in kept) > room:
        highest = max((c.drop for c in kept), default=0)
        if highest == 0:
            break
        kept = [c for c in kept if c.drop != highest]
    return kept


def place_columns(columns: Sequence[Column], start: int, width: int) -> list[ColumnSlot]:
    """The columns placed side by side from ``start`` on, each widened up to ``wide`` while there is room. A last column
    that is aligned to the left takes the remaining room.
    """
    return list(_place_columns(tuple(columns), start, width))


@lru_cache(maxsize=32)
def _place_columns(columns: tuple[Column, ...], start: int, width: int) -> list[ColumnSlot]:
    """``place_columns``, cached while the window keeps its width."""
    spare = width - start - sum(c.width for c in columns)
    out, x = [], start
    for i, column in enumerate(columns):
        more = max(0, min(spare, column.wide - column.width))
        if i == len(columns) - 1 and column.left:
            more = max(0, spare)
        spare -= more
        end = min(width, x + column.width + more)
        out.append(ColumnSlot(column, x + column.gap, end - 1))
        x = end
    return out


CellText = tuple[str, str, str]
"""The content of a cell: its text, the token of that text, and dim text directly after it."""


def layout_row(
    spans: list[Span], x: int, slots: Iterable[ColumnSlot], texts: Iterable[CellText], width: int
) -> tuple[Span, ...]:
    """A row of ``width`` columns of the screen: ``spans``, which take ``x`` of them, then the text of each slot.

    It changes ``spans``. It is about five times as fast as ``place``, because the columns of a table cannot overlap.
    """
    for (column, first, last), (text, token, tail) in zip(slots, texts, strict=True):
        text_width = len(text) + len(tail)
        if text_width > last + 1 - first or not text.isascii():
            text = cut(text, last + 1 - first - len(tail))
            text_width = cells(text) + len(tail)
        if not text_width:
            continue
        blanks = (first if column.left else last + 1 - text_width) - x
        if blanks < 0:  # the window is only a few columns wide
            break
        if stretches(token):
            text = " " * blanks + text
        elif blanks > 0:
            spans.append(Span(" " * blanks))
        spans.append(_new(Span, (text, token)))
        if tail:
            spans.append(_new(Span, (tail, "dim")))
        x += blanks + text_width
    if x < width:
        spans.append(Span(" " * (width - x)))
    return tuple(spans if x <= width else cut_spans(spans, width))


def rule(width: int, title: str, right: Sequence[Span] = (), *, focus: bool = False) -> Line:
    """The rule above a section: ``── title ─────── right ──``."""
    dash, rule_token = ("━", "rule-focus") if focus else ("─", "rule")
    left = [Span(dash * 2 + " ", rule_token), Span(title, "title-focus" if focus else "title")]
    end: list[Span] = []
    if right:
        room = width - spans_cells(left) - 8
        end = [Span(" ", "dim"), *cut_spans(right, room), Span(" ", "dim"), Span(dash * 2, rule_token)]
    used = spans_cells(left) + spans_cells(end)
    return Line(tuple(cut_spans([*left, Span(" " + dash * max(0, width - used - 1), rule_token), *end], width)))


def head(
    width: int,
    title: str,
    columns: Iterable[ColumnSlot],
    *,
    focus: bool = False,
    marked: Iterable[str] = (),
    note: str = "",
) -> Line:
    """The rule above a table, with the titles of the columns in the same row.

    marked: the ids of the columns that the table is sorted by. note: dim text after the title, shown if it fits. The
    table's title is cut where the first column's title begins.
    """
    return _head(width, title, tuple(columns), focus, frozenset(marked), note)


@lru_cache(maxsize=32)
def _head(
    width: int, title: str, columns: tuple[ColumnSlot, ...], focus: bool, marks: frozenset[str], note: str
) -> Line:
    titled = [p for p in columns if p.column.title]
    dash, rule_token = ("━", "rule-focus") if focus else ("─", "rule")
    first = min((_title_start(p) for p in titled), default=width)
    name = cut(title, max(0, first - 4))
    out = [Cell(0, dash * 2 + " ", rule_token), Cell(3, name, "title-focus" if focus else "title")]
    x = 3 + cells(name)
    if note and x + 1 + cells(note) < first - 1:
        out.append(Cell(x + 1, note, "dim"))
        x += 1 + cells(note)
    if first - x > 2:
        out.append(Cell(x, " " + dash * (first - x - 2) + " ", rule_token))
    out += [
        Cell(_title_start(p), p.column.title, "title" if p.column.id in marks else "dim", right=False) for p in titled
    ]
    return place(width, *out)


def note_room(width: int, title: str, columns: Iterable[ColumnSlot]) -> int:
    """The number of columns of the screen that ``head`` has for a note after the title."""
    first = min((_title_start(p) for p in columns if p.column.title), default=width)
    return first - cells(title) - 6


def _title_start(slot: ColumnSlot) -> int:
    """The column of the screen at which the title begins."""
    return slot.first if slot.column.left else slot.last - cells(slot.column.title) + 1
