"""Writes changed cells directly to the terminal, without Textual's compositor.

The compositor renders and sends whole rows. If only figures change, the unchanged rest of these rows is most of the
cost of drawing, in time and in bytes. Textual paints everything else: layouts, other screens, the mouse, the first
paint. With a release that is not in KNOWN_VERSIONS, Textual paints everything.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from rich.console import COLOR_SYSTEMS
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.filter import ANSIToTruecolor
from textual.geometry import Region
from textual.strip import Strip

from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.textual_internals.cell_diff import CellDiff, Row
from iotop_ai.tui.textual_internals.version import installed_version

KNOWN_VERSIONS = ("8.2.",)
"""The releases of Textual whose painting code was examined, and with which this module was tested."""


class PaintedPanel(Protocol):
    """The methods of a panel that the painter needs."""

    def visible_region(self) -> Region | None:
        """The panel's region on the terminal; None unless all of it is visible."""
        ...

    def collect_changes(self, cell_diff: CellDiff, height: int, width: int) -> list[tuple[int, Row | None, Row]] | None:
        """The changes to paint as (row, old cells or None, new cells); None if only Textual can paint them."""
        ...

    def fall_back(self) -> None:
        """Let Textual paint the changed rows."""
        ...


class DirectPainter:
    """Paints the changes of all panels together, after the message that changed the panels has been handled."""

    def __init__(self, app: App[Any], theme_styles: ThemeStyles) -> None:
        self._app = app
        self.theme_styles = theme_styles
        self.cell_diff = CellDiff(self._filtered, COLOR_SYSTEMS[app.console.color_system or "truecolor"])
        self._waiting: dict[PaintedPanel, None] = {}

    def _filtered(self, token: str, background: str) -> Style:
        """The style of a token after Textual's filters, except ANSIToTruecolor, which has nothing to translate."""
        app = self._app
        strip = Strip([Segment("x", self.theme_styles.style(token, background))])
        for line_filter in app.get_line_filters():
            if not isinstance(line_filter, ANSIToTruecolor):
                strip = strip.apply_filter(line_filter, app.screen.background_colors[1])
        return next(iter(strip)).style or Style.null()

    @property
    def can_paint(self) -> bool:
        """Whether rows may be written now. They may not during a batch update, which moves panels."""
        return not self._app._batch_count

    def add(self, panel: PaintedPanel) -> None:
        """Paint the changed rows of this panel soon."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting[panel] = None

    def flush(self) -> None:
        """Write the changes of all panels that wait."""
        waiting, self._waiting = self._waiting, {}
        try:
            driver = self._app._driver
            rows: list[tuple[int, int, Row | None, Row]] = []
            for panel in waiting:
                region = panel.visible_region() if self.can_paint and driver is not None else None
                changes = None if region is None else panel.collect_changes(self.cell_diff, region.height, region.width)
                if region is None or changes is None:
                    panel.fall_back()
                else:
                    rows += [(region.x, region.y + y, old, new) for y, old, new in changes]
            if driver is not None and (text := self.cell_diff.paint(rows)):
                driver.write(text)
        except Exception as error:  # asyncio would only log it, because this is not a message handler
            self._app._handle_exception(error)


_ATTRIBUTE = "_iotop_ai_painter"
"""The attribute of an app that holds its painter.

A painter refers to its app, so a table of painters would keep each app, even one whose keys are weak.
"""


def painter_of(app: App[Any], theme_styles: ThemeStyles) -> DirectPainter | None:
    """The app's painter for a theme; None without a terminal, or if the Textual release is not in KNOWN_VERSIONS."""
    painter: DirectPainter | None = getattr(app, _ATTRIBUTE, None)
    if painter is None or painter.theme_styles is not theme_styles:
        if app.is_headless or app.is_inline or not installed_version().startswith(KNOWN_VERSIONS):
            return None
        painter = DirectPainter(app, theme_styles)
        setattr(app, _ATTRIBUTE, painter)
    return painter
