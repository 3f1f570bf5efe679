"""The base classes of the screens over the main one, which show the main screen's Frame in other ways."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from textual.events import Key

from iotop_ai.tui.screens.base import LiveScreen
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.time_actions import TimeActions
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.widgets.lines import Wheeled

PAGE_OVERLAP = 2
"""The number of rows of a page that the next page shows again."""


class TimedScreen(LiveScreen):
    """A live screen over the main one, on which the user can type a time.

    state, time: the main screen's state, and its controller of the keys that move through time.
    """

    def __init__(self, state: MainState, time: TimeActions, theme_styles: ThemeStyles, panel_id: str) -> None:
        super().__init__(theme_styles, panel_id)
        self.state = state
        self._time = time
        self._theme_styles = theme_styles
        # The answer to an earlier key would cover this screen's list of keys for a few seconds.
        state.update(message="")

    @property
    def captures_keys(self) -> bool:
        """Whether the user is typing a time."""
        return self.state.view.time_input is not None

    def on_key(self, event: Key) -> None:
        """Handle the key that opens the time input, and every key while the input is open.

        They are handled within this call, so that the next keys of the same burst of input go to the time input.
        """
        if self.captures_keys:
            self._time.type_time(event.key, event.character)
        else:
            active = self.active_bindings.get(event.key)
            if active is None or active.binding.action != "ask_time":
                return
            self.action_ask_time()
        event.stop()
        event.prevent_default()

    def action_ask_time(self) -> None:
        """Begin to type a time."""
        self._time.ask_time()


class DetailScreen(TimedScreen):
    """A screen about a part of the main one. A subclass makes the rows and keeps which row or device is selected."""

    screen_name: ClassVar[str]
    """The screen's key in SCREENS of present/screen/actions.py."""

    def action_back(self) -> None:
        """Return to the main screen."""
        self.leave()

    def action_pause(self) -> None:
        """Pause the drawing, or resume it with the newest Frame."""
        self._time.pause()
        self.draw()

    def action_interval(self, step: int) -> None:
        """Set a longer or shorter interval; for a playback, a higher or lower speed."""
        self._time.change_interval(step)
        self.draw()

    def action_help(self) -> None:
        """Open the help page."""
        self.app.push_screen(HelpScreen(self.state.view, self._theme_styles, self.screen_name))


class ScrolledScreen(DetailScreen):
    """A DetailScreen whose rows scroll."""

    @abstractmethod
    def action_move(self, rows: int) -> None:
        """Scroll by this many rows, but not past the last page, and draw."""

    def on_resize(self) -> None:
        """Fit the rows to the new size."""
        self.action_move(0)

    def on_wheeled(self, event: Wheeled) -> None:
        """Scroll with the mouse wheel."""
        event.stop()
        self.action_move(event.step)
