"""One row a device, with its health."""

from __future__ import annotations

from iotop_ai.present.block import block_rows
from iotop_ai.tui.panels.base import FramePanel


class DiskPanel(FramePanel):
    """One row a device, with its health."""

    name_of_panel = "disk"
    rows = staticmethod(block_rows)
