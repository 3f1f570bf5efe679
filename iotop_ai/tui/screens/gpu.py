"""One GPU over the whole screen, live."""

from __future__ import annotations

from typing import Any

from iotop_ai.present.gpu_screen import gpu_after, gpu_screen_rows
from iotop_ai.present.keymap import SCREENS
from iotop_ai.present.line import Line
from iotop_ai.tui.bindings import GPU_KEYS
from iotop_ai.tui.screens.detail import DetailScreen
from iotop_ai.tui.widgets.styles import Styles


class GpuScreen(DetailScreen):
    """Follows the main screen's Frame; keeps only which GPU is shown."""

    BINDINGS = GPU_KEYS
    ACTS = SCREENS["gpu"]
    name_of_screen = "gpu"
    panel_id = "gpu-detail"

    def __init__(self, below: Any, uuid: str, book: Styles) -> None:
        super().__init__(below, book)
        self.uuid = uuid

    def rows(self, width: int, height: int) -> list[Line]:
        """The GPU."""
        return gpu_screen_rows(self.below.frame, self.below.view, width, height, self.uuid)

    def action_gpu(self, step: int) -> None:
        """The next or previous GPU."""
        self.uuid = gpu_after(self.below.frame, self.below.view, self.uuid, step) or self.uuid
        self.follow()
