"""State, because, and, do: the answer."""

from __future__ import annotations

from iotop_ai.present.banner import banner_rows
from iotop_ai.tui.panels.base import FramePanel


class BannerPanel(FramePanel):
    """State, because, and, do: the answer."""

    name_of_panel = "banner"
    rows = staticmethod(banner_rows)
