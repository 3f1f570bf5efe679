"""The app of ``iotop-ai fleet``."""

from __future__ import annotations

from collections.abc import Callable

from textual.driver import Driver
from textual.timer import Timer

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.fleet.client import Prometheus
from iotop_ai.fleet.refresh import FirstAnswer
from iotop_ai.model.errors import IotopError
from iotop_ai.present.fleet.view import FleetView
from iotop_ai.present.screen.view import View
from iotop_ai.tui.screens.fleet.screen import FleetScreen
from iotop_ai.tui.screens.fleet.state import FleetState
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.terminal_app import TerminalApp
from iotop_ai.tui.threads.fleet import FleetAnswered, FleetThread, HistoryAnswered

PICTURE_TITLE = "iotop-ai fleet"
MESSAGE_S = 4.0
AGE_S = 1.0
"""How often the age of the newest answer is drawn."""


class FleetApp(TerminalApp):
    """save: writes a screenshot and returns its path. cli reads ``opened`` (the machine to open, "" for none)."""

    def __init__(
        self,
        server: Prometheus,
        shown: FleetView,
        theme: str,
        driver_class: type[Driver] | None = None,
        save: Callable[[str], str] | None = None,
        first: FirstAnswer | None = None,
    ) -> None:
        super().__init__(shown.view, theme, driver_class)
        self.opened = ""
        self.state = FleetState(shown)
        self.state.thread = FleetThread(server, self, shown.window_s, shown.interval_s, first)
        self.state.draw = self._draw
        self.machines = FleetScreen(self.state, ThemeStyles(theme), self.open_machine, self.next_theme)
        self.root = self.machines
        self._save = save
        self._message_timer: Timer | None = None

    def current_view(self) -> View:
        """The View of the fleet's screens."""
        return self.state.shown.view

    def current_styles(self) -> ThemeStyles:
        """The styles of the theme."""
        return self.machines.theme_styles

    def use_styles(self, theme_styles: ThemeStyles) -> None:
        """Paint in another theme."""
        self.machines.use_theme(theme_styles)

    def on_mount(self) -> None:
        """Start to ask."""
        self.paint_ground()
        assert self.state.thread is not None
        self.state.thread.start()
        self.set_interval(AGE_S, self.state.tick)

    def on_unmount(self) -> None:
        """Ask no more; a question that hangs is left to its thread."""
        if self.state.thread is not None:
            self.state.thread.stop()

    def on_fleet_answered(self, message: FleetAnswered) -> None:
        """Show a refresh."""
        self.state.take(message.fleet, message.trouble)

    def on_history_answered(self, message: HistoryAnswered) -> None:
        """Show the graphs of a machine."""
        self.state.take_history(message.history)

    def _draw(self) -> None:
        """Draw the screen in front; a message goes after a while."""
        self.machines.update_front()
        text = self.state.shown.view.message
        if self._message_timer is not None and not text:
            self._message_timer.stop()
            self._message_timer = None
        elif text and self._message_timer is None:
            self._message_timer = self.set_timer(MESSAGE_S, self._forget_message)

    def _forget_message(self) -> None:
        self._message_timer = None
        self.state.change()

    def answer(self, text: str) -> None:
        """Answer a key."""
        self.state.change(text)

    def open_machine(self) -> None:
        """End the app, so that cli opens the machine under the cursor and comes back."""
        one = self.state.current
        if one is not None:
            self.opened = one.name
            self.exit()

    def action_picture(self) -> None:
        """Save a screenshot, and show its path."""
        if self._save is None:
            self.answer("not available: this screen may not write files")
            return
        svg, save = self.export_screenshot(title=PICTURE_TITLE), self._save
        try:
            self.answer(f"done: picture in {call_with_timeout(HOME_TIMEOUT_S, 'picture', lambda: save(svg))}")
        except IotopError as error:
            self.answer(f"failed: {error}")
        except OSError as error:
            self.answer(f"failed: {error.filename or 'picture'}: {error.strerror}")
