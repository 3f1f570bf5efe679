"""A list to choose from, searched by typing: the actions of the screen below, or devices, columns, sort orders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.events import Key, Paste

from iotop_ai.present.screen.actions import Action
from iotop_ai.present.screen.palette import (
    ACTION_WORDING,
    KEY_PREFIX,
    Entry,
    Wording,
    matching_commands,
    matching_entries,
    palette_rows,
)
from iotop_ai.present.text.line import Line
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.tui.screens.base import PanelScreen
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.widgets.lines import RowClicked, Wheeled

LONGEST = 60
"""The largest number of characters that the user can type."""
_STEPS = {"down": 1, "up": -1, "pagedown": 10, "pageup": -10, "home": -1_000_000, "end": 1_000_000}

TakeAction = Callable[[Action], Awaitable[None]]


class PaletteScreen(PanelScreen):
    """The list, which takes all keys. take: called with the Action of the chosen entry after this screen has closed.

    commands: (name, help) of each command of the shell; a command whose name is typed is shown too, but not run.
    """

    def __init__(
        self,
        entries: tuple[Entry, ...],
        theme_styles: ThemeStyles,
        take: TakeAction,
        wording: Wording = ACTION_WORDING,
        *,
        ascii_only: bool = False,
        commands: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(theme_styles, "palette")
        self._commands = commands
        self._entries = entries
        self._take = take
        self._wording = wording
        self._ascii_only = ascii_only
        self.typed = ""
        self.cursor = 0

    @property
    def matches(self) -> tuple[Entry, ...]:
        """The entries that match the typed text."""
        return matching_entries(self._entries, self.typed)

    def rows(self, width: int, height: int) -> list[Line]:
        """The typed text, and the entries that match it."""
        return palette_rows(
            self.matches,
            self.cursor,
            self.typed,
            width,
            height,
            self._wording,
            ascii_only=self._ascii_only,
            commands=matching_commands(self._commands, self.typed),
        )

    def on_key(self, event: Key) -> None:
        """Move the cursor, search, choose an entry, or close the list."""
        if event.key in ("ctrl+c", "ctrl+z"):
            return
        event.stop()
        event.prevent_default()
        if event.key in ("escape", "ctrl+p", "f10"):
            self.leave()
        elif event.key == "enter":
            if self.matches:
                self._choose(self.matches[self.cursor].action)
        elif event.key in _STEPS:
            self._move(_STEPS[event.key])
        else:
            self._search(TypedText(self.typed).after(event.key, event.character, LONGEST).text)

    def on_paste(self, event: Paste) -> None:
        """Ignore pasted text."""
        event.stop()

    def on_row_clicked(self, event: RowClicked) -> None:
        """Choose the entry that was clicked."""
        event.stop()
        entry = next((entry for entry in self._entries if KEY_PREFIX + entry.action.name == event.key), None)
        if entry is not None:
            self._choose(entry.action)

    def on_wheeled(self, event: Wheeled) -> None:
        """Move the cursor."""
        event.stop()
        self._move(event.step)

    def _choose(self, action: Action) -> None:
        if not self.is_current:  # an earlier key or click in the same burst of input has chosen already
            return
        # The app calls ``take``, because a screen cannot await its removal.
        self.app.pop_screen()
        self.app.call_later(self._take, action)

    def _move(self, step: int) -> None:
        self.cursor = max(0, min(len(self.matches) - 1, self.cursor + step))
        self.draw()

    def _search(self, text: str) -> None:
        if text != self.typed:
            self.typed, self.cursor = text, 0
            self.draw()
