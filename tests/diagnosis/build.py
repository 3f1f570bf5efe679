"""Builds Snapshots and Samples of a small made-up machine, for tests of rules over a window."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.facts.fold_cache import FoldCache
from iotop_ai.model.block.counters import BlockCounters, BlockKey, Mount
from iotop_ai.model.finding import Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import HISTORY_S, Frame
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuProcess, GpuRates, GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.job.cgroup import CgroupRates, CgroupTable
from iotop_ai.model.job.records import IoLimit, Job, JobMount, JobPlace, JobTable, Rank
from iotop_ai.model.job.steps import LoaderSettings, StepCounts
from iotop_ai.model.job.task_states import JobRates, JobSample, SweepCounts, TaskCounts, TaskRates
from iotop_ai.model.job.time_shares import SHARES, TimeShares
from iotop_ai.model.machine.cpu import CoreRates, CpuRates, CpuTable, CpuTicks
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.kernel_log import DeviceErrors, KernelLog
from iotop_ai.model.machine.memory import MemoryRates, MemoryState
from iotop_ai.model.machine.netfs import NetfsTable, NfsMount, NfsOpRates, NfsRates
from iotop_ai.model.machine.network import LinkRates
from iotop_ai.model.machine.pool import ArcCounters, PoolTable
from iotop_ai.model.machine.pressure import PressureRates, PressureTotals
from iotop_ai.model.process.blocked import Wait
from iotop_ai.model.process.records import (
    ProcessInfo,
    ProcessIo,
    ProcessKey,
    ProcessRates,
    ProcessSample,
    ProcessStat,
    ProcessTable,
)
from iotop_ai.model.reading import Rated, Reading, Status
from iotop_ai.model.sample import OwnRates, Sample
from iotop_ai.model.snapshot import Event, Host, OwnCost, Snapshot
from tests.diagnosis.disk import Disk

S, OWN_PID = 1_000_000_000, 4000
MB, GIB = 1e6, 1 << 30


@dataclass(frozen=True)
class Task:
    """A process. blocked: the share of seconds in which it is in state D, evenly spread.

    reads_with_children: the bytes per second that its counters show since its start, with those of ended children.
    """

    pid: int
    name: str = "python"
    ppid: int = 1
    cpu: float | None = 0.0
    read: float | None = 0.0
    write: float | None = 0.0
    blocked: float = 0.0
    delay: float | None = None
    kernel: bool = False
    denied: bool = False
    cmdline: tuple[str, ...] = ()
    start: int = 100
    write_calls: float = 0.0
    user: str = "alice"
    uid: int = 1000
    reads_with_children: float = 0.0
    read_so_far: int | None = None
    """The bytes that it has read from disks since its start; None if its io is not in the table."""

    @property
    def key(self) -> ProcessKey:
        return ProcessKey(self.pid, self.start)

    def read_at(self, at_ns: float) -> int | None:
        """The bytes that its io shows as read at this time; None if its io is not in the table."""
        if self.read_so_far is not None or not self.reads_with_children:
            return self.read_so_far
        return round(self.reads_with_children * (at_ns / S - self.start / 100))

    def in_d(self, second: int) -> bool:
        return int((second + 1) * self.blocked) > int(second * self.blocked)

    @property
    def rates(self) -> ProcessRates:
        return ProcessRates(
            self.read, self.write, 0.0, self.read, 0.0, 1.0, self.write_calls, self.cpu, self.delay, 0.0
        )


@dataclass(frozen=True)
class Training:
    """A job that does the same each second: ``task`` trains, ``workers`` load the data.

    stall: the share of samples in which the trainer waits. disk, running, net: the shares of the workers that wait for
    the disk, run or wait for the network in these samples; the others sleep. main_*: the shares of the trainer's
    states. worker_*: the mean shares of the workers' states. blocked: the number of tasks in state D.
    """

    task: Task
    workers: tuple[Task, ...] = ()
    stall: float | None = 0.0
    disk: float = 0.0
    running: float = 0.0
    net: float = 0.0
    main_disk: float = 0.0
    main_running: float = 0.0
    worker_disk: float | None = 0.0
    worker_cpu: float | None = 0.05
    worker_cpu_wait: float | None = 0.0
    main_cpu_wait: float | None = 0.0
    blocked: float = 0.0
    gpus: tuple[str, ...] = ()
    mounts: tuple[JobMount, ...] = (JobMount("/data", "ext4", "/dev/sda", "8:0"),)
    limits: tuple[IoLimit, ...] = ()
    shm: float = 0.1
    shm_total: int = GIB
    label: str = ""
    wait_channels_hidden: bool = False
    grown: float = 0.0
    evidence: tuple[str, ...] = ("loader",)
    hidden: tuple[str, ...] = ()
    saving: frozenset[int] = frozenset()
    cores: int | None = None
    quota: float | None = None
    queue: float | None = None
    """The share of samples in which the trainer sleeps in a queue; None: the same share as ``stall``."""
    listening: int | None = None
    uid: int = 1000
    apart: float = 0.0
    worker_kind: str = ""
    framework: str = ""
    readers: tuple[str, ...] = ()
    throttled: float | None = None
    """The share of the periods in which its CPU quota ran out; None: its cgroup is unknown."""
    memory_limit: int | None = None
    memory_used: int | None = None
    notebook: bool = False
    time: tuple[tuple[str, float], ...] = ()
    """The shares of the job's time that are not 0; () if its time is not counted."""
    file_waits: float | None = None
    """The share of its time that it waits for files of a network mount; None if that is not counted separately."""
    pin_tid: int = 0
    number: int | None = None
    own_wait: float = 0.0
    """The share of time in which its first rank waits for its own data."""
    peers: tuple[tuple[Rank, float], ...] = ()
    """Its further ranks, each with the share of time in which it waits for its own data."""
    loader: LoaderSettings | None = None
    """The settings of its DataLoader, if it reports its steps."""

    @property
    def shares(self) -> TimeShares:
        return TimeShares._make((*(dict(self.time).get(name, 0.0) for name in SHARES), 1000))

    @property
    def job(self) -> Job:
        workers = tuple(w.key for w in self.workers)
        first = Rank(self.task.key, workers, self.gpus, self.pin_tid, self.worker_kind, self.number)
        ranks = (first, *(rank for rank, _ in self.peers))
        return Job(
            self.task.key, "train.py", "alice", self.uid, ranks, label=self.label,
            framework=self.framework, evidence=self.evidence, hidden=self.hidden, notebook=self.notebook,
            readers=self.readers,
        )  # fmt: skip

    @property
    def place(self) -> JobPlace:
        return JobPlace(
            self.limits, self.quota, shm_total_bytes=self.shm_total, shm_used_bytes=int(self.shm * self.shm_total),
            mounts=self.mounts, allowed_cores=self.cores, listening=self.listening, connections=self.listening,
            memory_limit_bytes=self.memory_limit, memory_used_bytes=self.memory_used,
            allowed_numbers=None if self.cores is None else tuple(range(self.cores)),
        )  # fmt: skip

    def rates(self, second: int) -> JobRates | None:
        if self.stall is None:
            return None
        saving = second in self.saving
        waits = 0 if saving else round(20 * self.stall)
        states = waits * len(self.workers)
        rest = max(0.0, 1 - self.disk - self.running - self.net)
        idle = None if self.worker_cpu is None else 1 - self.worker_cpu - (self.worker_disk or 0.0)
        return JobRates(
            20, waits, round(states * self.disk), round(states * self.running), round(states * self.net),
            round(states * rest), waits if self.wait_channels_hidden else 0, self.stall,
            0.95 if saving else self.main_disk, self.main_running,
            self.stall if self.queue is None else self.queue, self.blocked, self.worker_disk, self.worker_cpu,
            self.worker_cpu_wait, idle, 0.0, self.apart,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)  # without eq, each Machine has a hash and is a key of a cache
class Machine:
    """The machine's properties in each second of a scene. gpus: the busy ratio of each GPU; None if it is unknown."""

    disks: tuple[Disk, ...] = (Disk(),)
    tasks: tuple[Task, ...] = ()
    gpus: tuple[float | None, ...] = ()
    gpu_pids: tuple[int, ...] = ()
    gpu_kind: str = "compute"
    gpu_status: Status = Status.ABSENT
    power: float | None = None
    cpu: float | None = 0.02
    steal: float = 0.0
    available_bytes: int | None = None
    total_bytes: int | None = None
    arc: ArcCounters | None = None
    cores: int = 8
    io_pressure: float | None = 0.0
    smart: tuple[SmartState, ...] = ()
    usage: dict[str, FilesystemUsage] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    smart_silent: bool = False
    ptrace: bool = True
    psi: bool = True
    without_readings: bool = False
    interval_s: float = 1.0
    job: Training | None = None
    memory_pressure: float | None = 0.0
    swap_in: float | None = 0.0
    refault: float | None = 0.0
    second_job: Training | None = None
    gpu_state: dict[str, Any] = field(default_factory=dict)
    gpu_rates: dict[str, Any] = field(default_factory=dict)
    gpu_detail: dict[str, Any] = field(default_factory=dict)
    gpu_only: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The state of single GPUs, by their number; the fields above apply to all GPUs. The next field has their rates."""
    gpu_only_rates: dict[int, dict[str, Any]] = field(default_factory=dict)
    gpu_lost: frozenset[int] = frozenset()
    links: dict[str, float | None] = field(default_factory=dict)
    """How full each network link is, by the link's name."""
    sent: dict[str, float] = field(default_factory=dict)
    """The bytes that a link sends per second, if any."""
    euid: int = 0
    container: str = ""
    errors: dict[str, DeviceErrors] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    """The events of each second."""
    nfs: tuple[tuple[NfsMount, NfsOpRates], ...] = ()
    """The NFS mounts, each with the rates of its reads."""

    @property
    def jobs(self) -> tuple[Training, ...]:
        return tuple(job for job in (self.job, self.second_job) if job is not None)


def _gpu_reading(machine: Machine, at: int) -> Reading[dict[str, Reading[GpuState]]]:
    if not machine.gpus:
        return Reading(None, machine.gpu_status, "no NVIDIA driver", "", at)
    used = GIB if machine.gpu_pids else 0
    return Reading(
        {
            f"GPU-{i}": Reading(None, Status.FAILED, "the GPU is lost", "reset it", at)
            if i in machine.gpu_lost
            else Reading(
                GpuState(
                    f"GPU-{i}", i, "H100", None if busy is None else round(busy * 100), memory_used_bytes=used,
                    processes=tuple(GpuProcess(pid, GIB, machine.gpu_kind) for pid in machine.gpu_pids),
                )._replace(**{**machine.gpu_state, **machine.gpu_only.get(i, {})}),
                Status.OK, at_ns=at,
            )
            for i, busy in enumerate(machine.gpus)
        },
        Status.OK,
        at_ns=at,
    )  # fmt: skip


def _gpus_of(machine: Machine) -> tuple[str, ...]:
    """The GPUs that list the processes of the job."""
    listed = {i: state["processes"] for i, state in machine.gpu_only.items() if state.get("processes") is not None}
    unused = [i for i, programs in listed.items() if all(one.pid not in machine.gpu_pids for one in programs)]
    return tuple(f"GPU-{i}" for i in range(len(machine.gpus)) if i not in unused)


_CGROUP = "/job"
UNKNOWN_CGROUP = CgroupRates(*[None] * len(CgroupRates._fields))._replace(devices={})
UNKNOWN_NFS = NfsRates(None, None, None, None, None, {})


def _cgroup_rates(machine: Machine) -> dict[str, CgroupRates]:
    throttled = [job.throttled for job in machine.jobs if job.throttled is not None]
    return {_CGROUP: UNKNOWN_CGROUP._replace(throttled_ratio=throttled[0])} if throttled else {}


def snapshot_of(machine: Machine, second: int) -> Snapshot:
    """The Snapshot at this second of the scene."""
    at = int(second * machine.interval_s * S)
    ok = {"status": Status.OK, "at_ns": at}
    tasks = (*machine.tasks, Task(OWN_PID, "iotop-ai"))
    processes = ProcessTable(
        {t.key: ProcessIo(0, 0, 0, 0, read, 0, 0) for t in tasks if (read := t.read_at(at)) is not None},
        {t.key: ProcessStat("D" if t.in_d(second) else "S", t.ppid, 0, 0, 0, 0, 0, 1, 0, 0) for t in tasks},
        {t.key: ProcessInfo(t.name, t.cmdline or (t.name,), t.user, t.uid, t.kernel) for t in tasks},
        frozenset(t.key for t in tasks if t.denied), at, at, (at,), {}, {}, {}, {},
    )  # fmt: skip
    snapshot = Snapshot(
        second, at, at, machine.interval_s,
        Host("h", "boot", "6", machine.euid, "root", machine.ptrace, machine.container),
        tuple(event._replace(at_ns=at, wall_ns=at) for event in machine.events), OwnCost(OWN_PID, 0, None, 0, 0),
    )  # fmt: skip
    if machine.without_readings:
        return snapshot
    found = machine.jobs
    if found:
        every = _gpus_of(machine)
        found = tuple(replace(job, gpus=every) if job.task.pid in machine.gpu_pids else job for job in found)
        keys = [key for job in found for key in (job.task.key, *(w.key for w in job.workers))]
        jobs = JobTable(
            {job.task.key: job.job for job in found},
            {job.task.key: SweepCounts() for job in found},
            dict.fromkeys(keys, TaskCounts()),
            {job.task.key: job.place for job in found},
            0,
        )
        reports = {job.task.key: StepCounts(at, second, second, 0, loader=job.loader) for job in found if job.loader}
        snapshot = snapshot._replace(jobs=Reading(jobs, **ok), steps=Reading(reports, **ok))
    return snapshot._replace(
        block=Reading(
            {BlockKey(d.name, 0): BlockCounters(*[0] * 17)._replace(in_flight=d.in_flight) for d in machine.disks}, **ok
        ),
        disks=Reading({d.name: d.info for d in machine.disks}, **ok),
        processes=Reading(processes, **ok),
        cpu=Reading(CpuTable({n: CpuTicks(*[0] * 8) for n in range(machine.cores)}, machine.cores, None), **ok),
        memory=Reading(MemoryState(machine.total_bytes, machine.available_bytes, *[None] * 25), **ok),
        pools=Reading(PoolTable(machine.arc), **ok) if machine.arc else Reading(None, Status.ABSENT, "no ZFS", "", at),
        pressure=Reading({"io": PressureTotals(0, 0)}, **ok)
        if machine.psi
        else Reading(None, Status.OFF, "PSI is off", "boot with psi=1", at),
        gpu=_gpu_reading(machine, at),
        smart=Reading(
            {
                s.device: Reading(None, Status.FAILED, "timeout", "", at) if machine.smart_silent else Reading(s, **ok)
                for s in machine.smart
            },
            **ok,
        ),
        filesystems=Reading({m: Reading(u, **ok) for m, u in machine.usage.items()}, **ok),
        mounts=Reading(machine.mounts, **ok),
        network=Reading({}, **ok),
        netfs=Reading(NetfsTable({mount.mount: mount for mount, _ in machine.nfs}, {}), **ok),
        cgroups=Reading(CgroupTable(jobs={job.task.key: _CGROUP for job in found if job.throttled is not None}), **ok),
        gpu_slow=Reading(
            {
                f"GPU-{i}": Reading(GpuDetail(f"GPU-{i}")._replace(**machine.gpu_detail), Status.OK, at_ns=at)
                for i in range(len(machine.gpus))
            },
            **ok,
        ),
        kernel=Reading(KernelLog(machine.errors), **ok),
    )


def sample_of(machine: Machine, second: int) -> Sample:
    """The Sample at this second of the scene, with constant rates; at second 0 there are no rates."""
    at, seconds = int(second * machine.interval_s * S), machine.interval_s if second else None
    bare = Sample(at, at, seconds, False, OwnRates(0.01, None, 0.0, 0.0))
    if machine.without_readings:
        return bare

    def rated(value: object) -> Rated:
        return Rated(value, at, seconds, True)

    found = machine.jobs
    if found:
        rates = {job.task.key: r for job in found if seconds and (r := job.rates(second)) is not None}
        tasks = {j.task.key: TaskRates(j.main_disk, j.main_running, 0.0, 0.1, j.main_cpu_wait, j.grown) for j in found}
        tasks |= {
            worker.key: TaskRates(j.worker_disk, j.worker_cpu, 0.0, j.worker_cpu, j.worker_cpu_wait)
            for j in found
            for worker in j.workers
        }
        times = {job.task.key: job.shares for job in found if seconds and job.time}
        files = {job.task.key: job.file_waits for job in found if job.task.key in times and job.file_waits is not None}
        waits = {j.task.key: j.own_wait for j in found if j.peers}
        waits |= {rank.key: wait for j in found for rank, wait in j.peers}
        bare = bare._replace(jobs=rated(JobSample(rates, tasks, 0.005, times, files, waits)))
    core = CoreRates(machine.cpu, machine.cpu, 0.0, 0.0, machine.steal)
    return bare._replace(
        block=rated({BlockKey(d.name, 0): d.rates for d in machine.disks}),
        processes=rated(ProcessSample({t.key: t.rates for t in machine.tasks if not t.denied} if seconds else {})),
        cpu=rated(CpuRates(core, dict.fromkeys(range(machine.cores), core), 0)),
        memory=rated(MemoryRates(machine.refault, 0.0, 0.0, machine.swap_in, 0.0, 0.0, 0.0, 0.0)),
        pressure=rated(
            {
                "io": PressureRates(machine.io_pressure, machine.io_pressure),
                "memory": PressureRates(machine.memory_pressure, None),
            }
        ),
        gpu=rated(
            {
                f"GPU-{i}": GpuRates(busy, None, None, None, None, machine.power, 700.0, None)._replace(
                    **{**machine.gpu_rates, **machine.gpu_only_rates.get(i, {})}
                )
                for i, busy in enumerate(machine.gpus)
                if i not in machine.gpu_lost
            }
        ),
        network=rated(
            {name: LinkRates(0.0, machine.sent.get(name, 0.0), 0.0, 0.0, busy) for name, busy in machine.links.items()}
        ),
        netfs=rated({mount.mount: UNKNOWN_NFS._replace(ops={"READ": reads}) for mount, reads in machine.nfs}),
        cgroups=rated(_cgroup_rates(machine)),
        waits={t.key: Wait(1, 1) for t in machine.tasks if t.in_d(second) and not t.kernel},
    )


def play(*scenes: tuple[Machine, int], carry: FoldState | None = None, suspended_ns: int | None = None) -> list[Frame]:
    """The Frames of machines that follow each other, each for its number of ticks. suspended_ns: as in a Snapshot."""
    frames: list[Frame] = []
    history: tuple[Sample, ...] = ()
    carry, fold_cache, second = carry or FoldState(), FoldCache(), 0
    for machine, ticks in scenes:
        for _ in range(ticks):
            snapshot, sample = snapshot_of(machine, second), sample_of(machine, second)
            snapshot = snapshot._replace(suspended_ns=suspended_ns)
            oldest = snapshot.at_ns - int(HISTORY_S * S)
            history = (*(s for s in history if s.at_ns > oldest), sample)
            carry, verdict = fold(carry, snapshot, history, cache=fold_cache)
            frames.append(Frame(snapshot, sample, history, carry, verdict))
            second += 1
    return frames


@cache
def last(machine: Machine, ticks: int = 15) -> Frame:
    """The Frame of one machine after this many ticks."""
    return play((machine, ticks))[-1]


def verdict_of(machine: Machine, ticks: int = 15) -> Verdict:
    return last(machine, ticks).verdict


def classes(verdict: Verdict) -> list[str]:
    return [f.class_id for f in verdict.findings]


WORKERS = tuple(Task(100 + i, "pt_data_worker", 50, cpu=0.01, read=11 * MB, blocked=0.97) for i in range(8))
TRAINER = Task(50, "python", 1, cpu=0.06)
SLOW_SSD = Disk(read_bytes_per_s=92 * MB, await_ms=87.0, busy=1.0)

STARVED = Machine(
    disks=(SLOW_SSD,), tasks=(TRAINER, *WORKERS), gpus=(0.22,) * 8, gpu_pids=(50,), power=188.0, io_pressure=0.9,
    cpu=0.05, cores=40,
)  # fmt: skip
PREPARING = Machine(
    disks=(Disk(read_bytes_per_s=20 * MB, await_ms=0.6, busy=0.1),),
    tasks=(TRAINER, *(Task(100 + i, "pt_data_worker", 50, cpu=0.98, read=2 * MB) for i in range(8))),
    gpus=(0.39,) * 8, gpu_pids=(50,), power=200.0, cpu=0.2, cores=40,
)  # fmt: skip
SINGLE = Machine(
    disks=(Disk(read_bytes_per_s=20 * MB, await_ms=0.6, busy=0.1),),
    tasks=(replace(TRAINER, cpu=0.99, read=20 * MB),), gpus=(0.2,), gpu_pids=(50,), power=100.0, cpu=0.13,
)  # fmt: skip
BUSY = Machine(
    disks=(Disk(read_bytes_per_s=300 * MB, await_ms=0.8, busy=0.5),),
    tasks=(TRAINER, *(replace(w, blocked=0.1) for w in WORKERS)), gpus=(0.96,) * 8, gpu_pids=(50,), power=655.0,
    cpu=0.2)  # fmt: skip
IDLE = Machine()
TRAINER_OLD = Task(50, "python", 1, cpu=0.06, start=-100_000)
LOADERS = tuple(
    Task(100 + i, "pt_data_worker", 50, cpu=0.01, read=11 * MB, blocked=0.97, start=-99_000) for i in range(8)
)
FETCHING = Training(
    TRAINER_OLD, LOADERS, stall=0.8, disk=0.97, running=0.03, worker_disk=0.97, worker_cpu=0.01, blocked=7.8,
)  # fmt: skip
JOB_STARVED = replace(
    STARVED, tasks=(TRAINER_OLD, *LOADERS), job=FETCHING, disks=(replace(SLOW_SSD, queue=7.9),), gpu_pids=(50,)
)
"""A job on 8 GPUs, whose workers are blocked by a slow SSD."""
JOB_ALONE = replace(JOB_STARVED, gpus=(), gpu_pids=(), power=None)
"""JOB_STARVED without GPUs."""
COMPUTING = replace(
    FETCHING, disk=0.02, running=0.98, worker_disk=0.01, worker_cpu=0.97, worker_cpu_wait=0.02, blocked=0.1
)
JOB_PREPARING = replace(JOB_ALONE, job=COMPUTING, disks=(Disk(read_bytes_per_s=20 * MB, await_ms=0.6, busy=0.1),))
JOB_HEALTHY = replace(
    JOB_PREPARING, job=replace(COMPUTING, stall=0.01, disk=0.5, running=0.5, worker_cpu=0.05, worker_disk=0.02)
)
"""A job without a GPU, whose workers mostly rest."""
