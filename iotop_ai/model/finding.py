"""What the rules say: findings with their evidence, and the verdict that is shown first."""

from __future__ import annotations

from enum import StrEnum

from iotop_ai.model.record import NamedTuple


class State(StrEnum):
    """The seven words of the banner, readable without colour."""

    STARVED = "STARVED"
    BLOCKED = "BLOCKED"
    SLOWED = "SLOWED"
    STARTING = "STARTING"
    IDLE = "IDLE"
    OK = "OK"
    UNSURE = "UNSURE"


LOSING = (State.STARVED, State.BLOCKED, State.SLOWED)
"""States in which time is lost."""

STATE_OF_CLASS: dict[str, State] = {
    **dict.fromkeys(
        (
            "storage_read",
            "small_random",
            "network_fs",
            "io_limit",
            "cpu_prep",
            "single_thread",
            "cache_thrash",
            "loader_serial",
            "object_stream",
            "noisy_neighbour",
            "worker_respawn",
        ),
        State.STARVED,
    ),
    **dict.fromkeys(("checkpoint_write", "comm_wait", "gpu_fault", "job_died", "fs_full", "shm_full"), State.BLOCKED),
    **dict.fromkeys(("mem_pressure", "gpu_throttle", "pcie", "gpu_memory", "imbalance", "failing_disk"), State.SLOWED),
    "starting": State.STARTING,
    "idle": State.IDLE,
    "serving": State.IDLE,
    "gpu_bound": State.OK,
    "healthy": State.OK,
    "unknown": State.UNSURE,
    "no_gpu": State.UNSURE,
}

RIVALS = (
    "worker_respawn",
    "network_fs",
    "io_limit",
    "cache_thrash",
    "noisy_neighbour",
    "small_random",
    "storage_read",
    "loader_serial",
    "cpu_prep",
    "object_stream",
    "single_thread",
)
"""Causes of the same wait, in the order of precedence: one of a job's replaces the other, and only when it has lasted.
"""

SHORTEST_S = 10.0
"""Watched for less, nothing is claimed that needs a window."""


class Severity(StrEnum):
    """How much it matters, the least first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Evidence(NamedTuple):
    """One measured figure behind a finding. metric: dotted id ("disks.sda.read_await_ms"); threshold None: no limit."""

    metric: str
    value: float | None
    unit: str
    threshold: float | None = None


class Advice(NamedTuple):
    """A cure as (template id, arguments); present/finding.py makes the sentence."""

    template: str
    args: tuple[tuple[str, str | float | None], ...] = ()


class RuledOut(NamedTuple):
    """A class that was considered and why it does not hold, as (template id, arguments)."""

    class_id: str
    template: str
    args: tuple[tuple[str, str | float | None], ...] = ()


class Finding(NamedTuple):
    """One claim of one rule.

    class_id: as in STATE_OF_CLASS. confidence 0..1. args: the figures of the claim's sentence (device, MB/s, ...).
    lost_ratio: share of time lost, 0..1. gpu_hours_lost: by its job since that was first seen, set by the engine;
    None for what is about no job or one without a GPU. since_ns: monotonic, when it was entered. subject: the device,
    GPU or pid.
    """

    class_id: str
    severity: Severity
    confidence: float
    subject: str = ""
    args: tuple[tuple[str, str | float | None], ...] = ()
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    advice: tuple[Advice, ...] = ()
    lost_ratio: float | None = None
    gpu_hours_lost: float | None = None
    since_ns: int | None = None

    @property
    def state(self) -> State:
        """The banner's word for this class."""
        return STATE_OF_CLASS[self.class_id]


class Verdict(NamedTuple):
    """What the banner says: the primary finding and the others, ranked.

    findings[0] is the primary; there is always one (class ``unknown`` when nothing fits: never OK by default).
    watched_s / needed_s: while measuring, how much of the shortest window has been seen.
    groups_seen of groups_all: signal groups that can be read here; missing: words for the rest. job_pid: the pid at the
    top of the job that it speaks of, None where there is no job.
    """

    findings: tuple[Finding, ...]
    watched_s: float
    needed_s: float
    groups_seen: int
    groups_all: int
    missing: tuple[str, ...] = ()
    job_pid: int | None = None

    @property
    def primary(self) -> Finding:
        """The finding that names the state."""
        return self.findings[0]

    @property
    def state(self) -> State:
        """The banner's word."""
        return self.primary.state

    @property
    def measuring(self) -> bool:
        """Whether no rule has its window full yet."""
        return self.watched_s < self.needed_s
