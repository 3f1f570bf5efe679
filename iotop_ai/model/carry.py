"""The long memory of the fold: small, comparable, kept in every keyframe of a recording."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.finding import Finding, Verdict
from iotop_ai.model.process import ProcessKey
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.snapshot import Event
from iotop_ai.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from iotop_ai.model.baseline import DeviceBaseline

LATER = ("iotop_ai.model.baseline",)
"""Where names of the annotations are that a start does not load, for ``typed.hints_of``."""


class Held(NamedTuple):
    """A finding that is on. entered_ns: when it came on; last_true_ns: newest sample in which its condition held."""

    finding: Finding
    entered_ns: int
    last_true_ns: int


class Turn(NamedTuple):
    """All loader workers of a job were replaced. lost_s: time without data right at it; other_s: from then until the
    next turn.
    """

    at_ns: int
    lost_s: float
    other_s: float


class JobMemory(NamedTuple):
    """What is remembered of a job.

    newest_ticks: start of the youngest worker of its first rank, 0 before there was one. turns: oldest first, at most
    eight. following: whether the newest still costs time. idle_s: time lost while it has no worker, which belongs to
    the turn that follows.
    """

    newest_ticks: int = 0
    turns: tuple[Turn, ...] = ()
    following: bool = False
    idle_s: float = 0.0


class GpuMemory(NamedTuple):
    """What is remembered of a GPU while the same program is on it.

    pids: its compute processes. idle_ns: since when it has been idle while they hold memory of it; None while it is
    not. power: over its limit, smoothed over 10 s, while it is busy; peak: the highest of it. None: not known.
    """

    pids: tuple[int, ...] = ()
    idle_ns: int | None = None
    power: float | None = None
    peak: float | None = None


class Carry(NamedTuple):
    """What the fold knows beyond the window.

    started_ns: first sample of this session. held: by (class_id, subject). active_ns: newest time at which a device
    that hides when idle (loop, ram, zram, rom) did anything. verdict, decided_ns: the newest decision and its time;
    between two decisions (below a second apart) it stands. states: (at_ns, state word) at each change, oldest first,
    of the last hour. lost: hours that each job has lost so far, by its key. classes: (at_ns, class of the verdict) at
    each change, like ``states``. pending: since when the condition of a finding has held that has not entered, by the
    same keys as ``held``. learned: what reads of each device took, by its serial number. memory: of each job. fed_ns:
    the newest Sample that went into these. acked: how bad what somebody has taken note of was then, by its identity.
    gpus: memory of each GPU, by UUID. ended: ends of processes since
    the last decision.
    """

    started_ns: int | None = None
    held: Mapping[tuple[str, str], Held] = {}
    active_ns: Mapping[str, int] = {}
    verdict: Verdict | None = None
    decided_ns: int | None = None
    states: tuple[tuple[int, str], ...] = ()
    lost: Mapping[ProcessKey, float] = {}
    classes: tuple[tuple[int, str], ...] = ()
    pending: Mapping[tuple[str, str], int] = {}
    learned: Mapping[str, DeviceBaseline] = {}
    memory: Mapping[ProcessKey, JobMemory] = {}
    fed_ns: int | None = None
    acked: Mapping[str, str] = {}
    gpus: Mapping[str, GpuMemory] = {}
    ended: tuple[Event, ...] = ()
