"""In a session of Frames and keys, our painter leaves the same cells on the terminal as Textual alone would."""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from collections.abc import Callable

import pytest
from rich.style import Style
from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot
from textual.strip import Strip

from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.view import View
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.screens.main import screen
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.textual_internals import direct_paint
from tests.tui.recorded import stalling
from tests.tui.textual_internals.test_cell_diff import visible_style

WIDTH, HEIGHT = 100, 30
TITLES = re.compile(r"\x1b\][^\x07]*\x07")
"""Matches OSC sequences, which change no cell."""
SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|(.)", re.DOTALL)
KEYS = {
    3: ("tab", "tab", "tab", "down"),
    6: ("r",),
    9: ("greater_than_sign",),
    12: ("slash", "w", "o", "r", "enter"),
    15: ("escape",),
    18: ("question_mark",),
    20: ("escape",),
    22: ("1",),
    24: ("1", "a"),
    27: ("L",),
    30: ("colon",),
    32: ("escape", "t"),
    36: ("h",),
    38: ("escape", "space"),
    40: ("space", "n"),
}
"""The keys that are pressed after a Frame, by the Frame's number."""

Cells = list[list[tuple[str, str]]]


class Terminal:
    """Interprets what Textual and our painter write, as cells of a character and its style."""

    def __init__(self) -> None:
        self.cells: Cells = [[(" ", "")] * WIDTH for _ in range(HEIGHT)]
        self.bytes_written = 0
        self._look: dict[str, str] = {}
        self._x = self._y = 0

    def write(self, text: str) -> None:
        self.bytes_written += len(text.encode())
        for codes, kind, char in SEQUENCE.findall(TITLES.sub("", text)):
            if char and char >= " ":
                if self._x < WIDTH:
                    self.cells[self._y][self._x] = (char, visible_style(char, tuple(sorted(self._look.values()))))
                self._x += 1
            elif kind == "H":
                self._y, self._x = (int(n) - 1 for n in codes.split(";")) if codes else (0, 0)
            elif kind == "C":
                self._x += int(codes)
            elif kind == "m":
                self._style((codes or "0").split(";"))
            else:
                assert not char or char in "\r\n", repr(char)
                assert codes.startswith("?") or not kind, (codes, kind)  # this sequence sets a mode

    def _style(self, codes: list[str]) -> None:
        while codes:
            code = codes.pop(0)
            if code == "0":
                self._look = {}
                continue
            if code in ("38", "48"):
                length = 4 if codes[0] == "2" else 2
                code, codes = ";".join([code, *codes[:length]]), codes[length:]
            number = int(code.split(";")[0])
            family = {3: "foreground", 9: "foreground", 4: "background", 10: "background"}.get(
                number // 10 if number > 29 else 0, code
            )
            if number in (39, 49):
                self._look.pop(family, None)
            else:
                self._look[family] = code


async def cells_of_session(frames: list[Frame]) -> tuple[list[Cells], int]:
    """The cells after each Frame and its keys, and the number of bytes written in all."""
    terminal = Terminal()
    seen: list[Cells] = []

    class Driver(HeadlessDriver):
        is_headless = False  # type: ignore[assignment]

        def write(self, data: str) -> None:
            terminal.write(data)

    async def settled(pilot: Pilot[None]) -> None:
        before = -1
        while before != terminal.bytes_written:
            before = terminal.bytes_written
            await pilot.pause()
            await asyncio.sleep(0.04)

    async def drive(pilot: Pilot[None]) -> None:
        await settled(pilot)
        for number, frame in enumerate(frames[1:], 1):
            pilot.app.post_message(FrameReady(frame))
            await settled(pilot)
            for key in KEYS.get(number, ()):
                await pilot.press(key)
            await settled(pilot)
            seen.append([list(row) for row in terminal.cells])
        pilot.app.exit()

    view = View(utc_offset_s=0)
    app = MonitorApp(frames[0], (), MemoryRecording(), view, "dark", driver_class=Driver)
    await app.run_async(size=(WIDTH, HEIGHT), auto_pilot=drive)
    assert app.failure is None
    return seen, terminal.bytes_written


def without_cached_codes(render: Callable[..., str]) -> Callable[..., str]:
    """Render a Style without its cached codes, which may be for another test's terminal with 256 colours."""

    def rendered(style: Style, *words: object, **options: object) -> str:
        style._ansi = None
        return render(style, *words, **options)

    return rendered


async def test_the_cells_are_those_of_textual_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setattr(screen, "MESSAGE_S", 3600.0)  # otherwise the message could disappear in a slow session
    monkeypatch.setattr(Style, "render", without_cached_codes(Style.render))
    monkeypatch.setattr(Strip, "render_style", staticmethod(without_cached_codes(Strip.render_style)))
    frames = stalling(43, (10, 30))
    painted, few_bytes = await cells_of_session(frames)
    monkeypatch.setattr(direct_paint, "KNOWN_VERSIONS", ())
    expected, many_bytes = await cells_of_session(frames)
    assert len(painted) == len(expected) == len(frames) - 1
    for number, (cells, wanted) in enumerate(zip(painted, expected, strict=True), 1):
        different = [(y, x, cells[y][x], wanted[y][x]) for y in range(HEIGHT) for x in range(WIDTH)
                     if cells[y][x] != wanted[y][x]]  # fmt: skip
        assert different == [], number
    assert few_bytes < 0.8 * many_bytes


def test_a_painter_does_not_keep_its_app() -> None:
    app, styles = App[None](), ThemeStyles("dark")
    painter = direct_paint.painter_of(app, styles)
    assert painter is not None
    assert direct_paint.painter_of(app, styles) is painter
    ended = weakref.ref(app)
    del app, painter
    gc.collect()
    assert ended() is None
