"""Everything that the rules look at, worked out once per decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from iotop_ai.diagnosis.devices import DeviceFacts, all_devices
from iotop_ai.diagnosis.gpus import GpuFacts, gpu_facts
from iotop_ai.diagnosis.jobs import JobFacts, job_facts
from iotop_ai.diagnosis.mounts import mount_on
from iotop_ai.diagnosis.tasks import Family, TaskFacts, Tasks, family
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.diagnosis.window import Flags, Periods, Window, mean, window
from iotop_ai.model.carry import Carry
from iotop_ai.model.finding import Evidence, Finding
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.typed import Any, TypeVar

Args = tuple[tuple[str, str | float | None], ...]
T = TypeVar("T")
NO_CARRY = Carry()


class Late:
    """What is worked out when a rule first asks for it, and then once a decision."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """The value of that name."""
        if name not in self._known:
            self._known[name] = make()
        value: T = self._known[name]
        return value


class Facts(NamedTuple):
    """The window and what devices, processes, GPUs and CPU did in it. Ratios None when unknown."""

    snapshot: Snapshot
    history: tuple[Sample, ...]
    look: Window
    limits: Thresholds
    devices: tuple[DeviceFacts, ...]
    gpu: GpuFacts
    cpu_busy_ratio: float | None
    cpu_pressure_ratio: float | None
    io_pressure_ratio: float | None
    allowed_cores: int | None
    physical_cores: int | None
    jobs: tuple[JobFacts, ...]
    periods: Periods
    late: Late
    carry: Carry

    @property
    def tasks(self) -> tuple[TaskFacts, ...]:
        """Every process that did or waited for something in the window; most decisions do without."""
        return self.everybody.all()

    @property
    def everybody(self) -> Tasks:
        """The same, to be asked for some of them."""
        return self.late.once("everybody", lambda: self._tasks(None))

    @property
    def family(self) -> Family:
        """The processes by descent."""
        return self.late.once("family", lambda: family(self.snapshot.processes.value))

    def _tasks(self, only: frozenset[int] | None) -> Tasks:
        table, own = self.snapshot.processes.value, self.snapshot.own.pid
        return Tasks(table, self.look, own, only=only, tree=None if only is None else self.family)

    def window(self, seconds: float, fields: Iterable[str]) -> Window:
        """The samples of the last ``seconds``, as window.window says."""
        return window(self.history, self.snapshot.at_ns, seconds, fields, self.limits, self.periods)

    def on(self, class_id: str, subject: str) -> bool:
        """Whether that finding is on: what ends it is then another figure than what begins it."""
        return (class_id, subject) in self.carry.held

    @property
    def judged(self) -> bool:
        """Whether the tasks of a job are seen, so that rules about single processes have nothing to add."""
        return any(job.stall is not None and job.active for job in self.jobs)

    @property
    def related(self) -> tuple[TaskFacts, ...]:
        """The tasks that feed the GPUs: those on a GPU and below; all of them where that cannot be told."""
        return self.feeding.all()

    @property
    def feeding(self) -> Tasks:
        """The same, to be asked for some of them."""
        pids = self.gpu.pids
        if pids is None or not self.gpu.used:
            return self.everybody
        return self.late.once("feeding", lambda: self._tasks(pids))

    def mount(self, device: DeviceFacts) -> str:
        """The nearest mount point that a device carries; "" when there is none."""
        infos = self.snapshot.disks.value or {}
        return self.late.once(f"mount {device.name}", lambda: mount_on(device.name, infos))

    @property
    def idle_cores(self) -> float | None:
        """How many of the cores that may be used are not busy; None when unknown."""
        if self.cpu_busy_ratio is None or self.allowed_cores is None:
            return None
        return self.allowed_cores * (1 - self.cpu_busy_ratio)


class Claim(NamedTuple):
    """What one rule found in the window, to be entered, held or left by the engine.

    share: part of the samples in which it held. samples: how many there were; needed: without which it is not
    entered. level: the main signal over its threshold (1 enters, below Thresholds.leave_level leaves).
    at_once: an event or a level that needs no window.
    """

    finding: Finding
    share: float
    samples: int
    needed: int
    level: float = 1.0
    at_once: bool = False


def claim(facts: Facts, finding: Finding, flags: Flags, level: float = 1.0) -> Claim:
    """A claim about the samples of the facts' window."""
    held = sum(flags) / len(flags) if flags else 0.0
    return Claim(finding, held, len(flags), facts.look.needed, level)


def pressure_ratio(look: Window, key: str) -> float | None:
    """Mean share of time in which some task waited for a resource."""
    tables = [table for s in look.samples if (table := s.pressure.value)]
    return mean([p.some_ratio for table in tables if (p := table.get(key)) is not None])


def gather(
    snapshot: Snapshot, history: tuple[Sample, ...], limits: Thresholds = LIMITS, carry: Carry = NO_CARRY
) -> Facts:
    """The facts of the class window that ends now. carry: what is known from before, and what was on."""
    periods = Periods(history)
    look = window(history, snapshot.at_ns, limits.window_s, ("block", "processes", "gpu", "cpu"), limits, periods)
    cpu = snapshot.cpu.value
    late = Late()
    gpu = gpu_facts(snapshot, lambda: late.once("family", lambda: family(snapshot.processes.value)), look, limits)
    return Facts(
        snapshot=snapshot,
        history=history,
        look=look,
        limits=limits,
        devices=all_devices(snapshot.disks.value, look, limits, carry.learned),
        gpu=gpu,
        cpu_busy_ratio=mean([rates.all.busy_ratio for s in look.samples if (rates := s.cpu.value) is not None]),
        cpu_pressure_ratio=pressure_ratio(look, "cpu"),
        io_pressure_ratio=pressure_ratio(look, "io"),
        allowed_cores=None if cpu is None else cpu.allowed,
        physical_cores=None if cpu is None else cpu.physical,
        jobs=job_facts(snapshot, history, gpu, limits, periods, carry.memory),
        periods=periods,
        late=late,
        carry=carry,
    )


def confidence(base: float, families: int, *caps: float) -> float:
    """How sure a finding is: three families of signals that agree leave the class's base, two medium, one low."""
    by_families = base if families >= 3 else min(base, 0.75) if families == 2 else min(base, 0.5)
    return round(min((by_families, *caps)), 2)


def gpu_evidence(facts: Facts, threshold: float | None) -> tuple[Evidence, ...]:
    """The GPUs' mean utilisation, () when there is none."""
    if facts.gpu.busy_ratio is None:
        return ()
    return (Evidence("gpus.busy_ratio", facts.gpu.busy_ratio, "ratio", threshold),)


def gpu_args(facts: Facts) -> Args:
    """gpus: those in use; gpus_all; gpu_busy: their mean utilisation."""
    return (
        ("gpus", float(facts.gpu.used)),
        ("gpus_all", float(facts.gpu.all)),
        ("gpu_busy", facts.gpu.busy_ratio),
    )
