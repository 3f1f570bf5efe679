"""The first frame in plain ANSI. It appears before Textual is imported, so data is visible about 0.2 s earlier."""

from __future__ import annotations

import contextlib
import os
import termios
from collections.abc import Iterable
from functools import cache
from typing import Any

from iotop_ai.cli.start.terminal import Terminal
from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.bounds import clamp_size
from iotop_ai.present.screen.layout import screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line
from iotop_ai.present.text.theme import TextStyle, text_style_of
from iotop_ai.tui.job_control import in_background
from iotop_ai.tui.terminal_output import write_in_time

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""The codes that switch to the alternate screen, hide the cursor and turn line wrapping off."""
BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
"""The codes for synchronised output: a terminal that knows them shows everything between them at once."""
LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
"""The codes that undo ENTER and reset the text style."""
LEAVE_WAIT_S = 0.5
"""How long, in seconds, a forced end waits for a terminal that takes no output."""
GREY_SATURATION = 0.15
"""Rich picks a grey for a colour whose saturation (0 to 1) is below this."""
IFLAG, LFLAG, CONTROLS = 0, 3, 6
"""The positions in the list of ``termios.tcgetattr``."""


def paint(lines: Iterable[Line], theme: str, colours: int) -> str:
    """Return a string that shows the rows from the top left corner of the screen. It writes every cell."""
    out = []
    for y, line in enumerate(lines, start=1):
        out.append(f"\x1b[{y};1H")
        last = None
        for span in line.spans:
            codes = sgr_parameters(text_style_of(theme, span.token, line.background), colours)
            if codes != last:
                out.append(f"\x1b[0;{codes}m" if codes else "\x1b[0m")
                last = codes
            out.append(span.text)
        out.append("\x1b[0m")
    return "".join(out)


@cache
def sgr_parameters(style: TextStyle, colours: int) -> str:
    """Return the SGR parameters for a text style; "" for the terminal's default."""
    flags = ((style.bold, "1"), (style.dim, "2"), (style.underline, "4"), (style.reverse, "7"))
    codes = [code for on, code in flags if on]
    codes += _colour(style.fg, 30, colours)
    codes += _colour(style.bg, 40, colours)
    return ";".join(codes)


def _colour(name: str, base: int, colours: int) -> list[str]:
    if not name or colours == 0:
        return []
    if not name.startswith("#"):
        number = int(name)  # from 8 on, a bright colour, whose codes begin at 90 and 100
        return [str(base + number if number < 8 else base + 52 + number)]
    red, green, blue = (int(name[i : i + 2], 16) for i in (1, 3, 5))
    if colours > 256:
        return [f"{base + 8};2;{red};{green};{blue}"]
    # A terminal with 16 colours shows a true-colour theme without colours at first. Textual then adds the nearest of
    # the terminal's colours.
    return [f"{base + 8};5;{palette_index(red, green, blue)}"] if colours == 256 else []


def palette_index(red: int, green: int, blue: int) -> int:
    """Return the entry of the xterm palette that Rich picks for a colour, so that the app's repaint changes nothing.

    Colours of low saturation map to the 24 greys by their lightness. Other colours map to the 6x6x6 cube, whose levels
    are 0, 95, 135, 175, 215 and 255.
    """
    high, low = max(red, green, blue) / 255, min(red, green, blue) / 255
    lightness = (high + low) / 2
    scale = high + low if lightness <= 0.5 else 2 - high - low
    saturation = 0.0 if high == low else (high - low) / scale
    if saturation < GREY_SATURATION:
        # The greys have the entries 232 to 255. Black and white are entries of the cube.
        grey = round(lightness * 25)
        return {0: 16, 25: 231}.get(grey, 231 + grey)
    levels = [round(value / 95 if value < 95 else 1 + (value - 95) / 40) for value in (red, green, blue)]
    return 16 + 36 * levels[0] + 6 * levels[1] + levels[2]


class FirstFrame:
    """Owns the terminal from the first frame until the app takes over. ``restore`` returns the terminal to the shell.

    attributes: the terminal attributes that the shell had set; None before the first frame.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._fileno = 2
        """The descriptor of the terminal: stderr, as for Textual."""
        self.attributes: list[Any] | None = None
        self.painted = False

    def show(self, frame: Frame, view: View) -> None:
        """Paint the frame on the alternate screen.

        Keys that the user presses now wait for the app and are not echoed.
        """
        size = os.get_terminal_size(self._fileno)
        lines = screen_rows(*clamp_size(size.columns or 80, size.lines or 24), frame, view)
        self.attributes = termios.tcgetattr(self._fileno)
        self.painted = True
        raw = termios.tcgetattr(self._fileno)
        raw[LFLAG] &= ~(termios.ECHO | termios.ICANON)
        raw[IFLAG] &= ~termios.ICRNL  # otherwise the app would take an early Enter for Ctrl-J
        # Ctrl-Z waits for the app too, because the app can restore the terminal before it stops.
        raw[CONTROLS][termios.VSUSP] = b"\0"
        termios.tcsetattr(self._fileno, termios.TCSANOW, raw)
        rows = paint(lines, self._terminal.theme, self._terminal.colours)
        self._write(f"{BEGIN_UPDATE}{ENTER}{rows}{END_UPDATE}")

    def restore(self) -> None:
        """Restore the shell's screen and attributes; harmless if called twice. Does nothing if nothing was painted, or
        if the shell already has the terminal, because the program was stopped.
        """
        if self.painted and not in_background(self._fileno):
            self._write(LEAVE)
            self._restore_attributes()
        self.painted = False

    def restore_by_force(self) -> None:
        """Restore the shell's screen and attributes, also during ``show`` or ``restore``, which may wait for a terminal
        that takes no output.
        """
        if not self.painted or in_background(self._fileno):
            return
        with contextlib.suppress(termios.error):  # the terminal is closed
            self._restore_attributes()
        write_in_time(self._fileno, LEAVE, LEAVE_WAIT_S)

    def _restore_attributes(self) -> None:
        if self.attributes is not None:
            termios.tcsetattr(self._fileno, termios.TCSANOW, self.attributes)

    def _write(self, text: str) -> None:
        raw = text.encode("utf-8", "replace")
        while raw:
            raw = raw[os.write(self._fileno, raw) :]
