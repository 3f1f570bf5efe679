"""A row of the screen as Spans, which are (text, token) pairs, and the functions that build and cut rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from unicodedata import category, east_asian_width, normalize

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern

ELLIPSIS = "…"
DISK_PREFIX = "disk:"
"""The key of a disk's row is this prefix and the disk's kernel name."""
_INVISIBLE = frozenset(chr(c) for c in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), 0x200D, 0x034F))
"""Variation selectors and joiners, which are removed: terminals disagree about the width of the text that
they change.
"""


_ONE_CELL = pattern(
    "[\x20-\x7e\xa0-\xac\xae-\xff\u2010-\u2027\u203a\u2190-\u21ff\u2264\u2265\u2500-\u25fc\u2800-\u28ff]*"
).fullmatch
"""Matches text whose characters all take one column on every terminal. It is faster than a test of each character."""


class Span(NamedTuple):
    """Text with one token, which sets its style: "dim", "bad", "strong" (see present/text/theme.py)."""

    text: str
    token: str = "text"


class Line(NamedTuple):
    """One row of the screen. background: "", "sel" for a selected row, or "panel" for a row of a dialog. key: the
    id of what a click on the row selects, such as "disk:sda"; "" for nothing.
    """

    spans: tuple[Span, ...]
    background: str = ""
    key: str = ""

    @property
    def text(self) -> str:
        """The text of the row without tokens."""
        return "".join(span.text for span in self.spans)


_new = tuple.__new__
"""Builds a Span in a third of the time that its constructor takes; a screen has about five hundred Spans."""


class Cell(NamedTuple):
    """Text at a column; it may take several columns.

    column: the column of the text's first character, or of its last if ``right``.
    """

    column: int
    text: str
    token: str = "text"
    right: bool = False


@lru_cache(maxsize=4096)
def _cells_of_wide_text(text: str) -> int:
    return sum(char_cells(c) for c in text)


@lru_cache(maxsize=2048)
def char_cells(char: str) -> int:
    """The number of columns that a character takes on a terminal: 0, 1 or 2."""
    if category(char) in ("Mn", "Me", "Cf") or 0x1160 <= ord(char) <= 0x11FF:
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def cells(text: str) -> int:
    """The number of columns, that is, of a terminal's cells, that the text takes."""
    return len(text) if text.isascii() or _ONE_CELL(text) else _cells_of_wide_text(text)


def is_single_width(text: str) -> bool:
    """Whether each character takes one column."""
    return text.isascii() or _ONE_CELL(text) is not None or all(char_cells(c) == 1 for c in text)


def plain(text: str) -> str:
    """Text from outside, made safe for a cell: with composed characters (NFC), and without those whose width depends on
    the terminal.
    """
    if text.isascii():
        return text
    return "".join(c for c in normalize("NFC", text) if c not in _INVISIBLE)


def cut(text: str, width: int, mark: str = ELLIPSIS) -> str:
    """The text in at most ``width`` columns; shortened text ends in ``mark``. "" if not even the mark fits."""
    text = plain(text)
    if cells(text) <= width:
        return text
    if width < cells(mark):
        return ""
    return head_of(text, width - cells(mark)) + mark


def cut_middle(text: str, width: int, tail: int = 0) -> str:
    """The text in at most ``width`` columns. If it is longer, it is cut in its middle, because a message often ends
    with its reason.

    tail: the number of columns at the end of the text that are kept if they fit.
    """
    text = plain(text)
    if cells(text) <= width:
        return text
    rest = width - cells(ELLIPSIS)
    head = head_of(text, min(rest // 2, rest - tail) if tail < rest else rest // 2)
    room = width - cells(ELLIPSIS) - cells(head)
    if room < 1:
        return cut(text, width)
    start = max(0, len(text) - room)
    while cells(text[start:]) > room:
        start += 1
    return head + ELLIPSIS + text[start:]


def head_of(text: str, width: int) -> str:
    """The first characters of the text that fit in ``width`` columns."""
    if text.isascii() or _ONE_CELL(text):
        return text[: max(0, width)]
    x = 0
    for i, char in enumerate(text):
        x += char_cells(char)
        if x > width:
            return text[:i]
    return text


def spans_cells(spans: Iterable[Span]) -> int:
    """The number of columns that the spans take together."""
    return cells("".join([span.text for span in spans]))


def cut_spans(spans: Iterable[Span], width: int) -> list[Span]:
    """The spans in at most ``width`` columns: the first span that does not fit is cut and ends in an ellipsis, and the
    spans after it are dropped.
    """
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


def place(width: int, *row_cells: Cell, background: str = "", key: str = "") -> Line:
    """The cells as a line of exactly ``width`` columns. A cell that would overlap its left neighbour starts after the
    neighbour and loses its first columns.

    A gap belongs to the span on its left if ``stretches`` allows it, so that a row has few spans.
    """
    return _place(width, row_cells, background, key)


@lru_cache(maxsize=512)
def _place(width: int, row_cells: tuple[Cell, ...], background: str, key: str) -> Line:
    """``place``, cached because most rows do not change from Frame to Frame."""
    placed_texts = []
    for column, text, token, right in row_cells:
        if text:
            text_width = len(text) if text.isascii() else cells(text)
            placed_texts.append((column - text_width + 1 if right else column, text, token, text_width))
    placed_texts.sort(key=_column_of)
    spans: list[Span] = []
    pending, pending_token = "", ""
    x = 0
    for start, text, token, text_width in placed_texts:
        if start < x:
            text = _tail(text, x - start)
            start, text_width = x, cells(text)
        if start >= width or not text:
            continue
        if start > x:
            blanks = " " * (start - x)
            if not pending:
                pending, pending_token = blanks, "text"
            elif stretches(pending_token):
                pending += blanks
            else:
                spans.append(_new(Span, (pending, pending_token)))
                pending, pending_token = blanks, "text"
        if text_width > width - start:
            text = head_of(text, width - start)
            text_width = cells(text)
        if pending_token == token and pending:
            pending += text
        else:
            if pending:
                spans.append(_new(Span, (pending, pending_token)))
            pending, pending_token = text, token
        x = start + text_width
    if pending:
        spans.append(_new(Span, (pending, pending_token)))
    if x < width:
        _add_gap(spans, x, width)
    return Line(tuple(spans), background, key)


_column_of = itemgetter(0)
_NO_GAP = ("block-", "tint-", "graph", "hot", "cursor", "bad")
"""The beginnings of the tokens for which ``stretches`` is False."""


@lru_cache(maxsize=256)
def stretches(token: str) -> bool:
    """Whether the blanks after a span may belong to the span. Blanks do not belong to a block, a graph or an
    underlined word, because its colour or underline would continue.
    """
    return not token.startswith(_NO_GAP)


def _add_gap(spans: list[Span], x: int, end: int) -> None:
    """Fill the columns from ``x`` to ``end`` - 1 with blanks, in the last span if ``stretches`` allows that."""
    blanks = " " * (end - x)
    if spans and stretches(spans[-1].token):
        text, token = spans[-1]
        spans[-1] = Span(text + blanks, token)
    else:
        spans.append(Span(blanks))


def _tail(text: str, skip: int) -> str:
    """The text without its first ``skip`` columns. If they end inside a wide character, a blank replaces its second
    half.
    """
    if text.isascii() or _ONE_CELL(text):
        return text[max(0, skip) :]
    x = 0
    for i, char in enumerate(text):
        if x >= skip:
            return " " * (x - skip) + text[i:]
        x += char_cells(char)
    return ""


def row(width: int, left: Iterable[Span], right: Iterable[Span] = (), key: str = "", background: str = "") -> Line:
    """A line of exactly ``width`` columns: ``left`` starts in column 0 and ``right`` ends in the last. If they do not
    fit, ``left`` is cut first.
    """
    return _row(width, tuple(left), tuple(right), key, background)


@lru_cache(maxsize=512)
def _row(width: int, left: tuple[Span, ...], right: tuple[Span, ...], key: str, background: str) -> Line:
    end = cut_spans(right, width)
    room = width - spans_cells(end)
    start = cut_spans(left, room - (1 if end else 0))
    gap = room - spans_cells(start)
    if gap:
        _add_gap(start, 0, gap)
    return Line((*start, *end), background, key)


def fill_rows(lines: Sequence[Line], width: int, height: int) -> list[Line]:
    """The lines as exactly ``height`` rows: cut, or padded with blank rows."""
    height = max(0, height)
    return [*lines[:height], *[blank(width)] * (height - len(lines))]


def stack_sections(parts: Iterable[list[Line]], width: int, *, spread: bool) -> list[Line]:
    """The sections, one below the other. spread: whether a blank row separates them."""
    out: list[Line] = []
    for part in parts:
        if part and out and spread:
            out.append(blank(width))
        out += part
    return out


@lru_cache(maxsize=8)
def blank(width: int) -> Line:
    """A blank row."""
    return Line((Span(" " * width),))
