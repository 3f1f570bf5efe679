"""CellDiff writes few bytes, and a terminal that reads them shows the right cells in each row."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.style import Style

from iotop_ai.present.text.line import Cell, Line, Span, place
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.textual_internals.cell_diff import CellDiff, Row

WIDTH = 24
TOKENS = ("text", "dim", "bad", "strong", "graph", "hot", "block-bad", "zero", "_text")
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Screen:
    """A terminal that interprets the written bytes. Each cell is a character and its style."""

    def __init__(self, rows: int) -> None:
        self.cells = [[(" ", "")] * WIDTH for _ in range(rows)]
        self.style: tuple[str, ...] = ()
        self.x = self.y = 0

    def write(self, text: str) -> None:
        for codes, kind, char in SEQUENCE.findall(text):
            if char:
                assert char >= " "
                self.cells[self.y][self.x] = (char, visible_style(char, self.style))
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
                self.style = ()
            elif code in ("38", "48"):
                rest, codes = codes[:4], codes[4:]
                self._put(";".join([code, *rest]))
            else:
                self._put(code)

    def _put(self, code: str) -> None:
        family = _family(code)
        kept = [c for c in self.style if c != code and (not family or _family(c) != family)]
        self.style = tuple(sorted([*kept, code]))


def _family(code: str) -> str:
    """The colour that a code sets, "foreground" or "background"; "" if the code sets another attribute."""
    first = int(code.split(";")[0])
    if first == 38 or 30 <= first <= 37 or 90 <= first <= 97:
        return "foreground"
    return "background" if first == 48 or 40 <= first <= 47 or 100 <= first <= 107 else ""


def visible_style(char: str, style: tuple[str, ...]) -> str:
    """The visible part of a style: on a space, the colour and the weight of letters cannot be seen."""
    if char != " ":
        return " ".join(style)
    return " ".join(
        c
        for c in style
        if _family(c) == "background" or c in ("4", "7") or ("7" in style and _family(c) == "foreground")
    )


def cell_diff(theme: str = "dark") -> CellDiff:
    return CellDiff(ThemeStyles(theme).style, ColorSystem.TRUECOLOR)


CELLS = st.builds(
    Cell,
    st.integers(0, WIDTH - 1),
    st.sampled_from(["a", "bc", "12.5", "⣿⣀", "─" * 9, " x ", "𝐀b"]),
    st.sampled_from(TOKENS),
)
LINES = st.lists(
    st.builds(
        lambda cells, ground: place(WIDTH, *cells, background=ground),
        st.lists(CELLS, max_size=5),
        st.sampled_from(["", "sel"]),
    ),
    min_size=2,
    max_size=6,
)


@given(LINES, st.sampled_from(["dark", "light", "ansi", "mono"]))
def test_after_each_row_the_terminal_has_the_cells_of_the_row(lines: list[Line], theme: str) -> None:
    diff, fresh, shown = cell_diff(theme), Screen(1), Screen(1)
    before: Row | None = None
    for line in lines:
        row = diff.row(line)
        shown.write(diff.paint([(0, 0, before, row)]))
        assert shown.style == ()
        before = row
    other = cell_diff(theme)
    fresh.write(other.paint([(0, 0, None, other.row(lines[-1]))]))
    assert shown.cells == fresh.cells
    assert "".join(char for char, _ in shown.cells[0]) == lines[-1].text


def test_a_figure_that_changes_takes_a_few_bytes() -> None:
    diff = cell_diff()
    old, new = (diff.row(place(WIDTH, Cell(0, "sda"), Cell(12, text, right=True))) for text in ("12.5", "12.7"))
    text = diff.paint([(0, 7, old, new)])
    assert re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", text) == "7"
    assert text.startswith("\x1b[8;13H")
    assert len(text) < 60


def test_an_unchanged_row_takes_no_bytes() -> None:
    diff = cell_diff()
    row = diff.row(place(WIDTH, Cell(0, "sda", "bad")))
    assert diff.paint([(0, 0, row, row)]) == ""


def test_a_changed_colour_of_a_space_takes_no_bytes() -> None:
    diff = cell_diff()
    old, new = (diff.row(Line((Span(" " * WIDTH, token),))) for token in ("text", "bad"))
    assert diff.paint([(0, 0, old, new)]) == ""


def test_a_space_that_becomes_inverse_or_underlined_is_painted() -> None:
    diff = cell_diff()
    plain, line = (diff.row(Line((Span(" " * WIDTH, token),))) for token in ("text", "_text"))
    assert diff.paint([(0, 0, plain, line)]).count(" ") == WIDTH
    block = diff.row(Line((Span(" " * WIDTH, "block-bad"),)))
    assert diff.paint([(0, 0, plain, block)]).count(" ") == WIDTH


def test_a_row_with_a_wide_character_is_painted_as_a_whole() -> None:
    diff = cell_diff()
    old = diff.row(place(WIDTH, Cell(0, "模型"), Cell(10, "1")))
    new = diff.row(place(WIDTH, Cell(0, "模型"), Cell(10, "2")))
    assert old.jagged
    assert re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", diff.paint([(0, 0, old, new)])) == "模型      2" + " " * 13


def test_a_row_with_a_character_of_more_than_16_bits_is_painted_as_a_whole() -> None:
    diff = cell_diff()
    old, new = (diff.row(place(WIDTH, Cell(0, "𝐀"), Cell(10, figure))) for figure in "12")
    assert old.jagged
    assert re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", diff.paint([(0, 0, old, new)])) == "𝐀         2" + " " * 13


def test_without_colours_only_the_weight_is_sent() -> None:
    diff = CellDiff(ThemeStyles("dark").style, None)
    assert ";2;" not in diff.paint([(0, 0, None, diff.row(Line((Span("x" * WIDTH, "bad"),))))])


def test_equal_styles_need_no_sequence() -> None:
    same = CellDiff(lambda token, background: Style(bold=True), ColorSystem.TRUECOLOR)
    text = same.paint([(0, 0, None, same.row(Line((Span("a", "x"), Span("b", "y")))))])
    assert text == "\x1b[1;1H\x1b[1mab\x1b[0m"
