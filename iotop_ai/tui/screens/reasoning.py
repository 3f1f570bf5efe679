"""The page of reasons for the verdict, over the whole terminal."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.text.line import Line
from iotop_ai.present.verdict.screen import most_reasoning_scroll, reasoning_rows
from iotop_ai.tui.bindings import REASON_KEYS
from iotop_ai.tui.screens.detail import PAGE_OVERLAP, ScrolledScreen
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.time_actions import TimeActions
from iotop_ai.tui.screens.main.verdict_actions import VerdictActions
from iotop_ai.tui.styles import ThemeStyles

_FIXED_ROWS = 5
"""The rows that do not scroll on a small terminal: the banner and the keys."""


class ReasoningScreen(ScrolledScreen):
    """The page of reasons, which scrolls. first_row: the index of the first row shown below the banner."""

    BINDINGS = REASON_KEYS
    ACTIONS = SCREENS["reasoning"]
    screen_name = "reasoning"

    def __init__(self, state: MainState, time: TimeActions, verdict: VerdictActions, theme_styles: ThemeStyles) -> None:
        super().__init__(state, time, theme_styles, "reasoning")
        self.first_row = 0
        self._main_actions: dict[str, Callable[..., None]] = {
            "copy": verdict.copy, "acknowledge": verdict.acknowledge, "job": verdict.step_job, "pause": time.pause,
        }  # fmt: skip

    def rows(self, width: int, height: int) -> list[Line]:
        """The rows from the first one shown."""
        return reasoning_rows(self.state.frame, self.state.view, width, height, self.first_row)

    def action_move(self, rows: int) -> None:
        """Scroll by this many rows, but not past the last page."""
        most = most_reasoning_scroll(self.state.frame, self.state.view, *self.app.size)
        self.first_row = max(0, min(most, self.first_row + rows))
        self.draw()

    def action_page(self, pages: int) -> None:
        """Scroll by a page."""
        self.action_move(pages * max(1, self.app.size.height - _FIXED_ROWS - PAGE_OVERLAP))

    def action_main(self, name: str, *arguments: int) -> None:
        """Run an action of the main screen."""
        self._main_actions[name](*arguments)
        self.draw()
