"""The screen of one GPU, over the whole terminal."""

from __future__ import annotations

from iotop_ai.present.gpu.screen import gpu_screen_rows, next_gpu
from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.text.line import Line
from iotop_ai.tui.bindings import GPU_KEYS
from iotop_ai.tui.screens.detail import DetailScreen
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.time_actions import TimeActions
from iotop_ai.tui.styles import ThemeStyles


class GpuScreen(DetailScreen):
    """The screen of one GPU. uuid: the UUID of the GPU that it shows."""

    BINDINGS = GPU_KEYS
    ACTIONS = SCREENS["gpu"]
    screen_name = "gpu"

    def __init__(self, state: MainState, time: TimeActions, theme_styles: ThemeStyles, uuid: str) -> None:
        super().__init__(state, time, theme_styles, "gpu-detail")
        self.uuid = uuid

    def rows(self, width: int, height: int) -> list[Line]:
        """The rows of the GPU."""
        return gpu_screen_rows(self.state.frame, self.state.view, width, height, self.uuid)

    def action_gpu(self, step: int) -> None:
        """Show the next or previous GPU."""
        self.uuid = next_gpu(self.state.frame, self.state.view, self.uuid, step) or self.uuid
        self.draw()
