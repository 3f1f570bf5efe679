"""A screen above the main one: one panel that shows the main screen's Frame in another way, live."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.screen import Screen

from iotop_ai.present.line import Line
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.widgets.lines import LinePanel
from iotop_ai.tui.widgets.styles import Styles


class DetailScreen(Screen[None]):
    """Follows the Frame and View of the main screen; a subclass says what its rows are and keeps what is chosen.

    below: the main screen.
    """

    DEFAULT_CSS = "DetailScreen { overflow: hidden; } DetailScreen LinePanel { height: 1fr; }"
    panel_id: ClassVar[str] = "detail"
    name_of_screen: ClassVar[str]
    """As in the tables of present/keymap.py."""

    def __init__(self, below: Any, book: Styles) -> None:
        super().__init__()
        self.below = below
        self._book = book
        self.panel = LinePanel(book, id=self.panel_id)

    @abstractmethod
    def rows(self, width: int, height: int) -> list[Line]:
        """Exactly ``height`` lines of ``width`` columns."""

    def compose(self) -> ComposeResult:
        """One panel."""
        self.follow()
        yield self.panel

    def follow(self) -> None:
        """Draw what the main screen has now; only changed rows are painted."""
        self.panel.show(self.rows(*self.app.size))

    def on_resize(self) -> None:
        """Fit it to the new size."""
        self.follow()

    def on_screen_resume(self) -> None:
        """Catch up with what came while another screen was in front."""
        self.follow()

    def action_back(self) -> None:
        """To the main screen."""
        if self.is_current:  # two keys in one read are two events
            self.app.pop_screen()

    def action_pause(self) -> None:
        """Stop drawing, or draw what is newest."""
        self.below.action_pause()
        self.follow()

    def action_interval(self, step: int) -> None:
        """A longer or shorter interval."""
        self.below.action_interval(step)
        self.follow()

    def action_help(self) -> None:
        """The help page."""
        self.app.push_screen(HelpScreen(self.below.frame, self.below.view, self._book, self.name_of_screen))
