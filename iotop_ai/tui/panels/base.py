"""A panel of the main screen: a name of the layout and the function that makes its rows."""

from __future__ import annotations

from typing import ClassVar

from iotop_ai.model.frame import Frame
from iotop_ai.present.line import Line, blank
from iotop_ai.present.view import View
from iotop_ai.tui.widgets.lines import LinePanel
from iotop_ai.tui.widgets.styles import Styles


class FramePanel(LinePanel):
    """Shows what its rows function makes of a Frame."""

    name_of_panel: ClassVar[str]
    rows: ClassVar[staticmethod[[Frame, View, int, int], list[Line]]]

    def __init__(self, book: Styles) -> None:
        super().__init__(book, id=self.name_of_panel)
        self.height_on_screen = 0
        """Rows given to the panel, the blank ones before the next panel included."""

    def draw(self, frame: Frame, view: View, width: int, height: int, toast: Line | None = None) -> None:
        """Make the rows and show those that changed. toast: covers the panel's last row on the screen."""
        lines = self.rows(frame, view, width, height)
        if toast is not None:
            below = max(height, self.height_on_screen) - 1
            lines = [*[*lines, *[blank(width)] * (below - len(lines))][:below], toast]
        self.show(lines)
