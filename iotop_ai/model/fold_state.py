"""What ``diagnosis.engine.fold()`` passes from one Sample to the next, beside the last 60 s of Samples.

It is small and comparable; every keyframe of a recording holds it, so that a replay can begin there.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.read_latency_baseline import DeviceBaseline
from iotop_ai.model.finding import Finding, Verdict
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Event


class ActiveFinding(NamedTuple):
    """A finding that is part of the verdict."""

    finding: Finding
    entered_ns: int
    last_true_ns: int
    """Time of the newest Sample in which its condition held."""


class WorkerRestart(NamedTuple):
    """All loader workers of a job were replaced."""

    at_ns: int
    lost_s: float
    """Time without data caused by the restart."""
    other_s: float
    """Time without data from then until the next restart."""


class JobMemory(NamedTuple):
    """A job's restarts of its loader workers, and the time that they cost."""

    newest_ticks: int = 0
    """Start time of the youngest worker of its first rank; 0 before it has one."""
    turns: tuple[WorkerRestart, ...] = ()
    """Oldest first, at most eight."""
    following: bool = False
    """Whether the newest restart is still costing time."""
    idle_s: float = 0.0
    """Time lost while it has no worker; the last seconds of it count for the next restart."""
    left_ns: int | None = None
    """When its last worker ended; None while it has one, and before the first."""


class GpuMemory(NamedTuple):
    """How a GPU was used so far by the program that is on it."""

    pids: tuple[int, ...] = ()
    """Pids of the GPU's compute processes."""
    idle_ns: int | None = None
    """Since when the GPU is idle although they hold memory of it; None while it is not."""
    power: float | None = None
    """Power over its limit while it is busy, smoothed over 10 s; None when unknown."""
    peak: float | None = None
    """The highest ``power`` so far; None when unknown."""


class FoldState(NamedTuple):
    """The state as a whole; all times are monotonic ns."""

    started_ns: int | None = None
    """First sample of this session."""
    held: Mapping[tuple[str, str], ActiveFinding] = {}
    """Active findings by (class id, subject)."""
    active_ns: Mapping[str, int] = {}
    """Newest activity of devices that are hidden when idle (loop, ram, zram, rom), by name."""
    verdict: Verdict | None = None
    """The newest decision; it stands until the next one."""
    decided_ns: int | None = None
    states: tuple[tuple[int, str], ...] = ()
    """(at_ns, state word) at each change of the last hour, oldest first."""
    lost: Mapping[ProcessKey, float] = {}
    """Hours lost so far, by job."""
    classes: tuple[tuple[int, str], ...] = ()
    """(at_ns, class of the verdict) at each change, like ``states``."""
    pending: Mapping[tuple[str, str], int] = {}
    """For each finding that is not active yet, since when its condition holds; keys as in ``held``."""
    learned: Mapping[str, DeviceBaseline] = {}
    """Read latency baselines by serial number."""
    memory: Mapping[ProcessKey, JobMemory] = {}
    fed_ns: int | None = None
    """The newest Sample that went into learned, memory, gpus and hung."""
    acked: Mapping[str, str] = {}
    """Severity and figures of each acknowledged finding at that time, by its identity."""
    gpus: Mapping[str, GpuMemory] = {}
    """Each GPU's use, by UUID."""
    ended: tuple[Event, ...] = ()
    """Ends of processes since the last decision."""
    hung: Mapping[str, int] = {}
    """Since when a device holds requests and completes none, by kernel name."""
