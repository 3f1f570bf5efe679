"""The first frame equals the app's own screen and has the colours that the app will use."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color, ColorSystem

from iotop_ai.cli.commands.monitor.command import refusal
from iotop_ai.cli.start.first_frame import paint, palette_index, sgr_parameters
from iotop_ai.cli.start.terminal import terminal
from iotop_ai.model.settings import Settings
from iotop_ai.present.screen.layout import screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.theme import TOKENS, TextStyle, text_style_of
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.styles import rich_style
from tests.tui.scene import made_frames

THEMES = ("dark", "light", "cvd", "ansi", "ansi-light", "ansi-console", "mono")
SEQUENCE = re.compile(r"\x1b\[[0-9;]*[mH]")
BYTE = st.integers(0, 255)


@given(BYTE, BYTE, BYTE)
def test_the_palette_equals_that_of_rich(red: int, green: int, blue: int) -> None:
    expected = Color.from_rgb(red, green, blue).downgrade(ColorSystem.EIGHT_BIT).number
    assert palette_index(red, green, blue) == expected


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    ("colours", "system"), [(2**24, ColorSystem.TRUECOLOR), (256, ColorSystem.EIGHT_BIT)], ids=["true", "256"]
)
def test_the_first_frame_and_the_app_use_the_same_colours(theme: str, colours: int, system: ColorSystem) -> None:
    for token in TOKENS:
        for background in ("", "sel", "panel"):
            text_style = text_style_of(theme, token, background)
            style = rich_style(text_style)
            style._ansi = None  # Rich caches the codes of the colour system for which they were first requested
            rendered = style.render("x", color_system=system)
            codes = set(re.findall(r"\x1b\[([0-9;]*)m", rendered)[0].split(";")) if rendered != "x" else set()
            ours = set(sgr_parameters(text_style, colours).split(";")) - {""}
            # Rich also emits the default colours, which our reset has already set.
            assert codes - {"39", "49"} == ours, (token, background)


def test_a_terminal_without_colour_gets_no_colour() -> None:
    assert sgr_parameters(TextStyle("#ff0000", "4", bold=True), 0) == "1"
    assert sgr_parameters(TextStyle("9", "1"), 16) == "91;41"
    assert sgr_parameters(TextStyle("#ff0000", ""), 16) == ""


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (60, 15)])
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_the_app_repaints_the_same_cells(size: tuple[int, int], ascii_only: bool) -> None:
    first = made_frames(1)[0]
    view = View(ascii_only=ascii_only)
    lines = screen_rows(*size, first, view)
    app = MonitorApp(first, [], MemoryRecording(), view, "dark")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        shown = [strip.text for strip in app.screen._compositor.render_strips()]
    assert shown == [line.text for line in lines]
    assert not ascii_only or "".join(shown).isascii()


def test_the_terminal_gets_only_our_escape_sequences() -> None:
    frame = made_frames()[-1]
    raw = paint(screen_rows(160, 48, frame, View(focus="process")), "dark", 2**24)
    left = SEQUENCE.sub("", raw)
    assert left.isprintable()
    assert "[/x]" in left
    assert raw.count("H") >= 48


def test_no_rate_is_shown_as_zero_before_there_are_rates() -> None:
    frame = made_frames(1)[0]
    rows = {line.key: line.text for line in screen_rows(80, 24, frame, View()) if line.key.startswith("disk:")}
    assert rows["disk:sda"].count("?") >= 4
    assert " 0 " not in rows["disk:sda"]


ENVIRONMENTS = [
    ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, ("dark", 2**24)),
    ({"TERM": "tmux-256color"}, ("dark", 256)),
    ({"TERM": "xterm-256color", "COLORFGBG": "0;15"}, ("light", 256)),
    ({"TERM": "xterm"}, ("ansi", 16)),
    ({"TERM": "rxvt", "COLORFGBG": "0;default;15"}, ("ansi-light", 16)),
    ({"TERM": "linux"}, ("ansi-console", 16)),
    ({"TERM": "vt100"}, ("mono", 0)),
    ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, ("mono", 0)),
]


@pytest.mark.parametrize(("environment", "expected"), ENVIRONMENTS)
def test_the_theme_fits_the_terminal(environment: dict[str, str], expected: tuple[str, int]) -> None:
    assert terminal(Settings(), environment)[:2] == expected


def test_a_chosen_theme_takes_precedence() -> None:
    environment = {"TERM": "xterm-256color", "NO_COLOR": "1"}
    assert terminal(Settings(theme="light"), environment)[:2] == ("light", 256)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "", "LANG": "de_DE.UTF-8"}, False),
        ({"LC_CTYPE": "C.utf8", "LANG": "C"}, False),
        ({"LANG": "en_US.ISO-8859-1"}, True),
        ({"LANG": "C.UTF-8", "TERM": "linux"}, True),
        ({}, True),
    ],
)
def test_the_special_characters_need_utf8(environment: dict[str, str], expected: bool) -> None:
    assert terminal(Settings(), environment).ascii_only is expected
    assert terminal(Settings(ascii_only=True), environment).ascii_only


def test_an_unusable_terminal_is_refused_in_one_line() -> None:
    assert refusal("xterm", True) == ""
    for term, tty in (("xterm", False), ("dumb", True), ("", True)):
        line = refusal(term, tty)
        assert line.startswith("usage: ")
        assert "-b" in line
        assert "snapshot" in line
        assert "\n" not in line
