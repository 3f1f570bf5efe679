"""The state that ``diagnosis.engine.fold()`` passes from one Sample to the next, besides the last 60 s of Samples.

The state is small. Every keyframe of a recording contains it, so that a replay can begin there.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.read_latency_baseline import DeviceBaseline
from iotop_ai.model.finding import Finding, Verdict
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Event


class ActiveFinding(NamedTuple):
    """A finding that is active, whether or not the verdict shows it."""

    finding: Finding
    entered_ns: int
    last_true_ns: int
    """The time of the newest decision at which the finding's condition was true."""


class WorkerRestart(NamedTuple):
    """The replacement of all loader workers of a job."""

    at_ns: int
    lost_s: float
    """Seconds without data that the restart caused."""
    other_s: float
    """Seconds without data that the restart did not cause, up to the next restart."""


class JobMemory(NamedTuple):
    """What the rules remember of a job: the restarts of its loader workers, and the time that they cost."""

    newest_ticks: int = 0
    """The start time of the youngest worker that the job's first rank has had, in clock ticks; 0 without one."""
    restarts: tuple[WorkerRestart, ...] = ()
    """The restarts, oldest first, at most eight."""
    following: bool = False
    """Whether the wait after the newest restart still lasts, so that lost time is charged to that restart."""
    idle_s: float = 0.0
    """Seconds without data since the last worker ended. At the next restart, a part of them is charged to that restart.
    """
    last_worker_ended_ns: int | None = None
    """The time at which a worker was last seen; None while the first rank has a worker, and before its first one."""


class GpuMemory(NamedTuple):
    """What the rules remember of a GPU: how its current program has used it so far."""

    pids: tuple[int, ...] = ()
    """The pids of the GPU's compute processes."""
    idle_ns: int | None = None
    """The time at which the GPU became idle while these processes occupy its memory; None if it is not idle."""
    power: float | None = None
    """The GPU's power divided by its limit, smoothed over 10 s; None if unknown, and while the GPU is not busy."""
    peak: float | None = None
    """The highest ``power`` so far; None if unknown."""


class FoldState(NamedTuple):
    """The whole state. Times are monotonic, in ns."""

    started_ns: int | None = None
    """The time of the first Sample of this session."""
    held: Mapping[tuple[str, str], ActiveFinding] = {}
    """The active findings by (class id, subject)."""
    active_ns: Mapping[str, int] = {}
    """The time of the newest activity of each device that is hidden when idle (loop, ram, zram, rom, floppy), by name;
    an activity more than 60 s ago is dropped."""
    verdict: Verdict | None = None
    """The newest verdict."""
    decided_ns: int | None = None
    """The time of the newest verdict."""
    states: tuple[tuple[int, str], ...] = ()
    """(at_ns, state word) at each change of the last hour and at the last change before that hour, oldest first; at
    most the newest 121."""
    lost: Mapping[ProcessKey, float] = {}
    """The hours (not GPU-hours) that each job has lost so far."""
    classes: tuple[tuple[int, str], ...] = ()
    """(at_ns, class of the verdict) at each change in the same period as ``states``, oldest first."""
    pending: Mapping[tuple[str, str], int] = {}
    """For each finding whose condition is true but which is not active yet, the time at which the condition became
    true; the keys are as in ``held``."""
    learned: Mapping[str, DeviceBaseline] = {}
    """The read latency baseline of each disk, by serial number, or by name without one."""
    memory: Mapping[ProcessKey, JobMemory] = {}
    """The worker restarts of each job."""
    fed_ns: int | None = None
    """The time of the newest Sample that was added to ``learned``, ``memory``, ``gpus``, ``ended`` and ``hung``."""
    acked: Mapping[str, str] = {}
    """The severity and figures of each acknowledged finding when the user acknowledged it, by the finding's identity;
    "" once the acknowledgement is over."""
    gpus: Mapping[str, GpuMemory] = {}
    """How each GPU has been used, by UUID."""
    ended: tuple[Event, ...] = ()
    """The ends of processes since the newest verdict, and the OOM kills whose process has not ended yet."""
    hung: Mapping[str, int] = {}
    """The time since which each device has had requests in flight and completed none, by kernel name."""
