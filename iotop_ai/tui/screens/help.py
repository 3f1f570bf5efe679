"""Help over the whole screen: keys, and what the columns mean."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.events import Click, Key
from textual.screen import Screen

from iotop_ai.model.frame import Frame
from iotop_ai.present.help import help_rows, pages
from iotop_ai.present.view import View
from iotop_ai.tui.passing import passed_on
from iotop_ai.tui.widgets.lines import LinePanel
from iotop_ai.tui.widgets.styles import Styles


class HelpScreen(Screen[None]):
    """The keys of the screen below, then the rest; Space turns the page, any other key or a click goes back."""

    DEFAULT_CSS = "HelpScreen { overflow: hidden; } HelpScreen LinePanel { height: 1fr; }"

    def __init__(self, frame: Frame, view: View, book: Styles, screen: str = "main") -> None:
        super().__init__()
        self._of = screen
        self._frame = frame
        self._view = view
        self.page = 0
        self.panel = LinePanel(book, id="help")

    def compose(self) -> ComposeResult:
        """One panel."""
        self._draw()
        yield self.panel

    def on_resize(self) -> None:
        """Fit the page to the new size."""
        self._draw()

    def on_key(self, event: Key) -> None:
        """Turn the page, or go back."""
        if event.key == "ctrl+z":
            return
        event.stop()
        event.prevent_default()
        if passed_on(self, event):
            return
        step = _TURNS.get(event.key, 0)
        last = pages(*self.app.size, self._view, self._of) - 1
        if step and 0 <= self.page + step <= last:
            self.page += step
            self._draw()
        elif not (step < 0 and last):
            self._go_back()

    def on_click(self, event: Click) -> None:
        """Go back."""
        event.stop()
        self._go_back()

    def _go_back(self) -> None:
        if self.is_current:  # two clicks in one read are two events
            self.app.pop_screen()

    def _draw(self) -> None:
        width, height = self.app.size
        self.panel.show(help_rows(self._frame, self._view, width, height, self.page, self._of))


_TURNS = {"space": 1, "pagedown": 1, "right": 1, "tab": 1, "pageup": -1, "left": -1, "shift+tab": -1}
