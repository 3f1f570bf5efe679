"""Everything that was read at one moment: counters in the kernel's units, complete in itself."""

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

NOT_RECORDED = "not_recorded"
"""Kind of the Event with the number of Snapshots or events missing before it in a recording, and the reason."""
CLOCK_SET_BACK = "clock_set_back"
"""Kind of the Event that a reader puts where the wall clock of a recording was set back; it is not in the file."""


class Event(NamedTuple):
    """An event since the previous Snapshot."""

    at_ns: int
    wall_ns: int
    kind: str
    """device_added, device_removed, mark, action, ..."""
    text: str
    role: str = ""
    """Set for kind process_ended, as in model.job.exits.Ended; so are pid, code and job_pid."""
    pid: int | None = None
    """Also set for oom_kill and hung_task, where the kernel log names the process."""
    code: int | None = None
    """The exit code; None when it is unknown how the process ended."""
    job_pid: int | None = None


MOST_EVENTS = 4000
"""Events of a Snapshot at most. Readers of a recording accept 4096."""


def newest_events(events: Sequence[Event], at_ns: int, wall_ns: int, dropped: int = 0) -> tuple[Event, ...]:
    """At most MOST_EVENTS, the newest ones; where some are missing, the last is an Event with their number.

    dropped: events of this Snapshot that are missing already.
    """
    if not dropped and len(events) <= MOST_EVENTS:
        return tuple(events)
    kept = events[-(MOST_EVENTS - 1) :]
    dropped += len(events) - len(kept)
    text = f"{dropped} event{'' if dropped == 1 else 's'} not kept: more than {MOST_EVENTS} in one snapshot"
    return (*kept, Event(at_ns, wall_ns, NOT_RECORDED, text))


class Host(NamedTuple):
    """The machine and the user; constant within a session, except for a rename."""

    name: str
    boot_id: str
    kernel: str
    euid: int | None
    """Ours; None in an imported log."""
    user: str
    ptrace: bool
    """Whether other users' /proc/PID/io can be read."""
    container: str = ""
    """The kind of container; "" outside of one."""
    origin: str = ""
    """The program whose log was imported ("iostat", "nvidia-smi"); "" for what was read here."""


class OwnCost(NamedTuple):
    """The monitor's own cost. In an imported log, where no monitor ran, all is None and pid 0."""

    pid: int
    cpu_ns: Annotated[int | None, Exported("ns", "CPU time of this monitor.", "cpu")]
    """Cumulative CPU time of this process."""
    rss_bytes: Annotated[int | None, Exported("B", "Resident memory of this monitor.", "resident_memory", level=True)]
    collect_ns: Annotated[int | None, Exported("ns", "Time that the newest collection took.", "collect", level=True)]
    """Time that this tick's collection took."""
    late_ns: Annotated[int | None, Exported("ns", "How late the newest collection began.", "late", level=True)]


class Snapshot(NamedTuple):
    """One tick. wall_ns is for people; at_ns (monotonic) and host.boot_id are for arithmetic."""

    seq: int
    at_ns: int
    wall_ns: int
    interval_s: float
    """The interval in force."""
    host: Host
    events: tuple[Event, ...]
    own: OwnCost
    block: Reading[BlockTable] = Reading()
    """The counters of block devices."""
    disks: Reading[Mapping[str, BlockInfo]] = Reading()
    """Identity and settings of block devices, read when they change."""
    mounts: Reading[tuple[Mount, ...]] = Reading()
    processes: Reading[ProcessTable] = Reading()
    cpu: Reading[CpuTable] = Reading()
    memory: Reading[MemoryState] = Reading()
    pressure: Reading[PressureTable] = Reading()
    gpu: Reading[GpuTable] = Reading()
    smart: Reading[Mapping[str, Reading[SmartState]]] = Reading()
    """A disk's health, by kernel name of the whole disk."""
    filesystems: Reading[Mapping[str, Reading[FilesystemUsage]]] = Reading()
    """By mount point, each with its own Reading: a dead NFS is one failed entry."""
    network: Reading[Mapping[str, LinkCounters]] = Reading()
    netfs: Reading[NetfsTable] = Reading()
    gpu_slow: Reading[GpuDetails] = Reading()
    """Details of the GPUs by UUID, read in every fifth sweep."""
    jobs: Reading[JobTable] = Reading()
    kernel: Reading[KernelLog] = Reading()
    baselines: Reading[Mapping[str, DeviceBaseline]] = Reading()
    """Read latencies learned before this session, by serial number; in one Snapshot of a session."""
    suspended_ns: int | None = None
    """Time asleep since boot, which monotonic time leaves out and a process's start_ticks include; None: not recorded.
    """
    marks: Reading[bool] = Reading()
    """Whether marks of other programs are received; only of a monitor that should receive them."""
    cgroups: Reading[CgroupTable] = Reading()
    """The cgroups of the jobs."""
    tcp: Reading[TcpCounters] = Reading()
    rdma: Reading[Mapping[str, RdmaCounters]] = Reading()
    """RDMA counters by port."""
    clocks: Reading[ClockState] = Reading()
    pools: Reading[PoolTable] = Reading()
    steps: Reading[Mapping[ProcessKey, StepCounts]] = Reading()
    """The totals of each training process that reports its steps; {} if none does."""
