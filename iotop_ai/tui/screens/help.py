"""Help over the whole screen: keys, and what the columns mean."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.screen import Screen

from iotop_ai.model.frame import Frame
from iotop_ai.present.help import help_rows
from iotop_ai.present.view import View
from iotop_ai.tui.bindings import HELP_KEYS
from iotop_ai.tui.widgets.lines import LinePanel
from iotop_ai.tui.widgets.styles import Styles


class HelpScreen(Screen[None]):
    """One page; closed by the key that opened it or Esc."""

    BINDINGS = HELP_KEYS
    DEFAULT_CSS = "HelpScreen { overflow: hidden; } HelpScreen LinePanel { height: 1fr; }"

    def __init__(self, frame: Frame, view: View, book: Styles) -> None:
        super().__init__()
        self._frame = frame
        self._view = view
        self.panel = LinePanel(book, id="help")

    def compose(self) -> ComposeResult:
        """One panel."""
        self._draw()
        yield self.panel

    def on_resize(self) -> None:
        """Fit the page to the new size."""
        self._draw()

    def _draw(self) -> None:
        width, height = self.app.size
        self.panel.show(help_rows(self._frame, self._view, width, height))
