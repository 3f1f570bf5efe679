"""Everything that was read at one moment, as counters in the kernel's units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo, BlockTable, Mount
from iotop_ai.model.block.read_latency_baseline import DeviceBaseline
from iotop_ai.model.gpu.detail import GpuDetails
from iotop_ai.model.gpu.state import GpuTable
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.job.cgroup import CgroupTable
from iotop_ai.model.job.records import JobTable
from iotop_ai.model.job.steps import StepCounts
from iotop_ai.model.machine.cpu import CpuTable
from iotop_ai.model.machine.cpu_clocks import ClockState
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.kernel_log import KernelLog
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.machine.netfs import NetfsTable
from iotop_ai.model.machine.network import LinkCounters
from iotop_ai.model.machine.pool import PoolTable
from iotop_ai.model.machine.pressure import PressureTable
from iotop_ai.model.machine.rdma import RdmaCounters
from iotop_ai.model.machine.tcp import TcpCounters
from iotop_ai.model.metric import Exported
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.reading import Reading

COMMAND_START, COMMAND_END = "command_start", "command_end"
"""The kinds of the Events at the start and the end of the command that ``record -- COMMAND`` runs. The text of the
first is the command line."""
NOT_RECORDED = "not_recorded"
"""The kind of an Event that reports how many Snapshots or events are missing before it, and why."""
CLOCK_SET_BACK = "clock_set_back"
"""The kind of an Event that a reader inserts where a recording's wall clock was set back; the file does not contain it.
"""


class Event(NamedTuple):
    """An event that happened since the previous Snapshot."""

    at_ns: int
    wall_ns: int
    kind: str
    """The kind of the event: device_added, device_removed, mark, action and so on."""
    text: str
    role: str = ""
    """The process's role as in model.job.exits.Ended. Role, code and job_pid are set only for kind process_ended."""
    pid: int | None = None
    """The pid of the process; also set for oom_kill and hung_task if the kernel's log names the process."""
    code: int | None = None
    """The exit code, or minus the number of the signal that ended the process; None if unknown."""
    job_pid: int | None = None


MOST_EVENTS = 4000
"""The most events in a Snapshot. A reader of a recording accepts a few more, 4096."""


def newest_events(events: Sequence[Event], at_ns: int, wall_ns: int, dropped: int = 0) -> tuple[Event, ...]:
    """The newest events, at most MOST_EVENTS. If some are missing, the last Event gives their number.

    dropped: how many events of this Snapshot were lost before this call
    """
    if not dropped and len(events) <= MOST_EVENTS:
        return tuple(events)
    kept = events[-(MOST_EVENTS - 1) :]
    dropped += len(events) - len(kept)
    text = f"{dropped} event{'' if dropped == 1 else 's'} not kept: more than {MOST_EVENTS} in one snapshot"
    return (*kept, Event(at_ns, wall_ns, NOT_RECORDED, text))


class Host(NamedTuple):
    """The machine and the user. Constant within a session, except that the user's name may be added later."""

    name: str
    boot_id: str
    kernel: str
    euid: int | None
    """The effective user id of the monitor; None in an imported log."""
    user: str
    ptrace: bool
    """Whether the monitor can read the /proc/PID/io of other users' processes."""
    container: str = ""
    """The kind of container; "" outside a container."""
    origin: str = ""
    """The program whose log was imported ("iostat", "nvidia-smi"); "" if the monitor itself read the figures."""


class OwnCost(NamedTuple):
    """The cost of the monitor itself. In an imported log, pid is 0 and all other fields are None."""

    pid: int
    cpu_ns: Annotated[int | None, Exported("ns", "CPU time of this monitor.", "cpu")]
    """The CPU time that the monitor has used since its start."""
    rss_bytes: Annotated[int | None, Exported("B", "Resident memory of this monitor.", "resident_memory", level=True)]
    collect_ns: Annotated[int | None, Exported("ns", "Time that the newest collection took.", "collect", level=True)]
    """How long this tick's collection took."""
    late_ns: Annotated[int | None, Exported("ns", "How late the newest collection began.", "late", level=True)]


class Snapshot(NamedTuple):
    """One tick. wall_ns is for people; at_ns (monotonic) and host.boot_id are for arithmetic."""

    seq: int
    at_ns: int
    wall_ns: int
    interval_s: float
    """The configured interval between two ticks, in seconds."""
    host: Host
    events: tuple[Event, ...]
    own: OwnCost
    block: Reading[BlockTable] = Reading()
    """The counters of block devices."""
    disks: Reading[Mapping[str, BlockInfo]] = Reading()
    """The identity and settings of block devices, read when they change."""
    mounts: Reading[tuple[Mount, ...]] = Reading()
    processes: Reading[ProcessTable] = Reading()
    cpu: Reading[CpuTable] = Reading()
    memory: Reading[MemoryState] = Reading()
    pressure: Reading[PressureTable] = Reading()
    gpu: Reading[GpuTable] = Reading()
    smart: Reading[Mapping[str, Reading[SmartState]]] = Reading()
    """The health of each disk, by kernel name; partitions have no entry."""
    filesystems: Reading[Mapping[str, Reading[FilesystemUsage]]] = Reading()
    """The usage of each mount, by mount point. Each has a separate Reading, so a dead NFS server is one failed entry.
    """
    network: Reading[Mapping[str, LinkCounters]] = Reading()
    netfs: Reading[NetfsTable] = Reading()
    gpu_slow: Reading[GpuDetails] = Reading()
    """Details of the GPUs by UUID, read in every fifth sweep; a sweep reads all GPUs once."""
    jobs: Reading[JobTable] = Reading()
    kernel: Reading[KernelLog] = Reading()
    baselines: Reading[Mapping[str, DeviceBaseline]] = Reading()
    """Read latencies that were learned in earlier sessions, by serial number; only one Snapshot of a session has them.
    """
    suspended_ns: int | None = None
    """How long the machine has been suspended since boot; None in recordings without this field. Monotonic time
    excludes this time; the start_ticks of a process include it."""
    marks: Reading[bool] = Reading()
    """Whether marks (events that other programs send) are received; set only if the monitor should receive them."""
    cgroups: Reading[CgroupTable] = Reading()
    """The cgroups of the jobs."""
    tcp: Reading[TcpCounters] = Reading()
    rdma: Reading[Mapping[str, RdmaCounters]] = Reading()
    """RDMA counters by port."""
    clocks: Reading[ClockState] = Reading()
    pools: Reading[PoolTable] = Reading()
    steps: Reading[Mapping[ProcessKey, StepCounts]] = Reading()
    """The totals of each training process that reports its steps; {} if none does."""
