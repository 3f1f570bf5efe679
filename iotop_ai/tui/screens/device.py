"""One block device over the whole screen, live."""

from __future__ import annotations

from typing import Protocol

from textual.app import ComposeResult
from textual.screen import Screen

from iotop_ai.model.frame import Frame
from iotop_ai.present.device_figures import device_after
from iotop_ai.present.device_screen import device_screen_rows
from iotop_ai.present.health_view import health_of
from iotop_ai.present.keymap import SCREENS
from iotop_ai.present.view import View
from iotop_ai.store.recording import Source
from iotop_ai.tui.bindings import DEVICE_KEYS
from iotop_ai.tui.screens.health import HealthScreen
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.widgets.lines import LinePanel, RowClicked
from iotop_ai.tui.widgets.styles import Styles

DISK_PREFIX = "disk:"


class Below(Protocol):
    """The main screen, whose Frame and View this one shows."""

    frame: Frame
    view: View

    def action_pause(self) -> None:
        """Stop drawing, or go on."""
        ...

    def action_interval(self, step: int) -> None:
        """A longer or shorter interval."""
        ...

    def change(self, message: str = "", **changes: object) -> None:
        """Change the View; ``message`` answers the key for a few seconds."""
        ...


class DeviceScreen(Screen[None]):
    """Follows the main screen's Frame; keeps only which device is shown."""

    BINDINGS = DEVICE_KEYS
    ACTS = SCREENS["device"]
    DEFAULT_CSS = "DeviceScreen { overflow: hidden; } DeviceScreen LinePanel { height: 1fr; }"

    def __init__(self, below: Below, source: Source, name: str, book: Styles) -> None:
        super().__init__()
        self.below = below
        self.device = name
        self._source = source
        self._book = book
        self.panel = LinePanel(book, id="device-detail")

    def compose(self) -> ComposeResult:
        """One panel."""
        self.follow()
        yield self.panel

    def follow(self) -> None:
        """Draw what the main screen has now; only changed rows are painted."""
        width, height = self.app.size
        self.panel.show(device_screen_rows(self.below.frame, self.below.view, width, height, self.device))

    def on_resize(self) -> None:
        """Fit it to the new size."""
        self.follow()

    def on_screen_resume(self) -> None:
        """Catch up with what came while another screen was in front."""
        self.follow()

    def on_row_clicked(self, event: RowClicked) -> None:
        """A click on another device of the stack shows that one."""
        event.stop()
        if event.key.startswith(DISK_PREFIX):
            self.device = event.key.removeprefix(DISK_PREFIX)
            self.follow()

    def action_back(self) -> None:
        """To the main screen."""
        if self.is_current:  # two keys in one read are two events
            self.app.pop_screen()

    def action_device(self, step: int) -> None:
        """The next or previous device."""
        self.device = device_after(self.below.frame, self.below.view, self.device, step) or self.device
        self.follow()

    def action_health(self) -> None:
        """The health of the disk that this device is or lies on."""
        disk = health_of(self.below.frame, self.device)
        if disk:
            self.app.push_screen(HealthScreen(self.below, self._source, self._book, disk))
        else:
            self.below.change(f"failed: {self.device} lies on no disk that could tell its health")
            self.follow()

    def action_pause(self) -> None:
        """Stop drawing, or draw what is newest."""
        self.below.action_pause()
        self.follow()

    def action_interval(self, step: int) -> None:
        """A longer or shorter interval."""
        self.below.action_interval(step)
        self.follow()

    def action_help(self) -> None:
        """The help page."""
        self.app.push_screen(HelpScreen(self.below.frame, self.below.view, self._book))
