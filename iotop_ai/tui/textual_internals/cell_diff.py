"""Rows as cells, and the few bytes that change one row on a terminal into another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress
from operator import itemgetter

from rich.color import ColorSystem
from rich.style import Style

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.present.text.line import Line, is_single_width

_RANGE = pattern(rb"[^\0]+(?:\0{1,4}[^\0]+)*")
"""Matches a range of changed columns. There is one byte for each column; it is 0 if the column is unchanged. Up to
four unchanged columns within the range are sent again, because moving the cursor would take as many bytes.
"""
_FIRST_MARK = 0x21
"""The code of the character that stands for the first style. It is low, because CPython caches only the characters up
to U+00FF.
"""

_text = itemgetter(0)


class Row(NamedTuple):
    """The cells of a row.

    text: one character per column. styles: per column, the character that stands for its style. jagged: whether some
    character is not one column wide, so that columns cannot be compared. text_bits, style_bits: ``text`` and
    ``styles`` as numbers with 16 bits per column, so that one XOR compares them; 0 for a jagged row.
    """

    text: str
    styles: str
    jagged: bool
    text_bits: int = 0
    style_bits: int = 0


class _CellStyle(NamedTuple):
    """A style as SGR parameters. flags: the parameters that switch attributes on. fg, bg: the parameters of the
    colours; "" for the default.
    """

    flags: frozenset[str]
    fg: str
    bg: str


class CellDiff:
    """Compares and paints rows of one theme on one terminal.

    style: returns the Rich style of (token, background). system: the terminal's colour system; None for a terminal
    without colours.
    """

    def __init__(self, style: Callable[[str, str], Style], system: ColorSystem | None) -> None:
        self._style = style
        self._system = system
        self._marks: dict[str, _Marks] = {}
        """The mark of each token, by background. A mark is the character that stands for a style."""
        self._mark_of_style: dict[_CellStyle, str] = {}
        self._cell_styles: list[_CellStyle] = []
        self._on_blank: dict[str, tuple[str, bool, bool]] = {}
        """How a blank looks in each style: (background, underlined, inverse)."""
        self._sequences: dict[str, str] = {}

    def row(self, line: Line) -> Row:
        """The cells of a line."""
        spans, background = line.spans, line.background
        marks = self._marks.get(background)
        if marks is None:
            marks = self._marks[background] = _Marks(self._mark, background)
        text = "".join(map(_text, spans))
        styles = "".join([marks[token] * len(part) for part, token in spans])
        text_bytes = text.encode("utf-16-le", "surrogatepass")
        if len(text_bytes) != 2 * len(text) or not is_single_width(text):
            return Row(text, styles, True)
        style_bytes = styles.encode("utf-16-le", "surrogatepass")
        return Row(text, styles, False, int.from_bytes(text_bytes, "little"), int.from_bytes(style_bytes, "little"))

    def _mark(self, token: str, background: str) -> str:
        """The character that stands for the style of a token. Tokens with the same style share a character."""
        cell_style = _cell_style(self._style(token, background), self._system)
        mark = self._mark_of_style.get(cell_style)
        if mark is None:
            mark = self._mark_of_style[cell_style] = chr(_FIRST_MARK + len(self._cell_styles))
            self._cell_styles.append(cell_style)
            self._on_blank[mark] = (
                (cell_style.fg if "7" in cell_style.flags else cell_style.bg),
                "4" in cell_style.flags,
                "7" in cell_style.flags,
            )
        return mark

    def _sequence(self, before: str, after: str) -> str:
        """The sequence that changes one style into another. before: "" for the terminal's default style."""
        sequence = self._sequences.get(before + after)
        if sequence is not None:
            return sequence
        new = self._cell_styles[ord(after) - _FIRST_MARK]
        old = self._cell_styles[ord(before) - _FIRST_MARK] if before else _CellStyle(frozenset(), "", "")
        codes: list[str] = []
        if not old.flags <= new.flags or (old.fg and not new.fg) or (old.bg and not new.bg):
            codes, old = ["0"], _CellStyle(frozenset(), "", "")
        codes += sorted(new.flags - old.flags)
        codes += [colour for colour, was in ((new.fg, old.fg), (new.bg, old.bg)) if colour != was]
        sequence = self._sequences[before + after] = f"\x1b[{';'.join(codes)}m" if codes else ""
        return sequence

    def changes(self, old: Row, new: Row) -> list[tuple[int, int]]:
        """The ranges of columns [first, end) that differ, from left to right; ranges that are close to each other are
        joined.

        Two blanks differ only if their styles differ on a blank.
        """
        width = len(new.text)
        if old.jagged or new.jagged or len(old.text) != width:
            return [(0, width)]
        differs = _changed_columns(old.text_bits ^ new.text_bits, width)
        if old.style_bits != new.style_bits:
            text, before, after, on_blank = new.text, old.styles, new.styles, self._on_blank
            marked = bytearray(differs)
            for x in compress(range(width), _changed_columns(old.style_bits ^ new.style_bits, width)):
                if text[x] != " " or on_blank[before[x]] != on_blank[after[x]]:
                    marked[x] = 1
            differs = bytes(marked)
        return [match.span() for match in _RANGE.finditer(differs)]

    def paint(self, rows: Iterable[tuple[int, int, Row | None, Row]]) -> str:
        """The text to write for rows of (column, row of the terminal, old cells, new cells).

        Old cells of None are unknown. The terminal has its default style before and after, and lines must not wrap.
        """
        out: list[str] = []
        current = ""
        for left, y, old, new in rows:
            at = -1
            for first, end in self.changes(old, new) if old is not None else [(0, len(new.text))]:
                skip = first - at
                out.append(f"\x1b[{skip}C" if at >= 0 and skip else f"\x1b[{y + 1};{left + first + 1}H")
                at = first
                while at < end:
                    mark = new.styles[at]
                    rest = new.styles[at:end]
                    stop = end - len(rest.lstrip(mark))
                    if mark != current:
                        out.append(self._sequence(current, mark))
                        current = mark
                    out.append(new.text[at:stop])
                    at = stop
        if current:
            out.append("\x1b[0m")
        return "".join(out)


def _changed_columns(difference: int, width: int) -> bytes:
    """For each column, a byte that is not zero if the column differs. difference: the XOR of two rows, 16 bits a
    column.
    """
    return (difference | difference >> 8).to_bytes(2 * width, "little")[::2]


class _Marks(dict[str, str]):
    """The mark of each token on one background."""

    def __init__(self, make: Callable[[str, str], str], background: str) -> None:
        super().__init__()
        self._make = make
        self._background = background

    def __missing__(self, token: str) -> str:
        mark = self[token] = self._make(token, self._background)
        return mark


def _cell_style(style: Style, system: ColorSystem | None) -> _CellStyle:
    flags = ((style.bold, "1"), (style.dim, "2"), (style.italic, "3"), (style.underline, "4"), (style.reverse, "7"))
    fg = bg = ""
    if system is not None:
        if style.color is not None and not style.color.is_default:
            fg = ";".join(style.color.downgrade(system).get_ansi_codes())
        if style.bgcolor is not None and not style.bgcolor.is_default:
            bg = ";".join(style.bgcolor.downgrade(system).get_ansi_codes(foreground=False))
    return _CellStyle(frozenset(code for on, code in flags if on), fg, bg)
