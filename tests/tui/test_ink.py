"""The bytes of our own pen: what they leave on a terminal is what the rows say, and they are few."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.style import Style

from iotop_ai.present.line import Cell, Line, Span, place
from iotop_ai.tui.widgets.ink import Ink, Row
from iotop_ai.tui.widgets.styles import Styles

WIDTH = 24
TOKENS = ("text", "dim", "bad", "strong", "graph", "hot", "block-bad", "zero", "_text")
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Screen:
    """A terminal that understands what the pen writes: (character, look) by row and column."""

    def __init__(self, rows: int) -> None:
        self.cells = [[(" ", "")] * WIDTH for _ in range(rows)]
        self.look: tuple[str, ...] = ()
        self.x = self.y = 0

    def write(self, text: str) -> None:
        for codes, kind, char in SEQUENCE.findall(text):
            if char:
                assert char >= " "
                self.cells[self.y][self.x] = (char, _seen(char, self.look))
                self.x += 1
            elif kind == "H":
                self.y, self.x = (int(n) - 1 for n in codes.split(";"))
            elif kind == "C":
                self.x += int(codes)
            else:
                assert kind == "m"
                self._switch(codes.split(";"))

    def _switch(self, codes: list[str]) -> None:
        while codes:
            code = codes.pop(0)
            if code == "0":
                self.look = ()
            elif code in ("38", "48"):
                rest, codes = codes[:4], codes[4:]
                self._put(";".join([code, *rest]))
            else:
                self._put(code)

    def _put(self, code: str) -> None:
        family = _family(code)
        kept = [c for c in self.look if c != code and (not family or _family(c) != family)]
        self.look = tuple(sorted([*kept, code]))


def _family(code: str) -> str:
    """letters or ground of a colour, of which the newest stands; "" of what adds up."""
    first = int(code.split(";")[0])
    if first == 38 or 30 <= first <= 37 or 90 <= first <= 97:
        return "letters"
    return "ground" if first == 48 or 40 <= first <= 47 or 100 <= first <= 107 else ""


def _seen(char: str, look: tuple[str, ...]) -> str:
    """What of a look can be seen: on a blank neither colour nor weight of the letters."""
    if char != " ":
        return " ".join(look)
    return " ".join(
        c for c in look if _family(c) == "ground" or c in ("4", "7") or ("7" in look and _family(c) == "letters")
    )


def ink(theme: str = "dark") -> Ink:
    return Ink(Styles(theme).style, ColorSystem.TRUECOLOR)


CELLS = st.builds(
    Cell,
    st.integers(0, WIDTH - 1),
    st.sampled_from(["a", "bc", "12.5", "⣿⣀", "─" * 9, " x ", "𝐀b"]),
    st.sampled_from(TOKENS),
)
LINES = st.lists(
    st.builds(
        lambda given_, ground: place(WIDTH, *given_, background=ground),
        st.lists(CELLS, max_size=5),
        st.sampled_from(["", "sel"]),
    ),
    min_size=2,
    max_size=6,
)


@given(LINES, st.sampled_from(["dark", "light", "ansi", "mono"]))
def test_row_over_row_the_terminal_shows_the_newest(lines: list[Line], theme: str) -> None:
    pen, fresh, shown = ink(theme), Screen(1), Screen(1)
    before: Row | None = None
    for line in lines:
        row = pen.row(line)
        shown.write(pen.paint([(0, 0, before, row)]))
        assert shown.look == ()
        before = row
    other = ink(theme)
    fresh.write(other.paint([(0, 0, None, other.row(lines[-1]))]))
    assert shown.cells == fresh.cells
    assert "".join(char for char, _ in shown.cells[0]) == lines[-1].text


def test_a_figure_that_changed_takes_a_few_bytes() -> None:
    pen = ink()
    old, new = (pen.row(place(WIDTH, Cell(0, "sda"), Cell(12, text, right=True))) for text in ("12.5", "12.7"))
    text = pen.paint([(0, 7, old, new)])
    assert re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", text) == "7"
    assert text.startswith("\x1b[8;13H")
    assert len(text) < 60


def test_the_same_row_takes_none() -> None:
    pen = ink()
    row = pen.row(place(WIDTH, Cell(0, "sda", "bad")))
    assert pen.paint([(0, 0, row, row)]) == ""


def test_another_colour_of_a_blank_takes_none() -> None:
    pen = ink()
    old, new = (pen.row(Line((Span(" " * WIDTH, token),))) for token in ("text", "bad"))
    assert pen.paint([(0, 0, old, new)]) == ""


def test_a_blank_that_becomes_inverse_or_underlined_is_painted() -> None:
    pen = ink()
    plain, line = (pen.row(Line((Span(" " * WIDTH, token),))) for token in ("text", "_text"))
    assert pen.paint([(0, 0, plain, line)]).count(" ") == WIDTH
    block = pen.row(Line((Span(" " * WIDTH, "block-bad"),)))
    assert pen.paint([(0, 0, plain, block)]).count(" ") == WIDTH


def test_a_row_with_a_wide_character_is_painted_whole() -> None:
    pen = ink()
    old = pen.row(place(WIDTH, Cell(0, "模型"), Cell(10, "1")))
    new = pen.row(place(WIDTH, Cell(0, "模型"), Cell(10, "2")))
    assert old.jagged
    assert re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", pen.paint([(0, 0, old, new)])) == "模型      2" + " " * 13


def test_a_row_with_a_character_beyond_16_bits_is_painted_whole() -> None:
    pen = ink()
    old, new = (pen.row(place(WIDTH, Cell(0, "𝐀"), Cell(10, figure))) for figure in "12")
    assert old.jagged
    assert re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", pen.paint([(0, 0, old, new)])) == "𝐀         2" + " " * 13


def test_without_colours_only_weight_is_sent() -> None:
    pen = Ink(Styles("dark").style, None)
    assert ";2;" not in pen.paint([(0, 0, None, pen.row(Line((Span("x" * WIDTH, "bad"),))))])


def test_looks_that_are_equal_need_no_sequence_between_them() -> None:
    same = Ink(lambda token, background: Style(bold=True), ColorSystem.TRUECOLOR)
    text = same.paint([(0, 0, None, same.row(Line((Span("a", "x"), Span("b", "y")))))])
    assert text == "\x1b[1;1H\x1b[1mab\x1b[0m"
