"""The result of the rules: findings with their evidence, and the verdict."""

from __future__ import annotations

from enum import StrEnum

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.verdict_class import CLASS_SPECS, WITHOUT_JOB, State

SHORTEST_S = 10.0
"""No claim that needs a window is made before this time has been observed."""


class Severity(StrEnum):
    """Severity of a finding, the lowest first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Evidence(NamedTuple):
    """One measured figure behind a finding."""

    metric: str
    """Dotted id: "disks.sda.read_await_ms"."""
    value: float | None
    unit: str
    threshold: float | None = None
    """None: the figure has no limit."""


class Advice(NamedTuple):
    """A cure as (template id, arguments); present/verdict/cures.py has the sentence."""

    template: str
    args: tuple[tuple[str, str | float | None], ...] = ()


class RuledOut(NamedTuple):
    """A class that was considered and the reason why it does not apply, as (template id, arguments)."""

    class_id: str
    template: str
    args: tuple[tuple[str, str | float | None], ...] = ()


class Finding(NamedTuple):
    """A claim of a rule."""

    class_id: str
    """One of CLASS_SPECS."""
    severity: Severity
    confidence: float
    """0..1."""
    subject: str = ""
    """The device, GPU or pid."""
    args: tuple[tuple[str, str | float | None], ...] = ()
    """The figures of the claim's sentence (device, MB/s, ...)."""
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    advice: tuple[Advice, ...] = ()
    lost_ratio: float | None = None
    """Share of time lost, 0..1."""
    gpu_hours_lost: float | None = None
    """Lost by its job so far, set by the engine; None for a finding without a job and a job without a GPU."""
    since_ns: int | None = None
    """When it entered, monotonic."""

    @property
    def state(self) -> State:
        """The banner's word for this class; of class ``unknown`` without a job its argument ``state``."""
        if self.class_id == "unknown":
            own = dict(self.args).get("state")
            return next((state for state in WITHOUT_JOB if state == own), State.UNSURE)
        return CLASS_SPECS[self.class_id].state


class SlowDisk(NamedTuple):
    """A disk that is very slow or saturated over the window, whoever waits for it."""

    device: str
    label: str
    await_ms: float | None
    """The longer of the mean awaits of its reads and of all requests."""
    normal_ms: float | None
    busy_ratio: float | None
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None


class Verdict(NamedTuple):
    """The primary finding and the others, ranked."""

    findings: tuple[Finding, ...]
    """The first is the primary. There is always one: class ``unknown`` when no rule holds, never OK by default."""
    watched_s: float
    needed_s: float
    """While measuring: the length of the shortest window, of which ``watched_s`` has been observed."""
    groups_seen: int
    """Signal groups that can be read here."""
    groups_all: int
    missing: tuple[str, ...] = ()
    """One clause for each group that cannot be read."""
    job_pid: int | None = None
    """The top process of the job that the verdict is about; None without a job."""
    slow_disk: SlowDisk | None = None
    """The worst very slow or saturated disk; None without one, and not recorded before it existed."""

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
        """Whether no rule has a full window yet."""
        return self.watched_s < self.needed_s

    @property
    def unjudged(self) -> bool:
        """Whether nothing is found because no rule has a full window yet."""
        return self.measuring and self.primary.class_id == "unknown"
