"""A notice in place of a dialog: it takes the dialog's keys, so that none of them is a command."""

from __future__ import annotations

from textual.events import Key

from iotop_ai.present.screen.dialog import Row, labelled
from iotop_ai.present.text.line import Span
from iotop_ai.tui.dialogs.base import Backdrop, DialogScreen


class NoticeScreen(DialogScreen):
    """Says why a dialog does not open. title: that dialog's title. why: one clause."""

    def __init__(self, backdrop: Backdrop, title: str, why: str) -> None:
        super().__init__(backdrop)
        self._title = title
        self._why = why

    def heading(self) -> tuple[str, str]:
        """The title."""
        return self._title, ""

    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """The reason."""
        head = labelled("not here", self._why, width, token="warn")
        return head, [[Span("   Enter", "key"), Span(" or ", "dim"), Span("Esc", "key"), Span(":close", "dim")]]

    def press(self, event: Key) -> None:
        """Enter and Esc close it; every other key is ignored."""
        if event.key in ("escape", "enter"):
            self.leave()

    def enter(self) -> None:
        """Do nothing: there is nothing to confirm."""
