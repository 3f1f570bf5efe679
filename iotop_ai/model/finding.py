"""The result of the rules: findings with their evidence, and the verdict."""

from __future__ import annotations

from enum import StrEnum

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.verdict_class import CLASS_SPECS, INSTEAD_OF_UNSURE, State

_STATE_BY_VALUE: dict[object, State] = {state.value: state for state in INSTEAD_OF_UNSURE}
SHORTEST_S = 10.0
"""The shortest window of a rule, in seconds. If the interval between readings is long, all windows are longer."""


class Severity(StrEnum):
    """The severities of a finding, in ascending order."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Evidence(NamedTuple):
    """One measured figure that supports a finding."""

    metric: str
    """The figure's dotted name, such as "disks.sda.read_await_ms"."""
    value: float | None
    unit: str
    threshold: float | None = None
    """The value that the figure is compared with; None if there is none."""


class Advice(NamedTuple):
    """A cure as (template id, arguments); present/verdict/cures.py holds the sentences."""

    template: str
    args: tuple[tuple[str, str | float | None], ...] = ()


class RuledOut(NamedTuple):
    """A class that was considered but does not apply; template id and arguments give the reason."""

    class_id: str
    template: str
    args: tuple[tuple[str, str | float | None], ...] = ()


class Finding(NamedTuple):
    """A claim of a rule about the machine or a job."""

    class_id: str
    """The class of the finding, one of CLASS_SPECS."""
    severity: Severity
    confidence: float
    """How certain the claim is, 0 to 1."""
    subject: str = ""
    """The device, GPU, pid or mount point that the finding is about; "" for the whole machine."""
    args: tuple[tuple[str, str | float | None], ...] = ()
    """The values in the sentence of the claim, such as the device and its MB/s."""
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    advice: tuple[Advice, ...] = ()
    lost_ratio: float | None = None
    """The share of the job's time that is lost, 0 to 1."""
    gpu_hours_lost: float | None = None
    """GPU-hours that the job has lost so far, set by ``diagnosis.engine``; None without a job, for a job without a
    GPU, and if its use of the GPUs is unknown."""
    since_ns: int | None = None
    """The monotonic time in ns at which the finding became active."""

    @property
    def state(self) -> State:
        """The word that the banner shows for this class.

        For the class ``unknown``, it is CALM or BUSY if ``state`` in ``args`` has that value, and otherwise UNSURE.
        """
        if self.class_id == "unknown":
            for name, value in self.args:
                if name == "state":
                    return _STATE_BY_VALUE.get(value, State.UNSURE)
            return State.UNSURE
        return CLASS_SPECS[self.class_id].state


class SlowDisk(NamedTuple):
    """A disk that is very slow or saturated over the window, whether or not a job waits for it."""

    device: str
    label: str
    """The disk's label; if it has none, its kernel name."""
    await_ms: float | None
    """The mean time of its reads or of all its requests, whichever is longer."""
    normal_ms: float | None
    """The usual read time, learned for this disk or assumed for its kind."""
    busy_ratio: float | None
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None


class Verdict(NamedTuple):
    """The findings in order of rank, and how much of the machine can be observed."""

    findings: tuple[Finding, ...]
    """The primary finding comes first. It has class ``unknown`` while ``measuring``, and later if no rule applies. The
    state is OK only if a rule claims it."""
    watched_s: float
    """The time in seconds since the session began."""
    needed_s: float
    """The shortest window of a rule at the current intervals between readings, in seconds. While ``watched_s`` is less,
    the primary finding has class ``unknown``."""
    groups_seen: int
    """The number of signal groups that can be read on this machine, by ``model.signal_coverage``."""
    groups_all: int
    missing: tuple[str, ...] = ()
    """One clause for each group that cannot be read."""
    job_pid: int | None = None
    """The pid of the top process of the job that the verdict is about; None without a job."""
    slow_disk: SlowDisk | None = None
    """The worst disk that is very slow or saturated; None without such a disk, and in older recordings."""

    @property
    def primary(self) -> Finding:
        """The finding that determines the state."""
        return self.findings[0]

    @property
    def state(self) -> State:
        """The word that the banner shows."""
        return self.primary.state

    @property
    def measuring(self) -> bool:
        """Whether no rule has a full window yet."""
        return self.watched_s < self.needed_s

    @property
    def unjudged(self) -> bool:
        """Whether the primary finding has class ``unknown`` because no rule has a full window yet.

        The engine gives it this class in every verdict that is ``measuring``. The class is tested too, because the
        verdict may come from a file.
        """
        return self.measuring and self.primary.class_id == "unknown"
