"""The base of every question over the main screen: it takes every key, and Esc leaves it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

from textual.app import ComposeResult
from textual.events import Key, Paste
from textual.screen import Screen

from iotop_ai.model.clean import clean
from iotop_ai.model.frame import Frame
from iotop_ai.present.dialogue import Row, dialogue_rows, inner_width
from iotop_ai.present.line import Line
from iotop_ai.present.view import View
from iotop_ai.tui.choose import typed
from iotop_ai.tui.passing import passed_on
from iotop_ai.tui.widgets.lines import LinePanel
from iotop_ai.tui.widgets.styles import Styles

LONGEST = 512


class Behind(Protocol):
    """The main screen, over which the question stands."""

    newest: Frame
    view: View

    def behind(self) -> Sequence[Line]:
        """Its rows as they are now."""
        ...


class DialogueScreen(Screen[None]):
    """``text`` is what has been typed so far. Subclasses say what is asked and what Enter does."""

    DEFAULT_CSS = "DialogueScreen { overflow: hidden; } DialogueScreen LinePanel { height: 1fr; }"
    takes_paste = False
    """Whether pasted text is typed text: of a path, never of a confirmation."""

    def __init__(self, below: Behind, book: Styles) -> None:
        super().__init__()
        self.below = below
        self.text = ""
        self.panel = LinePanel(book, id="dialogue")

    def compose(self) -> ComposeResult:
        """One panel."""
        self.follow()
        yield self.panel

    @abstractmethod
    def heading(self) -> tuple[str, str]:
        """The title and what it is about."""

    @abstractmethod
    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """What and at which cost; the choice."""

    @abstractmethod
    def enter(self) -> None:
        """Take what was typed."""

    def special(self, key: str) -> bool:
        """Whether a key means something other than a character here; does what it means."""
        return False

    def follow(self) -> None:
        """Draw what is there now; only changed rows are painted."""
        width, height = self.app.size
        title, note = self.heading()
        head, tail = self.body(inner_width(width))
        rows = dialogue_rows(
            self.below.behind(), title, note, head, tail, (width, height), ascii_only=self.below.view.ascii_only
        )
        self.panel.show(rows)

    def on_resize(self) -> None:
        """Fit it to the new size."""
        self.follow()

    def on_key(self, event: Key) -> None:
        """Every key belongs to the question."""
        event.stop()
        event.prevent_default()
        if not passed_on(self, event):
            self.press(event)

    def press(self, event: Key) -> None:
        """One key, whichever screen it reached."""
        if event.key == "escape":
            self.leave()
            return
        if event.key == "enter":
            self.enter()
        elif not self.special(event.key):
            self.text = typed(self.text, event.key, event.character)[:LONGEST]
            self.changed()
        if self.is_attached:
            self.follow()

    def changed(self) -> None:
        """The typed text is another one."""

    def on_paste(self, event: Paste) -> None:
        """A pasted word is no typed one, but a path may be pasted."""
        event.stop()
        if self.takes_paste:
            self.text = (self.text + clean(event.text.partition("\n")[0], LONGEST))[:LONGEST]
            self.follow()

    def leave(self) -> None:
        """Back to the main screen."""
        if self.is_current:  # two keys in one read are two events
            self.app.pop_screen()
