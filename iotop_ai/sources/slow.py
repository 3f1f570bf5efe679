"""What answers late: GPUs and SMART, each on threads or in a process of its own."""

from __future__ import annotations

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.gpu import GpuCollector, GpuDetailCollector
from iotop_ai.collectors.health_history import HealthHistory
from iotop_ai.collectors.root import Root
from iotop_ai.collectors.smart import SmartCollector
from iotop_ai.collectors.state_folder import state_path
from iotop_ai.model.settings import Settings


class Slow:
    """They run from here on. smart None: it is switched off."""

    def __init__(self, root: Root, clock: Clock, settings: Settings, interval_s: float) -> None:
        self.gpu = GpuCollector(clock, every_s=max(1.0, interval_s), root=root)
        self.details = GpuDetailCollector(self.gpu)
        history = HealthHistory(state_path(), clock) if root.live and settings.smart else None
        self.smart = SmartCollector(root, clock, settings, history=history) if settings.smart else None

    def start(self) -> None:
        """Ask already now, not at the first reading."""
        self.gpu.wait(0)
        if self.smart is not None:
            self.smart.wait(0)
