"""Why the verdict is what it is, over the whole screen, live."""

from __future__ import annotations

from typing import Any

from iotop_ai.present.keymap import SCREENS
from iotop_ai.present.line import Line
from iotop_ai.present.reasoning import most_scroll, reasoning_rows
from iotop_ai.tui.bindings import REASON_KEYS
from iotop_ai.tui.screens.detail import DetailScreen
from iotop_ai.tui.widgets.lines import Wheeled
from iotop_ai.tui.widgets.styles import Styles

PAGE_OVERLAP = 2


class ReasoningScreen(DetailScreen):
    """Follows the main screen's Frame; keeps how far it is scrolled."""

    BINDINGS = REASON_KEYS
    ACTS = SCREENS["reasoning"]
    name_of_screen = "reasoning"
    panel_id = "reasoning"

    def __init__(self, below: Any, book: Styles) -> None:
        super().__init__(below, book)
        self.scroll_rows = 0

    def rows(self, width: int, height: int) -> list[Line]:
        """The reasoning, as far as it is scrolled."""
        return reasoning_rows(self.below.frame, self.below.view, width, height, self.scroll_rows)

    def on_resize(self) -> None:
        """Fit it to the new size."""
        self.action_move(0)

    def on_wheeled(self, event: Wheeled) -> None:
        """Scroll."""
        event.stop()
        self.action_move(event.step)

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
