"""Changed cells straight to the terminal, without Textual's compositor.

The compositor lays out, renders and sends whole rows; where only figures change, that is most of what drawing costs,
in time and in bytes. It stays in charge of everything else: layouts, other screens, the mouse, the first paint.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from rich.console import COLOR_SYSTEMS
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.filter import ANSIToTruecolor
from textual.geometry import Region
from textual.strip import Strip

from iotop_ai.tui.textual_version import installed_version
from iotop_ai.tui.widgets.ink import Ink, Row
from iotop_ai.tui.widgets.styles import Styles

KNOWN_VERSIONS = ("8.2.",)
"""Textual releases whose painting has been read and tried with ours beside it."""


class Surface(Protocol):
    """What the pen needs of a panel."""

    def place(self) -> Region | None:
        """Where it is on the screen; None while it is not wholly there."""
        ...

    def take(self, ink: Ink, height: int, width: int) -> list[tuple[int, Row | None, Row]] | None:
        """What to paint: (row, what stands there, what shall); None where only Textual can."""
        ...

    def give_up(self) -> None:
        """Let Textual paint what changed."""
        ...


class Pen:
    """Paints what changed in all panels at once, when the message that changed them has been handled."""

    def __init__(self, app: App[Any], book: Styles) -> None:
        self._app = app
        self.book = book
        self.ink = Ink(self._filtered, COLOR_SYSTEMS[app.console.color_system or "truecolor"])
        self._waiting: dict[Surface, None] = {}

    def _filtered(self, token: str, background: str) -> Style:
        """The style as the terminal shall get it."""
        app = self._app
        strip = Strip([Segment("x", self.book.style(token, background))])
        for line_filter in app.get_line_filters():
            if not isinstance(line_filter, ANSIToTruecolor):
                strip = strip.apply_filter(line_filter, app.screen.background_colors[1])
        return next(iter(strip)).style or Style.null()

    @property
    def may(self) -> bool:
        """Whether rows can go to the terminal now; not while panels are being moved."""
        return not self._app._batch_count

    def add(self, panel: Surface) -> None:
        """Rows of this panel have changed."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting[panel] = None

    def flush(self) -> None:
        """Write what changed in the panels that wait."""
        waiting, self._waiting = self._waiting, {}
        try:
            driver = self._app._driver
            rows: list[tuple[int, int, Row | None, Row]] = []
            for panel in waiting:
                where = panel.place() if self.may and driver is not None else None
                found = None if where is None else panel.take(self.ink, where.height, where.width)
                if where is None or found is None:
                    panel.give_up()
                else:
                    rows += [(where.x, where.y + y, old, new) for y, old, new in found]
            if driver is not None and (text := self.ink.paint(rows)):
                driver.write(text)
        except Exception as error:  # outside of any message handler nobody would hear of it
            self._app._handle_exception(error)


_PENS: WeakKeyDictionary[App[Any], Pen] = WeakKeyDictionary()


def pen_of(app: App[Any], book: Styles, version: str | None = None) -> Pen | None:
    """The app's pen for a theme; None where there is no terminal or another Textual: it then paints alone."""
    pen = _PENS.get(app)
    if pen is None or pen.book is not book:
        if app.is_headless or app.is_inline or not (version or installed_version()).startswith(KNOWN_VERSIONS):
            return None
        pen = _PENS[app] = Pen(app, book)
    return pen
