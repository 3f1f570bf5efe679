"""A panel of the main screen: its name in the layout, and the function that makes its rows."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.layout import PANELS
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line, fill_rows
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.widgets.lines import LinePanel

UNFOCUSABLE = ("time", "doctor", "keys")


class FramePanel(LinePanel):
    """Shows the rows that its function makes from a Frame."""

    def __init__(
        self, name: str, rows: Callable[[Frame, View, int, int], list[Line]], theme_styles: ThemeStyles
    ) -> None:
        super().__init__(theme_styles, id=name)
        self.panel_name = name
        self.can_focus = name not in UNFOCUSABLE
        self.height_on_screen = 0
        """The height of the panel, including the blank rows before the next panel."""
        self._rows = rows

    def draw(self, frame: Frame, view: View, width: int, height: int) -> None:
        """Make the rows, and show those that changed.

        Blank rows fill the height: if the number of rows changed, Textual would paint the whole panel.
        """
        self.show(fill_rows(self._rows(frame, view, width, height), width, height))


def make_panels(theme_styles: ThemeStyles) -> dict[str, FramePanel]:
    """All panels by name, from top to bottom."""
    return {name: FramePanel(name, rows, theme_styles) for name, rows in PANELS}
