"""One GPU over the whole screen, live."""

from __future__ import annotations

from typing import Protocol

from textual.app import ComposeResult
from textual.screen import Screen

from iotop_ai.model.frame import Frame
from iotop_ai.present.gpu_screen import gpu_after, gpu_screen_rows
from iotop_ai.present.keymap import SCREENS
from iotop_ai.present.view import View
from iotop_ai.tui.bindings import GPU_KEYS
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.widgets.lines import LinePanel
from iotop_ai.tui.widgets.styles import Styles


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


class GpuScreen(Screen[None]):
    """Follows the main screen's Frame; keeps only which GPU is shown."""

    BINDINGS = GPU_KEYS
    ACTS = SCREENS["gpu"]
    DEFAULT_CSS = "GpuScreen { overflow: hidden; } GpuScreen LinePanel { height: 1fr; }"

    def __init__(self, below: Below, uuid: str, book: Styles) -> None:
        super().__init__()
        self.below = below
        self.uuid = uuid
        self._book = book
        self.panel = LinePanel(book, id="gpu-detail")

    def compose(self) -> ComposeResult:
        """One panel."""
        self.follow()
        yield self.panel

    def follow(self) -> None:
        """Draw what the main screen has now; only changed rows are painted."""
        width, height = self.app.size
        self.panel.show(gpu_screen_rows(self.below.frame, self.below.view, width, height, self.uuid))

    def on_resize(self) -> None:
        """Fit it to the new size."""
        self.follow()

    def on_screen_resume(self) -> None:
        """Catch up with what came while the help was in front."""
        self.follow()

    def action_back(self) -> None:
        """To the main screen."""
        if self.is_current:  # two keys in one read are two events
            self.app.pop_screen()

    def action_gpu(self, step: int) -> None:
        """The next or previous GPU."""
        self.uuid = gpu_after(self.below.frame, self.below.view, self.uuid, step) or self.uuid
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
