"""The help over the whole terminal: the keys, and the meaning of the columns."""

from __future__ import annotations

from textual.events import Click, Key

from iotop_ai.present.screen.actions import all_actions
from iotop_ai.present.screen.help import help_rows, page_count
from iotop_ai.present.screen.keymap import keys_of_action
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line
from iotop_ai.tui.screens.base import PanelScreen
from iotop_ai.tui.styles import ThemeStyles

_STEPS = {"space": 1, "pagedown": 1, "right": 1, "tab": 1, "pageup": -1, "left": -1, "shift+tab": -1}


class HelpScreen(PanelScreen):
    """The help, which begins with the keys of the screen below.

    Space, PageDown, Right and Tab show the next page; PageUp, Left and Shift-Tab show the previous page. A click, any
    other key except Ctrl-Z, and on the last page also the keys for the next page, close the help.
    """

    def __init__(self, view: View, theme_styles: ThemeStyles, screen_below: str = "main") -> None:
        super().__init__(theme_styles, "help")
        self.page = 0
        self._view = view
        self._screen_below = screen_below

    def rows(self, width: int, height: int) -> list[Line]:
        """The rows of the page."""
        return help_rows(self._view, width, height, self.page, self._screen_below)

    def on_resize(self) -> None:
        """Keep the page, or go to the last page if the new size has fewer pages.

        Textual then calls the handler of the base class, which draws the page.
        """
        self.page = min(self.page, self._last_page())

    def _last_page(self) -> int:
        return page_count(*self.app.size, self._view, self._screen_below) - 1

    async def on_key(self, event: Key) -> None:
        """Show another page, or close the help. The keys that open the palette do so on the screen below."""
        if event.key == "ctrl+z":
            return
        event.stop()
        event.prevent_default()
        if event.key in keys_of_action(all_actions()["app.palette"], self._view.keymap):
            self.leave()
            await self.app.run_action("palette")
            return
        step = _STEPS.get(event.key, 0)
        last = self._last_page()
        if step and 0 <= self.page + step <= last:
            self.page += step
            self.draw()
        elif not (step < 0 and last):
            self.leave()

    def on_click(self, event: Click) -> None:
        """Close the help."""
        event.stop()
        self.leave()
