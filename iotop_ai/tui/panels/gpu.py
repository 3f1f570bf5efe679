"""One row a GPU, equal ones folded."""

from __future__ import annotations

from iotop_ai.present.gpu import gpu_rows
from iotop_ai.tui.panels.base import FramePanel


class GpuPanel(FramePanel):
    """One row a GPU, equal ones folded."""

    name_of_panel = "gpu"
    rows = staticmethod(gpu_rows)
