"""The screen of one disk, over the whole terminal."""

from __future__ import annotations

from iotop_ai.present.block.figures import device_or_selected, next_device
from iotop_ai.present.block.screen import TABS, DevicePage, device_screen_rows
from iotop_ai.present.health.view import health_disk
from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.screen.selection import next_in_order, selected_device_name
from iotop_ai.present.text.line import DISK_PREFIX, Line
from iotop_ai.store.source import Source
from iotop_ai.tui.bindings import DEVICE_KEYS
from iotop_ai.tui.dialogs.base import Backdrop
from iotop_ai.tui.screens.detail import DetailScreen
from iotop_ai.tui.screens.health import HealthScreen
from iotop_ai.tui.screens.main.machine_actions import MachineActions
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.time_actions import TimeActions
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.widgets.lines import RowClicked


class DeviceScreen(DetailScreen):
    """The screen of one disk. device: the kernel name of the block device that it shows; "" for the selected one."""

    BINDINGS = DEVICE_KEYS
    ACTIONS = SCREENS["device"]
    screen_name = "device"

    def __init__(
        self,
        state: MainState,
        time: TimeActions,
        source: Source,
        machine: MachineActions,
        theme_styles: ThemeStyles,
        device: str,
    ) -> None:
        super().__init__(state, time, theme_styles, "device-detail")
        self.device = device
        self.page = DevicePage()
        self._source = source
        self._machine = machine

    def rows(self, width: int, height: int) -> list[Line]:
        """The rows of the device."""
        return device_screen_rows(self.state.frame, self.state.view, width, height, self.device, self.page)

    def on_row_clicked(self, event: RowClicked) -> None:
        """Show the device whose row was clicked in the stack of devices."""
        event.stop()
        if event.key.startswith(DISK_PREFIX):
            self.device = event.key.removeprefix(DISK_PREFIX)
            self.draw()

    def action_device(self, step: int) -> None:
        """Show the next or previous device."""
        self.device = next_device(self.state.frame, self.state.view, self.device, step) or self.device
        self.draw()

    def action_tab(self, step: int) -> None:
        """Show the next or previous tab."""
        self.page = self.page._replace(tab=next_in_order(TABS, self.page.tab, step) or TABS[0])
        self.draw()

    def action_log(self) -> None:
        """Switch the chart between a logarithmic and a linear scale."""
        self.page = self.page._replace(log=not self.page.log)
        self.state.change(f"done: {'logarithmic' if self.page.log else 'linear'} scale of the tall chart")

    def action_check(self) -> None:
        """Open the dialog that measures this device, through its mount if it has one."""
        if device_or_selected(self.state.frame, self.state.view, self.device) is None:
            self.state.change(f"{self.device or 'a disk'} is not present, so it cannot be checked")
            return
        backdrop = Backdrop(self.state, lambda: self.rows(*self.app.size), self._theme_styles)
        self.app.push_screen(self._machine.storage_check_dialog(backdrop, self.device))

    def action_health(self) -> None:
        """Open the health screen of the disk that this device is, or lies on."""
        name = self.device or selected_device_name(self.state.frame, self.state.view)
        disk = health_disk(self.state.frame, name)
        if disk:
            threads = self._machine.threads
            self.app.push_screen(HealthScreen(self.state, self._time, self._source, threads, self._theme_styles, disk))
        else:
            self.state.change(f"no health data: no disk{f' below {name}' if name else ''} is seen")
            self.draw()
