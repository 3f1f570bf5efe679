"""The collectors that the first screen does not need: those of GPUs and SMART, and those that are rarely read.

Importing this module loads all their code. The sampling thread then does not have to read files of the program later,
when the folder in which the program is installed may hang.
"""

from __future__ import annotations

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.gpu.collector import GpuCollector, GpuDetailCollector
from iotop_ai.collectors.gpu.nvml.library import ForeignNvml
from iotop_ai.collectors.health.collector import SmartCollector
from iotop_ai.collectors.health.history import HealthHistory
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup import CgroupCollector
from iotop_ai.collectors.job.collector import JobCollector
from iotop_ai.collectors.machine.cpu_clocks import ClocksCollector
from iotop_ai.collectors.machine.mounts import MountsCollector
from iotop_ai.collectors.machine.network.rdma import RdmaCollector
from iotop_ai.collectors.machine.network.tcp import TcpCollector
from iotop_ai.collectors.machine.pool import PoolCollector
from iotop_ai.collectors.state.folder import state_path
from iotop_ai.model.settings import Settings


class SlowCollectors:
    """The collectors that ``LiveSource.begin`` makes.

    gpu, details: the collectors of the GPU figures that are read in each sweep, and of those that are read less often
    smart: the SMART collector; None if SMART is switched off
    rare: collectors that are read rarely and do not have their own thread
    """

    def __init__(
        self,
        root: Root,
        clock: Clock,
        settings: Settings,
        interval_s: float,
        block: BlockCollector,
        mounts: MountsCollector,
    ) -> None:
        self._root, self._clock = root, clock
        self.rare = (
            TcpCollector(root),
            RdmaCollector(root),
            ClocksCollector(root, clock),
            PoolCollector(root, mounts),
        )
        nvml = ForeignNvml(clock) if root.foreign else None
        self.gpu = GpuCollector(clock, nvml, every_s=max(1.0, interval_s), root=root)
        self.details = GpuDetailCollector(self.gpu)
        history = HealthHistory(state_path(), clock) if root.live and settings.smart else None
        self.smart = (
            SmartCollector(root, clock, settings, history=history, generation=lambda: block.generation)
            if settings.smart
            else None
        )

    def cgroups(self, jobs: JobCollector) -> CgroupCollector:
        """Return the collector of the jobs' cgroups, which only a machine with a job needs."""
        return CgroupCollector(self._root, self._clock, jobs)

    def start(self) -> None:
        """Start the first queries of GPUs and SMART now, before the first Reading is needed."""
        self.gpu.wait(0)
        if self.smart is not None:
            self.smart.wait(0)
