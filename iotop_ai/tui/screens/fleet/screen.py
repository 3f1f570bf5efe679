"""The fleet's screen, with a row for each machine."""

from __future__ import annotations

from collections.abc import Callable

from textual.events import Key, Paste

from iotop_ai.present.fleet.screen import fleet_screen_rows, list_height
from iotop_ai.present.fleet.table import PREFIX
from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.tui.bindings import FLEET_KEYS
from iotop_ai.tui.screens.base import LiveScreen, RootScreen
from iotop_ai.tui.screens.fleet.jobs import FleetJobsScreen
from iotop_ai.tui.screens.fleet.state import FleetState
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.view_changes import pasted_line, view_after_move
from iotop_ai.tui.widgets.lines import RowClicked, Wheeled

LONGEST_PATTERN = 200
"""The largest number of characters of a filter."""


class FleetScreen(LiveScreen, RootScreen):
    """The root screen of ``iotop-ai fleet``, below all others on the stack of screens.

    open_machine: opens the machine under the cursor. next_theme: switches to the next theme and returns its name.
    """

    BINDINGS = FLEET_KEYS
    ACTIONS = SCREENS["fleet"]

    def __init__(
        self,
        state: FleetState,
        theme_styles: ThemeStyles,
        open_machine: Callable[[], None],
        next_theme: Callable[[], str],
    ) -> None:
        super().__init__(theme_styles, "fleet")
        self.theme_styles = theme_styles
        self.state = state
        self._open_machine = open_machine
        self._next_theme = next_theme

    @property
    def view(self) -> View:
        """The user's choices of how the machines are shown."""
        return self.state.fleet_view.view

    @property
    def captures_keys(self) -> bool:
        """Whether the user is typing the filter."""
        return self.view.typing

    def rows(self, width: int, height: int) -> list[Line]:
        """The rows of the whole screen."""
        self.state.width = width
        return fleet_screen_rows(self.state.fleet, self.state.fleet_view, width, height)

    def use_theme(self, theme_styles: ThemeStyles) -> None:
        """Paint the screen in another theme."""
        self.theme_styles = theme_styles
        self.panel.use_theme(theme_styles)

    def show_answer(self, text: str) -> None:
        """Show a short answer to a key."""
        self.state.change(text)

    def on_key(self, event: Key) -> None:
        """While the filter is being typed, pass it every key except Ctrl-C and Ctrl-Z. The key that opens the filter is
        handled here, so that the next key of the same burst is already taken as text.
        """
        view = self.state.fleet_view.view
        if not view.typing:
            active = self.active_bindings.get(event.key)
            if active is not None and active.binding.action == "find":
                event.stop()
                event.prevent_default()
                self.action_find()
            return
        if event.key in ("ctrl+c", "ctrl+z"):
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.state.change(pattern="", typing=False, scroll=0)
        elif event.key == "enter":
            self.state.change(typing=False)
        elif event.key in ("down", "up"):
            self.state.change(typing=False)
            self.action_move(1 if event.key == "down" else -1)
        else:
            self._filter(TypedText(view.pattern, view.text_right).after(event.key, event.character, LONGEST_PATTERN))

    def on_paste(self, event: Paste) -> None:
        """Insert the first line of a pasted text into the filter."""
        event.stop()
        view = self.state.fleet_view.view
        if view.typing:
            typed = TypedText(view.pattern, view.text_right)
            self._filter(typed.with_inserted(pasted_line(event.text), LONGEST_PATTERN))

    def _filter(self, typed: TypedText) -> None:
        if typed.text == self.state.fleet_view.view.pattern:
            self.state.change(text_right=typed.right)
        else:
            self.state.change(pattern=typed.text, text_right=typed.right, scroll=0)

    def on_row_clicked(self, event: RowClicked) -> None:
        """Put the cursor on the row that was clicked; open its machine if the cursor was there already."""
        event.stop()
        name = event.key.removeprefix(PREFIX)
        if name == self.state.fleet_view.view.cursor:
            self._open_machine()
        else:
            self.state.change(cursor=name)

    def on_wheeled(self, event: Wheeled) -> None:
        """Move as the arrow keys do."""
        event.stop()
        self.action_move(event.step)

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        names = [machine.name for machine in self.state.machines]
        view = self.state.fleet_view.view
        if names and view.cursor not in names:
            view = view._replace(cursor=names[0])
        after = view_after_move(view, names, step, list_height(self.app.size.height) - 1)
        self.state.change(cursor=after.cursor, scroll=after.scroll)

    def action_page(self, pages: int) -> None:
        """Move by a page."""
        self.action_move(pages * max(1, list_height(self.app.size.height) - 2))

    def action_open(self) -> None:
        """Open the machine under the cursor."""
        self._open_machine()

    def action_jobs(self) -> None:
        """Open the jobs that run on several machines."""
        self.app.push_screen(FleetJobsScreen(self.state, self.theme_styles))

    def action_find(self) -> None:
        """Begin to type a filter."""
        self.state.change(typing=True, text_right=0)

    def action_clear(self) -> None:
        """Clear the filter."""
        self.state.change(pattern="", scroll=0)

    def action_sort(self, step: int) -> None:
        """Sort by another column."""
        self.state.sort(step)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.state.change(reverse=not self.state.fleet_view.view.reverse, scroll=0, cursor="")

    def action_pause(self) -> None:
        """Pause the refreshes, or resume them."""
        self.state.pause()

    def action_interval(self, step: int) -> None:
        """Set a longer or shorter interval between refreshes."""
        self.state.change_interval(step)

    def action_refresh(self) -> None:
        """Refresh now."""
        if self.state.thread is not None:
            self.state.thread.refresh()

    def action_theme(self) -> None:
        """Switch to the next theme."""
        self.state.change(f"done: theme {self._next_theme()}")

    def action_help(self) -> None:
        """Open the help page."""
        self.app.push_screen(HelpScreen(self.state.fleet_view.view, self.theme_styles, "fleet"))
