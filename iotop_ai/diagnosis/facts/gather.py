"""The facts that the rules read, computed once per decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from iotop_ai.diagnosis.facts.block import DeviceFacts, all_devices
from iotop_ai.diagnosis.facts.fold_cache import FoldCache
from iotop_ai.diagnosis.facts.gpu import GpuFacts, gpu_facts
from iotop_ai.diagnosis.facts.job import JobFacts, job_facts
from iotop_ai.diagnosis.facts.mounts import mount_on
from iotop_ai.diagnosis.facts.process import Family, TaskFacts, Tasks, family
from iotop_ai.diagnosis.facts.window import Flags, Periods, Window, mean, recent_window
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Evidence, Finding
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

Args = tuple[tuple[str, str | float | None], ...]
T = TypeVar("T")
NO_CARRY = FoldState()
UNACCOUNTED = 0.3
"""From this unexplained share of a job's time, the rules about single processes apply as well."""


class Lazy:
    """Values that are computed when a rule first asks for them, once per decision."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """The value with this name, which ``make`` computes at the first request."""
        if name not in self._values:
            self._values[name] = make()
        value: T = self._values[name]
        return value


class Facts(NamedTuple):
    """The window, and what devices, processes, GPUs and CPU did in it. Ratios are None when unknown."""

    snapshot: Snapshot
    history: tuple[Sample, ...]
    window: Window
    limits: Thresholds
    devices: tuple[DeviceFacts, ...]
    gpu: GpuFacts
    cpu_busy_ratio: float | None
    cpu_free_ratio: float | None
    cpu_pressure_ratio: float | None
    io_pressure_ratio: float | None
    allowed_cores: int | None
    physical_cores: int | None
    jobs: tuple[JobFacts, ...]
    periods: Periods
    lazy: Lazy
    carry: FoldState
    cache: FoldCache

    @property
    def tasks(self) -> tuple[TaskFacts, ...]:
        """Every process that did or waited for something in the window; most decisions do not need it."""
        return self.all_tasks.all()

    @property
    def all_tasks(self) -> Tasks:
        """The processes of ``tasks``, made on demand: for a rule that needs only some of them."""
        return self.lazy.once("all_tasks", lambda: self._tasks(None))

    @property
    def family(self) -> Family:
        """The processes by parent and child."""
        return self.lazy.once("family", lambda: family(self.snapshot.processes.value))

    def _tasks(self, only: frozenset[int] | None) -> Tasks:
        table, own = self.snapshot.processes.value, self.snapshot.own.pid
        return Tasks(table, self.window, own, cache=self.cache, only=only, tree=None if only is None else self.family)

    def window_over(self, seconds: float, fields: Iterable[str]) -> Window:
        """The samples of the last ``seconds``; see ``window.recent_window``."""
        return recent_window(self.history, self.snapshot.at_ns, seconds, fields, self.limits, self.periods)

    def on(self, class_id: str, subject: str) -> bool:
        """Whether that finding is active: some rules then compare with another threshold."""
        return (class_id, subject) in self.carry.held

    @property
    def judged(self) -> bool:
        """Whether a job's time is accounted for, so that rules about single processes have nothing to add."""
        return any(
            job.stall is not None and job.active and (job.time is None or job.time.unexplained < UNACCOUNTED)
            for job in self.jobs
        )

    @property
    def related(self) -> tuple[TaskFacts, ...]:
        """The tasks that feed the GPUs: those on a GPU and below; all tasks where the GPUs' processes are unknown."""
        return self.feeding.all()

    @property
    def feeding(self) -> Tasks:
        """The tasks that feed the GPUs, made on demand: for a rule that needs only some of them."""
        pids = self.gpu.pids
        if pids is None or not self.gpu.used:
            return self.all_tasks
        return self.lazy.once("feeding", lambda: self._tasks(pids))

    def mount(self, device: DeviceFacts) -> str:
        """The nearest mount point that a device carries; "" if missing."""
        infos = self.snapshot.disks.value or {}
        return self.lazy.once(f"mount {device.name}", lambda: mount_on(device.name, infos))

    @property
    def idle_cores(self) -> float | None:
        """The number of allowed cores that are neither busy nor stolen by a hypervisor; None when unknown."""
        if self.cpu_free_ratio is None or self.allowed_cores is None:
            return None
        return self.allowed_cores * self.cpu_free_ratio


class Claim(NamedTuple):
    """What one rule found in the window; verdict/hysteresis.py enters it, holds it or lets it leave."""

    finding: Finding
    share: float
    """Part of the samples in which the condition held, 0..1."""
    samples: int
    needed: int
    """Fewest samples with which the claim may enter."""
    level: float = 1.0
    """The main signal over its threshold: 1 enters, below the class's ``leave`` it leaves."""
    at_once: bool = False
    """An event or a level that needs no window."""


def claim(facts: Facts, finding: Finding, flags: Flags, level: float = 1.0) -> Claim:
    """A claim about the samples of the facts' window."""
    held = sum(flags) / len(flags) if flags else 0.0
    return Claim(finding, held, len(flags), facts.window.needed, level)


def pressure_ratio(window: Window, key: str) -> float | None:
    """Mean share of time in which some task waited for a resource."""
    tables = [table for s in window.samples if (table := s.pressure.value)]
    return mean([p.some_ratio for table in tables if (p := table.get(key)) is not None])


def gather(
    snapshot: Snapshot,
    history: tuple[Sample, ...],
    limits: Thresholds = LIMITS,
    carry: FoldState = NO_CARRY,
    cache: FoldCache | None = None,
) -> Facts:
    """The facts of the rules' window that ends now. carry: the fold's state; cache: the fold's own, None: a new one."""
    cache = cache or FoldCache()
    periods = Periods(history, cache.intervals)
    window = recent_window(
        history, snapshot.at_ns, limits.window_s, ("block", "processes", "gpu", "cpu"), limits, periods
    )
    cpu = snapshot.cpu.value
    lazy = Lazy()
    gpu = gpu_facts(snapshot, lambda: lazy.once("family", lambda: family(snapshot.processes.value)), window, limits)
    return Facts(
        snapshot=snapshot,
        history=history,
        window=window,
        limits=limits,
        devices=all_devices(snapshot.disks.value, window, cache.active_devices, limits, carry.learned),
        gpu=gpu,
        cpu_busy_ratio=mean([rates.all.busy_ratio for s in window.samples if (rates := s.cpu.value) is not None]),
        cpu_free_ratio=mean([rates.all.free_ratio for s in window.samples if (rates := s.cpu.value) is not None]),
        cpu_pressure_ratio=pressure_ratio(window, "cpu"),
        io_pressure_ratio=pressure_ratio(window, "io"),
        allowed_cores=None if cpu is None else cpu.allowed,
        physical_cores=None if cpu is None else cpu.physical,
        jobs=job_facts(snapshot, history, gpu, limits, periods, carry.memory),
        periods=periods,
        lazy=lazy,
        carry=carry,
        cache=cache,
    )


def confidence(base: float, families: int, *caps: float) -> float:
    """The class's base with three agreeing families of signals, at most medium with two, low with one."""
    by_families = base if families >= 3 else min(base, 0.75) if families == 2 else min(base, 0.5)
    return round(min((by_families, *caps)), 2)


def gpu_evidence(facts: Facts, threshold: float | None) -> tuple[Evidence, ...]:
    """The GPUs' mean utilisation, () if missing."""
    if facts.gpu.busy_ratio is None:
        return ()
    return (Evidence("gpus.busy_ratio", facts.gpu.busy_ratio, "ratio", threshold),)


def gpu_args(facts: Facts) -> Args:
    """gpus: the number in use; gpus_all: of all; gpu_busy: mean utilisation of those in use."""
    return (
        ("gpus", float(facts.gpu.used)),
        ("gpus_all", float(facts.gpu.total)),
        ("gpu_busy", facts.gpu.busy_ratio),
    )
