"""Everything that was read at one moment: counters in the kernel's units, complete in itself."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.block import BlockInfo, BlockTable, Mount
from iotop_ai.model.cpu import CpuTable
from iotop_ai.model.filesystem import FilesystemUsage
from iotop_ai.model.job import JobTable
from iotop_ai.model.kernel_log import KernelLog
from iotop_ai.model.memory import MemoryState
from iotop_ai.model.netfs import NetfsTable
from iotop_ai.model.network import LinkCounters
from iotop_ai.model.pressure import PressureTable
from iotop_ai.model.process import ProcessTable
from iotop_ai.model.reading import Reading
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from iotop_ai.model.baseline import DeviceBaseline
    from iotop_ai.model.gpu import GpuTable
    from iotop_ai.model.gpu_detail import GpuDetails
    from iotop_ai.model.smart import SmartState

LATER = ("iotop_ai.model.baseline", "iotop_ai.model.gpu", "iotop_ai.model.gpu_detail", "iotop_ai.model.smart")
"""Where names of the annotations are that a start does not load, for ``typed.hints_of``."""


class Event(NamedTuple):
    """Something that happened since the Snapshot before. kind: device_added, device_removed, mark, action, ...

    role, pid, code, job_pid: of kind process_ended, as in model.job_end.Ended; code None: nobody knows how it ended.
    pid also of oom_kill and hung_task, where the kernel's log named it.
    """

    at_ns: int
    wall_ns: int
    kind: str
    text: str
    role: str = ""
    pid: int | None = None
    code: int | None = None
    job_pid: int | None = None


class Host(NamedTuple):
    """Who and where we are; constant within a session but for a rename.

    euid: ours, None in an imported log. ptrace: whether other users' /proc/PID/io can be read. container: "" or its
    kind. origin: "" for what was read here; else the program whose log was imported ("iostat", "nvidia-smi").
    """

    name: str
    boot_id: str
    kernel: str
    euid: int | None
    user: str
    ptrace: bool
    container: str = ""
    origin: str = ""


class OwnCost(NamedTuple):
    """What the monitor itself has used: cumulative CPU ns of this process, its resident bytes, this tick's ns.

    All unknown, and pid 0, in an imported log: no monitor ran.
    """

    pid: int
    cpu_ns: int | None
    rss_bytes: int | None
    collect_ns: int | None
    late_ns: int | None


class Snapshot(NamedTuple):
    """One tick. wall_ns is for people, at_ns (monotonic) and host.boot_id for arithmetic.

    interval_s: the interval in force. disks: identity and settings, read when they change; block: the counters.
    filesystems: by mount point, each its own Reading (a dead NFS is one failed entry). smart: by kernel name of the
    whole disk. users: login names with a session. gpu_slow: by UUID, every fifth sweep of the GPUs. baselines: how
    long reads took before this session, by serial number, told once.
    """

    seq: int
    at_ns: int
    wall_ns: int
    interval_s: float
    host: Host
    events: tuple[Event, ...]
    own: OwnCost
    block: Reading[BlockTable] = Reading()
    disks: Reading[Mapping[str, BlockInfo]] = Reading()
    mounts: Reading[tuple[Mount, ...]] = Reading()
    processes: Reading[ProcessTable] = Reading()
    cpu: Reading[CpuTable] = Reading()
    memory: Reading[MemoryState] = Reading()
    pressure: Reading[PressureTable] = Reading()
    gpu: Reading[GpuTable] = Reading()
    smart: Reading[Mapping[str, Reading[SmartState]]] = Reading()
    filesystems: Reading[Mapping[str, Reading[FilesystemUsage]]] = Reading()
    network: Reading[Mapping[str, LinkCounters]] = Reading()
    netfs: Reading[NetfsTable] = Reading()
    gpu_slow: Reading[GpuDetails] = Reading()
    jobs: Reading[JobTable] = Reading()
    kernel: Reading[KernelLog] = Reading()
    baselines: Reading[Mapping[str, DeviceBaseline]] = Reading()
