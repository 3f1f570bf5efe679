"""Why the verdict is what it is, over the whole screen, live."""

from __future__ import annotations

from typing import Protocol

from textual.app import ComposeResult
from textual.screen import Screen

from iotop_ai.model.frame import Frame
from iotop_ai.present.reasoning import most_scroll, reasoning_rows
from iotop_ai.present.view import View
from iotop_ai.tui.bindings import REASON_KEYS
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.widgets.lines import LinePanel, Wheeled
from iotop_ai.tui.widgets.styles import Styles

PAGE_OVERLAP = 2


class Below(Protocol):
    """The main screen, whose Frame and View this one shows and whose keys about the verdict work here too."""

    frame: Frame
    view: View

    def action_job(self, step: int) -> None:
        """The next job."""
        ...

    def action_copy(self) -> None:
        """Copy the verdict."""
        ...

    def action_acknowledge(self) -> None:
        """Take note of what never clears by itself."""
        ...


class ReasoningScreen(Screen[None]):
    """Follows the main screen's Frame; keeps how far it is scrolled."""

    BINDINGS = REASON_KEYS
    DEFAULT_CSS = "ReasoningScreen { overflow: hidden; } ReasoningScreen LinePanel { height: 1fr; }"

    def __init__(self, below: Below, book: Styles) -> None:
        super().__init__()
        self.below = below
        self.scroll_rows = 0
        self._book = book
        self.panel = LinePanel(book, id="reasoning")

    def compose(self) -> ComposeResult:
        """One panel."""
        self.follow()
        yield self.panel

    def follow(self) -> None:
        """Draw what the main screen has now; only changed rows are painted."""
        width, height = self.app.size
        self.panel.show(reasoning_rows(self.below.frame, self.below.view, width, height, self.scroll_rows))

    def on_resize(self) -> None:
        """Fit it to the new size."""
        self.action_move(0)

    def on_screen_resume(self) -> None:
        """Catch up with what came while the help was in front."""
        self.follow()

    def on_wheeled(self, event: Wheeled) -> None:
        """Scroll."""
        event.stop()
        self.action_move(event.step)

    def action_back(self) -> None:
        """To the main screen."""
        if self.is_current:  # two keys in one read are two events
            self.app.pop_screen()

    def action_move(self, rows: int) -> None:
        """Scroll by rows, within what there is."""
        most = most_scroll(self.below.frame, self.below.view, *self.app.size)
        self.scroll_rows = max(0, min(most, self.scroll_rows + rows))
        self.follow()

    def action_page(self, pages: int) -> None:
        """Scroll by a screen."""
        self.action_move(pages * max(1, self.app.size.height - 5 - PAGE_OVERLAP))

    def action_below(self, name: str, *arguments: int) -> None:
        """A key of the main screen that works here too."""
        getattr(self.below, f"action_{name}")(*arguments)
        self.follow()

    def action_help(self) -> None:
        """The help page."""
        self.app.push_screen(HelpScreen(self.below.frame, self.below.view, self._book))
