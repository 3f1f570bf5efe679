"""GPU, rate and await on one time axis."""

from __future__ import annotations

from iotop_ai.present.graphs import graph_rows
from iotop_ai.tui.panels.base import FramePanel


class GraphsPanel(FramePanel):
    """GPU, rate and await on one time axis."""

    name_of_panel = "graphs"
    rows = staticmethod(graph_rows)
