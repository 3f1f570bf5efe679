"""A notice that opens in place of a dialog. It takes the keys meant for the dialog, so that none of them acts as a
command.
"""

from __future__ import annotations

from textual.events import Key

from iotop_ai.present.screen.dialog import Row, labelled_rows
from iotop_ai.present.text.line import Span
from iotop_ai.tui.dialogs.base import Backdrop, DialogScreen


class NoticeScreen(DialogScreen):
    """Shows why a dialog cannot open. title: the title of the dialog. why: the reason as one clause."""

    def __init__(self, backdrop: Backdrop, title: str, why: str) -> None:
        super().__init__(backdrop)
        self._title = title
        self._why = why

    def heading(self) -> tuple[str, str]:
        """The title of the dialog."""
        return self._title, ""

    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """The reason."""
        head = labelled_rows("not here", self._why, width, token="warn")
        return head, [[Span("   Enter", "key"), Span(" or ", "dim"), Span("Esc", "key"), Span(":close", "dim")]]

    def press(self, event: Key) -> None:
        """Close the notice with Enter or Esc; ignore all other keys."""
        if event.key in ("escape", "enter"):
            self.leave()

    def enter(self) -> None:
        """Do nothing: ``press`` closes the notice."""
