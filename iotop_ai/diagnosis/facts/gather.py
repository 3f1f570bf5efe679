"""Gathers the facts that the rules read, once per decision of ``engine.fold``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from iotop_ai.diagnosis.facts.block import DeviceFacts, all_devices
from iotop_ai.diagnosis.facts.fold_cache import FoldCache
from iotop_ai.diagnosis.facts.gpu import GpuFacts, gpu_facts
from iotop_ai.diagnosis.facts.job import JobFacts, job_device, job_facts
from iotop_ai.diagnosis.facts.mounts import mount_on, mounts_of_data
from iotop_ai.diagnosis.facts.process import TaskFacts, Tasks
from iotop_ai.diagnosis.facts.process_tree import ProcessTree
from iotop_ai.diagnosis.facts.window import Flags, Periods, Window, mean, recent_window
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Evidence, Finding
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_class import CLASS_SPECS

Args = tuple[tuple[str, str | float | None], ...]
"""The values that a sentence needs, as (name, value)."""
T = TypeVar("T")
NO_CARRY = FoldState()
"""The state of the rules before the first Snapshot."""
_UNEXPLAINED_LIMIT = 0.3
"""If at least this share of a job's time is unexplained, the rules about single processes apply to the job as well."""


class Lazy:
    """Values that are computed when a rule first asks for them, and kept for the rest of the decision."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def compute_once(self, name: str, make: Callable[[], T]) -> T:
        """The value with this name, which ``make`` computes at the first call."""
        if name not in self._values:
            self._values[name] = make()
        value: T = self._values[name]
        return value


class Facts(NamedTuple):
    """The figures that the rules read: devices, processes, GPUs and CPUs in the window. An unknown ratio is None."""

    snapshot: Snapshot
    history: tuple[Sample, ...]
    window: Window
    limits: Thresholds
    devices: tuple[DeviceFacts, ...]
    gpu: GpuFacts
    cpu_busy_ratio: float | None
    cpu_free_ratio: float | None
    """The share of the CPUs' time that is neither used nor taken by the hypervisor."""
    cpu_pressure_ratio: float | None
    io_pressure_ratio: float | None
    allowed_cores: int | None
    """The number of cores that the monitor can run on."""
    physical_cores: int | None
    """The number of the machine's physical cores."""
    jobs: tuple[JobFacts, ...]
    periods: Periods
    lazy: Lazy
    carry: FoldState
    """The state of the rules, which ``engine.fold`` carries from one Snapshot to the next."""
    cache: FoldCache

    @property
    def tasks(self) -> tuple[TaskFacts, ...]:
        """Every process that did or waited for something in the window.

        Making these facts for all processes is slow; most decisions avoid it.
        """
        return self.all_tasks.all()

    @property
    def all_tasks(self) -> Tasks:
        """The same processes as ``tasks``, made on demand for rules that need only a few of them."""
        return self.lazy.compute_once("all_tasks", lambda: self._tasks(None))

    @property
    def process_tree(self) -> ProcessTree:
        """The process tree."""
        return self.cache.process_trees.of(self.snapshot.processes.value)

    def _tasks(self, only: frozenset[int] | None) -> Tasks:
        table, own = self.snapshot.processes.value, self.snapshot.own.pid
        return Tasks(table, self.window, own, cache=self.cache, only=only)

    def window_over(self, seconds: float, fields: Iterable[str]) -> Window:
        """The samples of the last ``seconds``, as ``window.recent_window`` selects them."""
        return recent_window(self.history, self.snapshot.at_ns, seconds, fields, self.limits, self.periods)

    def is_active(self, class_id: str, subject: str) -> bool:
        """Whether the finding of this class and subject is active. Some rules then compare with a lower threshold."""
        return (class_id, subject) in self.carry.held

    @property
    def job_time_is_explained(self) -> bool:
        """Whether the rules about jobs explain an active job, so that those about single processes are not needed.

        They do if the job's stall is known. If its time is counted, less than _UNEXPLAINED_LIMIT of it must also be
        unexplained.
        """
        return any(
            job.stall is not None and job.active and (job.time is None or job.time.unexplained < _UNEXPLAINED_LIMIT)
            for job in self.jobs
        )

    @property
    def gpu_task_facts(self) -> tuple[TaskFacts, ...]:
        """The processes on the GPUs and their descendants; all processes if those are unknown or no GPU is in use."""
        return self.gpu_tasks.all()

    @property
    def gpu_tasks(self) -> Tasks:
        """The same processes as ``gpu_task_facts``, made on demand for rules that need only a few of them."""
        pids = self.gpu.pids
        if pids is None or not self.gpu.used:
            return self.all_tasks
        return self.lazy.compute_once("gpu_tasks", lambda: self._tasks(pids))

    def job_device(self, job: JobFacts) -> DeviceFacts | None:
        """The device that the job reads from, as ``job.job_device`` finds it."""
        infos = self.snapshot.disks.value or {}
        return self.lazy.compute_once(
            f"device of {job.subject}", lambda: job_device(job, self.devices, infos, self.limits)
        )

    def mount(self, device: DeviceFacts) -> str:
        """The mount point of the device, or of a device on top of it, that holds a job's data.

        If no such mount point is known, the nearest one; "" if nothing is mounted.
        """
        infos = self.snapshot.disks.value or {}
        return next(iter(self._data_mounts(device)), "") or mount_on(device.name, infos)

    def data_mount(self, device: DeviceFacts) -> str:
        """The only mount point on the device that may hold the jobs' data; "" if there is none or more than one."""
        mounts = self._data_mounts(device)
        return mounts[0] if len(mounts) == 1 else ""

    def _data_mounts(self, device: DeviceFacts) -> list[str]:
        infos, of_jobs = self.snapshot.disks.value or {}, [mount for job in self.jobs for mount in job.place.mounts]
        return self.lazy.compute_once(f"data mounts {device.name}", lambda: mounts_of_data(device.name, infos, of_jobs))

    @property
    def idle_cores(self) -> float | None:
        """The number of idle cores that the monitor can use; None when unknown.

        If the numbers of these cores are unknown, they count as idle for the same share of time as all cores.
        """
        cpu = self.snapshot.cpu.value
        if cpu is not None and cpu.allowed_numbers is not None:
            return self.idle_among(cpu.allowed_numbers)
        return None if cpu is None or self.cpu_free_ratio is None else cpu.allowed * self.cpu_free_ratio

    def idle_among(self, numbers: tuple[int, ...]) -> float | None:
        """The number of these cores that are neither busy nor taken by the hypervisor; None when unknown."""
        return self.lazy.compute_once(f"idle cores {numbers}", lambda: self._idle_among(numbers))

    def _idle_among(self, numbers: tuple[int, ...]) -> float | None:
        tables = [rates.cores for s in self.window.samples if (rates := s.cpu.value) is not None]
        free_ratio = mean(core.free_ratio for cores in tables for n in numbers if (core := cores.get(n)) is not None)
        return None if free_ratio is None else len(numbers) * free_ratio


class Claim(NamedTuple):
    """The result of one rule for the window; verdict/hysteresis.py decides when it becomes a finding."""

    finding: Finding
    share: float
    """The part of the samples in which the condition was true, 0..1."""
    samples: int
    needed: int
    """The fewest samples with which the claim may become a finding."""
    level: float = 1.0
    """The main signal divided by its threshold: a claim becomes active at 1, and ends below the ``leave`` of its
    class."""
    at_once: bool = False
    """Whether the claim needs no window, because it reports an event or a present state."""


def may_begin(limits: Thresholds, share: float, level: float) -> bool:
    """Whether a claim that is true in this share of its samples, and at this level, may become a finding."""
    return share >= limits.enter_share and level >= 1


def may_stay(limits: Thresholds, class_id: str, share: float, level: float) -> bool:
    """Whether a claim that is true in this share of its samples, and at this level, keeps an active finding active."""
    leave = CLASS_SPECS[class_id].leave
    return share >= limits.leave_share and level >= (limits.leave_level if leave is None else leave)


def may_count(facts: Facts, class_id: str, subject: str, flags: Flags, level: float) -> bool:
    """Whether a claim with these values may begin or keep a finding.

    Any other claim changes nothing (see verdict/hysteresis.py), so a rule may skip it.
    """
    share = sum(flags) / len(flags) if flags else 0.0
    if facts.is_active(class_id, subject):
        return may_stay(facts.limits, class_id, share, level)
    return may_begin(facts.limits, share, level)


def claim(facts: Facts, finding: Finding, flags: Flags, level: float = 1.0) -> Claim:
    """A claim whose condition is true in the samples that ``flags`` marks."""
    true_share = sum(flags) / len(flags) if flags else 0.0
    return Claim(finding, true_share, len(flags), facts.window.needed, level)


def pressure_ratio(window: Window, key: str) -> float | None:
    """The mean share of time in which some task waited for the resource ``key``; None when unknown."""
    tables = [table for s in window.samples if (table := s.pressure.value)]
    return mean([p.some_ratio for table in tables if (p := table.get(key)) is not None])


def gather(
    snapshot: Snapshot,
    history: tuple[Sample, ...],
    limits: Thresholds = LIMITS,
    carry: FoldState = NO_CARRY,
    cache: FoldCache | None = None,
) -> Facts:
    """The facts of the window that ends now.

    carry: the state of the rules. cache: the caches of the earlier decisions; None for empty caches.
    """
    cache = cache or FoldCache()
    periods = Periods(history)
    window = recent_window(
        history, snapshot.at_ns, limits.window_s, ("block", "processes", "gpu", "cpu"), limits, periods
    )
    cpu = snapshot.cpu.value
    lazy = Lazy()
    gpu = gpu_facts(snapshot, lambda: cache.process_trees.of(snapshot.processes.value), window, limits)
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
        jobs=job_facts(snapshot, history, gpu, cache.job_sums, limits, periods, carry.memory),
        periods=periods,
        lazy=lazy,
        carry=carry,
        cache=cache,
    )


def confidence(base: float, families: int, *caps: float) -> float:
    """The confidence: ``base`` if three families of signals agree, at most 0.75 with two and 0.5 with one.

    families: the number of families that agree, such as task states, device, pressure and GPU. caps: further upper
    limits.
    """
    by_families = base if families >= 3 else min(base, 0.75) if families == 2 else min(base, 0.5)
    return round(min((by_families, *caps)), 2)


def gpu_evidence(facts: Facts, threshold: float | None) -> tuple[Evidence, ...]:
    """The mean utilisation of the GPUs in use as evidence; () when it is unknown."""
    if facts.gpu.busy_ratio is None:
        return ()
    return (Evidence("gpus.busy_ratio", facts.gpu.busy_ratio, "ratio", threshold),)


def gpu_args(facts: Facts) -> Args:
    """The arguments of a sentence about the GPUs.

    gpus: the number of GPUs in use. gpus_all: the number of all GPUs. gpu_busy: the mean utilisation of the GPUs in
    use.
    """
    return (
        ("gpus", float(facts.gpu.used)),
        ("gpus_all", float(facts.gpu.total)),
        ("gpu_busy", facts.gpu.busy_ratio),
    )
