"""The keys that work, or the filter while it is typed."""

from __future__ import annotations

from iotop_ai.present.keys import keys_rows
from iotop_ai.tui.panels.base import FramePanel


class KeysPanel(FramePanel):
    """The keys that work, or the filter while it is typed."""

    name_of_panel = "keys"
    rows = staticmethod(keys_rows)
    can_focus = False
