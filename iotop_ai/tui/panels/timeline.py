"""The time line of a recording."""

from __future__ import annotations

from iotop_ai.present.timeline import timeline_rows
from iotop_ai.tui.panels.base import FramePanel


class TimelinePanel(FramePanel):
    """The time line of a recording."""

    name_of_panel = "timeline"
    rows = staticmethod(timeline_rows)
