"""One row a group of equal processes."""

from __future__ import annotations

from iotop_ai.present.process import process_rows
from iotop_ai.tui.panels.base import FramePanel


class ProcessPanel(FramePanel):
    """One row a group of equal processes."""

    name_of_panel = "process"
    rows = staticmethod(process_rows)
