"""The way of the data from the reading process to the device."""

from __future__ import annotations

from iotop_ai.present.path import path_rows
from iotop_ai.tui.panels.base import FramePanel


class PathPanel(FramePanel):
    """The way of the data from the reading process to the device."""

    name_of_panel = "path"
    rows = staticmethod(path_rows)
