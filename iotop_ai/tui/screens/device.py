"""One block device over the whole screen, live."""

from __future__ import annotations

from typing import Any

from iotop_ai.present.device_figures import device_after
from iotop_ai.present.device_screen import device_screen_rows
from iotop_ai.present.health_view import health_of
from iotop_ai.present.keymap import SCREENS
from iotop_ai.present.line import DISK_PREFIX, Line
from iotop_ai.store.recording import Source
from iotop_ai.tui.bindings import DEVICE_KEYS
from iotop_ai.tui.screens.detail import DetailScreen
from iotop_ai.tui.screens.health import HealthScreen
from iotop_ai.tui.widgets.lines import RowClicked
from iotop_ai.tui.widgets.styles import Styles


class DeviceScreen(DetailScreen):
    """Follows the main screen's Frame; keeps only which device is shown."""

    BINDINGS = DEVICE_KEYS
    ACTS = SCREENS["device"]
    name_of_screen = "device"
    panel_id = "device-detail"

    def __init__(self, below: Any, source: Source, name: str, book: Styles) -> None:
        super().__init__(below, book)
        self.device = name
        self._source = source

    def rows(self, width: int, height: int) -> list[Line]:
        """The device."""
        return device_screen_rows(self.below.frame, self.below.view, width, height, self.device)

    def on_row_clicked(self, event: RowClicked) -> None:
        """A click on another device of the stack shows that one."""
        event.stop()
        if event.key.startswith(DISK_PREFIX):
            self.device = event.key.removeprefix(DISK_PREFIX)
            self.follow()

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
