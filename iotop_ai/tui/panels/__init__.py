"""The panels of the main screen, one a file."""

from iotop_ai.tui.panels.banner import BannerPanel
from iotop_ai.tui.panels.base import FramePanel
from iotop_ai.tui.panels.disk import DiskPanel
from iotop_ai.tui.panels.gpu import GpuPanel
from iotop_ai.tui.panels.graphs import GraphsPanel
from iotop_ai.tui.panels.keys import KeysPanel
from iotop_ai.tui.panels.path import PathPanel
from iotop_ai.tui.panels.process import ProcessPanel
from iotop_ai.tui.panels.system import SystemPanel
from iotop_ai.tui.panels.timeline import TimelinePanel

PANELS: tuple[type[FramePanel], ...] = (
    BannerPanel,
    TimelinePanel,
    PathPanel,
    GraphsPanel,
    GpuPanel,
    DiskPanel,
    ProcessPanel,
    SystemPanel,
    KeysPanel,
)
"""In the order of the screen, top to bottom."""
