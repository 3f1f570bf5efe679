"""A panel of the main screen: a name of the layout and the function that makes its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from iotop_ai.model.frame import Frame
from iotop_ai.present.line import Line
from iotop_ai.present.view import View
from iotop_ai.tui.widgets.lines import LinePanel
from iotop_ai.tui.widgets.styles import Styles

Rows = Callable[[Frame, View, int, int], list[Line]]


class FramePanel(LinePanel):
    """Shows what its rows function makes of a Frame."""

    name_of_panel: ClassVar[str]
    rows: ClassVar[Rows]

    def __init__(self, book: Styles) -> None:
        super().__init__(book, id=self.name_of_panel)

    def draw(self, frame: Frame, view: View, width: int, height: int) -> None:
        """Make the rows and show those that changed."""
        self.show(type(self).rows(frame, view, width, height))
