"""The app of ``iotop-ai fleet``."""

from __future__ import annotations

from collections.abc import Callable

from textual.driver import Driver
from textual.timer import Timer

from iotop_ai.fleet.client import Prometheus
from iotop_ai.fleet.refresh import FirstAnswer
from iotop_ai.present.fleet.view import FleetView
from iotop_ai.tui.screens.fleet.screen import FleetScreen
from iotop_ai.tui.screens.fleet.state import FleetState
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.terminal_app import TerminalApp
from iotop_ai.tui.threads.fleet import FleetAnswered, FleetThread, HistoryAnswered

MESSAGE_S = 4.0
"""The seconds for which a message is shown."""
AGE_S = 1.0
"""The seconds between two updates of the age of the last answer."""


class FleetApp(TerminalApp):
    """The app with the screens of the fleet. opened: the machine that the command opens after the app has ended; "" for
    none.
    """

    PICTURE_TITLE = "iotop-ai fleet"

    def __init__(
        self,
        server: Prometheus,
        fleet_view: FleetView,
        theme: str,
        driver_class: type[Driver] | None = None,
        save: Callable[[str], str] | None = None,
        first_answer: FirstAnswer | None = None,
    ) -> None:
        super().__init__(fleet_view.view, theme, driver_class, save)
        self.opened = ""
        self.state = FleetState(fleet_view)
        self.state.thread = FleetThread(server, self, fleet_view.window_s, fleet_view.interval_s, first_answer)
        self.state.draw = self._draw
        self.machines_screen = FleetScreen(self.state, ThemeStyles(theme), self.open_machine, self.next_theme)
        self.root = self.machines_screen
        self._message_timer: Timer | None = None
        self._timed_message = ""
        """The message that the timer will remove."""

    def on_mount(self) -> None:
        """Start the queries, and the timer that updates the age of the last answer."""
        self.paint_background()
        assert self.state.thread is not None
        self.state.thread.start()
        self.set_interval(AGE_S, self.state.tick)

    def on_unmount(self) -> None:
        """Stop the queries. A query that hangs is left to its thread."""
        if self.state.thread is not None:
            self.state.thread.stop()

    def on_fleet_answered(self, message: FleetAnswered) -> None:
        """Show the result of a refresh."""
        self.state.take(message.fleet, message.trouble)

    def on_history_answered(self, message: HistoryAnswered) -> None:
        """Show the graphs of a machine."""
        self.state.take_history(message.history)

    def _draw(self) -> None:
        """Draw the screen in front, and remove a message after MESSAGE_S."""
        self.machines_screen.update_front()
        text = self.state.fleet_view.view.message
        if text == self._timed_message:
            return
        self._timed_message = text
        if self._message_timer is not None:
            self._message_timer.stop()
        self._message_timer = self.set_timer(MESSAGE_S, self._forget_message) if text else None

    def _forget_message(self) -> None:
        self._message_timer = None
        self.state.change()

    def open_machine(self) -> None:
        """End the app. The command then opens the machine under the cursor, and starts the app again when the user
        leaves the machine.
        """
        machine = self.state.current
        if machine is not None:
            self.opened = machine.name
            self.exit()
