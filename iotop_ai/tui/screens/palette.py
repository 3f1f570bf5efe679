"""Every action of the screen below, with its key: type to find one, Enter does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.app import ComposeResult
from textual.events import Key, Paste
from textual.screen import Screen

from iotop_ai.present.keymap import Act
from iotop_ai.present.palette import ACTIONS, MARKED, Entry, Wording, found, palette_rows
from iotop_ai.tui.choose import typed
from iotop_ai.tui.passing import passed_on
from iotop_ai.tui.widgets.lines import LinePanel, RowClicked, Wheeled
from iotop_ai.tui.widgets.styles import Styles

LONGEST = 60


class PaletteScreen(Screen[None]):
    """Every key belongs to it while it is in front. do: runs an action on the screen below, which is in front then."""

    DEFAULT_CSS = "PaletteScreen { overflow: hidden; } PaletteScreen LinePanel { height: 1fr; }"

    def __init__(
        self,
        every: tuple[Entry, ...],
        book: Styles,
        do: Callable[[Act], Awaitable[None]],
        wording: Wording = ACTIONS,
        *,
        ascii_only: bool = False,
    ) -> None:
        super().__init__()
        self._every = every
        self._do = do
        self._wording = wording
        self._ascii_only = ascii_only
        self.typed = ""
        self.at = 0
        self.panel = LinePanel(book, id="palette")

    def compose(self) -> ComposeResult:
        """One panel."""
        self._draw()
        yield self.panel

    @property
    def shown(self) -> tuple[Entry, ...]:
        """The entries that match what is typed."""
        return found(self._every, self.typed)

    def on_resize(self) -> None:
        """Fit it to the new size."""
        self._draw()

    def on_key(self, event: Key) -> None:
        """Move, find, do or go back."""
        if event.key in ("ctrl+c", "ctrl+z"):
            return
        event.stop()
        event.prevent_default()
        if passed_on(self, event):
            return
        if event.key in ("escape", "ctrl+p", "f10"):
            self.app.pop_screen()
        elif event.key == "enter":
            if self.shown:
                self._choose(self.shown[self.at].act)
        elif event.key in _STEPS:
            self._move(_STEPS[event.key])
        else:
            self._find(typed(self.typed, event.key, event.character))

    def on_paste(self, event: Paste) -> None:
        """What is pasted is no search."""
        event.stop()

    def on_row_clicked(self, event: RowClicked) -> None:
        """Do what was clicked."""
        event.stop()
        chosen = next((entry for entry in self._every if MARKED + entry.act.name == event.key), None)
        if chosen is not None and self.is_current:
            self._choose(chosen.act)

    def on_wheeled(self, event: Wheeled) -> None:
        """The wheel moves the cursor."""
        event.stop()
        self._move(event.step)

    def _choose(self, act: Act) -> None:
        # A screen that waits for its own end waits for ever: the app does the rest.
        self.app.pop_screen()
        self.app.call_later(self._do, act)

    def _move(self, step: int) -> None:
        self.at = max(0, min(len(self.shown) - 1, self.at + step))
        self._draw()

    def _find(self, text: str) -> None:
        if text[:LONGEST] != self.typed:
            self.typed, self.at = text[:LONGEST], 0
            self._draw()

    def _draw(self) -> None:
        width, height = self.app.size
        rows = palette_rows(self.shown, self.at, self.typed, width, height, self._wording, ascii_only=self._ascii_only)
        self.panel.show(rows)


_STEPS = {"down": 1, "up": -1, "pagedown": 10, "pageup": -10, "home": -1_000_000, "end": 1_000_000}
