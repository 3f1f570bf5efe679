"""The base class of the dialogs over another screen: a dialog takes all keys, and Esc closes it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.events import Key, Paste

from iotop_ai.present.screen.dialog import Row, dialog_rows, inner_width
from iotop_ai.present.text.line import Line
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.tui.screens.base import LiveScreen
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.view_changes import pasted_line

LONGEST_TEXT = 512
"""The maximum number of characters of the typed text."""


class Backdrop(NamedTuple):
    """The parts of the screen below that a dialog needs."""

    state: MainState
    rows: Callable[[], Sequence[Line]]
    """Makes the current rows of the screen below."""
    theme_styles: ThemeStyles


class DialogScreen(LiveScreen):
    """A dialog in which the user types ``text``. Subclasses make the rows and act on Enter."""

    takes_paste = False
    """Whether pasted text counts as typed. A path may be pasted; a confirmation must be typed."""

    def __init__(self, backdrop: Backdrop) -> None:
        super().__init__(backdrop.theme_styles, "dialog")
        self.state = backdrop.state
        self.typed = TypedText()
        self._rows_behind = backdrop.rows

    @property
    def text(self) -> str:
        """The typed text. Setting it moves the cursor to its end."""
        return self.typed.text

    @text.setter
    def text(self, text: str) -> None:
        self.typed = TypedText(text)

    @abstractmethod
    def heading(self) -> tuple[str, str]:
        """The title, and the object that the dialog is about."""

    @abstractmethod
    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """The rows of the explanation, and the rows of the choice."""

    @abstractmethod
    def enter(self) -> None:
        """Act on the typed text."""

    def handle_special_key(self, key: str) -> bool:
        """Handle a key that does not edit the text; returns False for a key that does."""
        return False

    def text_changed(self) -> None:
        """Called after the typed text has changed."""

    def rows(self, width: int, height: int) -> list[Line]:
        """The dialog over the rows of the screen below."""
        title, note = self.heading()
        head, tail = self.body(inner_width(width))
        ascii_only = self.state.view.ascii_only
        return dialog_rows(self._rows_behind(), title, note, head, tail, (width, height), ascii_only=ascii_only)

    def on_key(self, event: Key) -> None:
        """Handle all keys, so that none of them reaches the screen below."""
        event.stop()
        event.prevent_default()
        self.press(event)

    def press(self, event: Key) -> None:
        """Handle a key, including one that another screen received."""
        if event.key == "escape":
            self.leave()
            return
        if event.key == "enter":
            self.enter()
        elif not self.handle_special_key(event.key):
            self.typed = self.typed.after(event.key, event.character, LONGEST_TEXT)
            self.text_changed()
        if self.is_attached:
            self.draw()

    def on_paste(self, event: Paste) -> None:
        """Insert the first line of a pasted text, if ``takes_paste``."""
        event.stop()
        if self.takes_paste:
            self.typed = self.typed.with_inserted(pasted_line(event.text, LONGEST_TEXT), LONGEST_TEXT)
            self.text_changed()
            self.draw()
