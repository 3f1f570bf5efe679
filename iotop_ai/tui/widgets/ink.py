"""Rows as cells, and the few bytes that turn one row on a terminal into another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress
from operator import itemgetter

from rich.color import ColorSystem
from rich.style import Style

from iotop_ai.model.record import NamedTuple
from iotop_ai.present.line import Line, even

_BRIDGE = 4
"""So many unchanged cells are sent again rather than jumped over: a jump takes as many bytes."""
_FIRST = 0x21
"""The character of the first look: up to U+00FF the interpreter has each character made already."""


_text = itemgetter(0)


class Row(NamedTuple):
    """The cells of a row. text: one character a column; looks: for each the character that stands for its look.

    jagged: some character does not take one column, so that columns cannot be counted. letters, shades: ``text`` and
    ``looks`` as numbers of 16 bits a column, of which two are told apart at once; 0 of a jagged row.
    """

    text: str
    looks: str
    jagged: bool
    letters: int = 0
    shades: int = 0


class _Look(NamedTuple):
    """What SGR says. flags: its parameters that switch something on; fg, bg: a colour's parameters, "" for none."""

    flags: frozenset[str]
    fg: str
    bg: str


class Ink:
    """Looks of one theme on one terminal. style: the Rich style of (token, background).

    system: the colours of the terminal; None for none.
    """

    def __init__(self, style: Callable[[str, str], Style], system: ColorSystem | None) -> None:
        self._style = style
        self._system = system
        self._marks: dict[str, _Marks] = {}
        """By background."""
        self._known: dict[_Look, str] = {}
        self._looks: list[_Look] = []
        self._grounds: dict[str, tuple[str, bool, bool]] = {}
        """What of a look is seen on a blank: the ground, a line under it, and whether it is inverse."""
        self._turns: dict[str, str] = {}

    def row(self, line: Line) -> Row:
        """The cells of a line."""
        spans, background = line.spans, line.background
        marks = self._marks.get(background)
        if marks is None:
            marks = self._marks[background] = _Marks(self._mark, background)
        text = "".join(map(_text, spans))
        looks = "".join([marks[token] * len(part) for part, token in spans])
        letters = text.encode("utf-16-le", "surrogatepass")
        if len(letters) != 2 * len(text) or not even(text):
            return Row(text, looks, True)
        shades = looks.encode("utf-16-le", "surrogatepass")
        return Row(text, looks, False, int.from_bytes(letters, "little"), int.from_bytes(shades, "little"))

    def _mark(self, token: str, background: str) -> str:
        """The character for a look; tokens that look alike share it."""
        look = _look(self._style(token, background), self._system)
        mark = self._known.get(look)
        if mark is None:
            mark = self._known[look] = chr(_FIRST + len(self._looks))
            self._looks.append(look)
            self._grounds[mark] = (look.fg if "7" in look.flags else look.bg), "4" in look.flags, "7" in look.flags
        return mark

    def _turn(self, before: str, after: str) -> str:
        """The sequence from one look to another; ``before`` "" is the terminal's own."""
        known = self._turns.get(before + after)
        if known is not None:
            return known
        new = self._looks[ord(after) - _FIRST]
        old = self._looks[ord(before) - _FIRST] if before else _Look(frozenset(), "", "")
        codes: list[str] = []
        if not old.flags <= new.flags or (old.fg and not new.fg) or (old.bg and not new.bg):
            codes, old = ["0"], _Look(frozenset(), "", "")
        codes += sorted(new.flags - old.flags)
        codes += [colour for colour, was in ((new.fg, old.fg), (new.bg, old.bg)) if colour != was]
        made = self._turns[before + after] = f"\x1b[{';'.join(codes)}m" if codes else ""
        return made

    def changes(self, old: Row, new: Row) -> list[tuple[int, int]]:
        """Columns [first, end) that differ, left to right; what lies close together is one stretch.

        Blanks differ only by what shows on a blank.
        """
        width = len(new.text)
        if old.jagged or new.jagged or len(old.text) != width:
            return [(0, width)]
        letters = _differ(old.letters ^ new.letters, width)
        found = [*compress(range(width), letters)]
        if old.shades != new.shades:
            text, was, now, grounds = new.text, old.looks, new.looks, self._grounds
            looks = [
                x
                for x in compress(range(width), _differ(old.shades ^ new.shades, width))
                if not letters[x] and (text[x] != " " or grounds[was[x]] != grounds[now[x]])
            ]
            if looks:
                found = sorted(found + looks)
        out: list[tuple[int, int]] = []
        first = end = -1
        for x in found:
            if x - end > _BRIDGE or first < 0:
                if first >= 0:
                    out.append((first, end))
                first = x
            end = x + 1
        if first >= 0:
            out.append((first, end))
        return out

    def paint(self, rows: Iterable[tuple[int, int, Row | None, Row]]) -> str:
        """What to write for rows of (column, row of the screen, what stands there, what shall stand there).

        None for what stands there: anything. The terminal is in its own look before and after, and does not wrap.
        """
        out: list[str] = []
        look = ""
        for left, y, old, new in rows:
            at = -1
            for first, end in self.changes(old, new) if old is not None else [(0, len(new.text))]:
                skip = first - at
                out.append(f"\x1b[{skip}C" if at >= 0 and skip else f"\x1b[{y + 1};{left + first + 1}H")
                at = first
                while at < end:
                    mark = new.looks[at]
                    rest = new.looks[at:end]
                    stop = end - len(rest.lstrip(mark))
                    if mark != look:
                        out.append(self._turn(look, mark))
                        look = mark
                    out.append(new.text[at:stop])
                    at = stop
        if look:
            out.append("\x1b[0m")
        return "".join(out)


def _differ(difference: int, width: int) -> bytes:
    """For each column whether the 16 bits that are its own are not all 0."""
    return (difference | difference >> 8).to_bytes(2 * width, "little")[::2]


class _Marks(dict[str, str]):
    """The mark of each token on one background."""

    def __init__(self, make: Callable[[str, str], str], background: str) -> None:
        super().__init__()
        self._make = make
        self._background = background

    def __missing__(self, token: str) -> str:
        made = self[token] = self._make(token, self._background)
        return made


def _look(style: Style, system: ColorSystem | None) -> _Look:
    flags = ((style.bold, "1"), (style.dim, "2"), (style.italic, "3"), (style.underline, "4"), (style.reverse, "7"))
    fg = bg = ""
    if system is not None:
        if style.color is not None and not style.color.is_default:
            fg = ";".join(style.color.downgrade(system).get_ansi_codes())
        if style.bgcolor is not None and not style.bgcolor.is_default:
            bg = ";".join(style.bgcolor.downgrade(system).get_ansi_codes(foreground=False))
    return _Look(frozenset(code for on, code in flags if on), fg, bg)
