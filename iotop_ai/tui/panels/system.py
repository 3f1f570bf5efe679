"""Fullness, network, CPU, memory and our own cost."""

from __future__ import annotations

from iotop_ai.present.system import system_rows
from iotop_ai.tui.panels.base import FramePanel


class SystemPanel(FramePanel):
    """Fullness, network, CPU, memory and our own cost."""

    name_of_panel = "system"
    rows = staticmethod(system_rows)
