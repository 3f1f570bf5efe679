"""The facts of the training jobs over a window: the share of time without data, and its cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter, mul

from iotop_ai.diagnosis.facts.block import DeviceFacts, joined
from iotop_ai.diagnosis.facts.gpu import GpuFacts
from iotop_ai.diagnosis.facts.job_gpus import (
    gpu_busy,
    held_gpus,
    job_gpus,
    own_part_known,
    owner_of_hidden,
    possible_gpus,
)
from iotop_ai.diagnosis.facts.job_moved import JobSums
from iotop_ai.diagnosis.facts.late_ranks import LateRanks, late_ranks
from iotop_ai.diagnosis.facts.time_window import file_waits, handover, window_shares
from iotop_ai.diagnosis.facts.window import Periods, Window, mean, recent_window
from iotop_ai.diagnosis.memory.jobs import NOTHING as NO_JOB_MEMORY
from iotop_ai.diagnosis.memory.jobs import Memory
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.block.tree import disks_of_mount
from iotop_ai.model.job.records import Job, JobMount, JobPlace
from iotop_ai.model.job.task_states import JobRates
from iotop_ai.model.job.time_shares import TimeShares
from iotop_ai.model.machine.filesystem import is_fuse
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

_Parts = tuple[float | None, float | None, float | None, float | None]
"""The fields disk, running, net and other of ``JobFacts``."""
_UNKNOWN: _Parts = (None, None, None, None)
NO_PLACE = JobPlace()
NO_MEMORY: Memory = {}
_LOADS_OFF_MAIN_THREAD = 0.3
"""In a job without workers, the main thread does not make the data if threads or children make data in at least this
part of the wait for data."""
_ACTIVE = 0.1
"""A job without workers and GPUs is idle while its use of a core and its time in state D are below this share."""


class JobFacts(NamedTuple):
    """One job over a window. Ratios are means over the samples of its tasks, 0..1, and None when unknown.

    disk, running, net, other: how the processes and threads that make the data spend the time in which the trainer
    waits for data, as shares that add up to 1. If the job's time is not counted and the job has no workers, they are
    the trainer's own shares of the time; net and other are then 0.
    main_*, worker_*: shares of the time of the trainers' main threads and of the loader processes.
    """

    job: Job
    place: JobPlace
    window: Window
    stall: float | None
    """The share of time in which the trainer has no data."""
    long_stall: float | None
    """The share of time in which the trainer has no data, over the long window."""
    disk: float | None
    running: float | None
    net: float | None
    other: float | None
    main_disk_ratio: float | None
    main_running_ratio: float | None
    main_disk: tuple[float | None, ...]
    """For each sample, the share of time in which the main thread waits for a disk."""
    blocked_tasks: float | None
    """The mean number of the job's tasks in state D at one moment."""
    waits_hidden: bool
    """Whether the kernel hides where the trainer sleeps."""
    worker_disk: float | None
    worker_cpu: float | None
    worker_cpu_wait: float | None
    worker_idle: float | None
    grown_bytes_per_s: float | None
    """The mean memory growth per trainer."""
    read_bytes_per_s: float | None
    read_chars_per_s: float | None
    """The bytes per second of all read calls, from disks or from the page cache."""
    write_bytes_per_s: float | None
    cpu_ratio: float | None
    """The CPU use of all processes of the job, in cores."""
    gpu_busy: float | None
    """The mean utilisation of the job's GPUs, without the part that other programs cause; None when unknown or
    without a GPU."""
    used_gpus: frozenset[str]
    """The UUIDs of the GPUs that the job uses. If the processes on the GPUs are hidden, all GPUs in use belong to the
    only job that works and may use a GPU."""
    workers: int
    """The number of loader processes of all ranks."""
    age_s: float | None
    """The age of the job's oldest trainer."""
    made_elsewhere_ratio: float | None = None
    """The share of the samples in which the main thread slept while another part of the job made data."""
    time: TimeShares | None = None
    """The shares of the job's time over the window; None if the time was not counted. If known, stall and its parts
    follow from these shares."""
    long_time: TimeShares | None = None
    """The shares of the job's time over the long window."""
    shares_gpu: bool = False
    """Whether another program computes, or may compute, on the job's GPUs. Busy GPUs then do not show that this job
    has its data."""
    loaders_compute: bool = False
    """Whether the loader processes compute or wait for a core most of the time. A small ``time.host`` may then be time
    that next() takes."""
    handover: float = 0.0
    """The part of ``time.host`` that is counted in ``stall``: time in which next() takes batches from busy loaders."""
    long_gate: float = LIMITS.long_gate
    """The lost share of time below which no rule claims a loss over the long window. While the job has been observed
    for less than that window, it is higher."""
    held_gpus: frozenset[str] = frozenset()
    """The UUIDs of the GPUs that the job only holds, as TensorFlow and JAX hold all GPUs that they can see."""
    late: LateRanks | None = None
    """The ranks that wait for their data while the others wait for them; None if there are none, or when unknown."""

    @property
    def gpus(self) -> int:
        """The number of the GPUs that the job uses."""
        return len(self.used_gpus)

    @property
    def loads_off_main_thread(self) -> bool:
        """Whether something other than the main thread makes the data: workers, other threads, or children."""
        if self.workers or self.time is None:
            return bool(self.workers)
        return (self.made_elsewhere_ratio or 0.0) >= _LOADS_OFF_MAIN_THREAD * self.time.data > 0

    @property
    def active(self) -> bool:
        """Whether the job works. A notebook that has only loaded its framework does not."""
        return bool(self.workers or self.gpus) or _is_busy(
            self.cpu_ratio, self.main_disk_ratio, self.main_running_ratio
        )

    @property
    def subject(self) -> str:
        """The name of the job in a finding, which is the pid of its top process."""
        return str(self.job.key.pid)

    @property
    def remote_mount(self) -> JobMount | None:
        """The network filesystem from which the job reads most; None if it reads most from a local filesystem."""
        return self.place.remote_mount

    @property
    def reads_locally(self) -> bool:
        """Whether the job is known to read most from a filesystem that is not a network filesystem."""
        return self.place.reads_locally

    @property
    def through_fuse(self) -> bool:
        """Whether the job reads through a FUSE program on this machine.

        The waits of that program do not show in the job.
        """
        return bool(self.place.mounts) and is_fuse(self.place.mounts[0].fstype)


def _is_busy(cpu: float | None, main_disk: float | None, main_running: float | None) -> bool:
    """Whether a job works, by its ``cpu_ratio``, ``main_disk_ratio`` and ``main_running_ratio``."""
    return max(cpu or 0.0, main_disk or 0.0, main_running or 0.0) >= _ACTIVE


_GETTERS = {field: itemgetter(index) for index, field in enumerate(JobRates._fields)}
_SWEEPS = _GETTERS["sweeps"]


def _rates(window: Window, key: ProcessKey) -> list[JobRates]:
    """The job's rates in those samples of the window that have them."""
    return [r for s in window.samples if s.jobs.value is not None and (r := s.jobs.value.jobs.get(key)) is not None]


def _weighted_mean(rates: Sequence[JobRates], field: str) -> float | None:
    """The mean of a share, weighted by the number of sweeps in each interval; None when unknown.

    A sweep samples a trainer and all its workers at one moment.
    """
    values, sweeps = [*map(_GETTERS[field], rates)], [*map(_SWEEPS, rates)]
    if None in values:
        sweeps = [count for value, count in zip(values, sweeps, strict=True) if value is not None]
        values = [value for value in values if value is not None]
    whole = sum(sweeps)
    return sum(map(mul, values, sweeps)) / whole if whole else None


def _idle(gpu_busy: float | None) -> float:
    """The share of time in which the GPUs idle; 1 if it is unknown."""
    return 1.0 if gpu_busy is None else max(0.0, 1 - gpu_busy)


def _stall(rates: Sequence[JobRates], workers: int, gpu_busy: float | None) -> float | None:
    """The share of time without data; None when unknown.

    In a job with workers, it is at most the GPUs' idle share. In a job without workers, the trainer loads its data
    itself: while it is blocked, it waits for a device; while it runs and the GPUs idle, it prepares data. While the
    GPUs are busy, a running trainer does not count, because it often only spins until the GPU is done.
    """
    idle = _idle(gpu_busy)
    if workers:
        stall = _weighted_mean(rates, "stall_ratio")
        return None if stall is None else min(stall, idle)
    disk, running = _weighted_mean(rates, "main_disk_ratio"), _weighted_mean(rates, "main_running_ratio")
    if disk is None or running is None:
        return None
    return disk + min(running, max(0.0, idle - disk))


def _sampled_parts(rates: Sequence[JobRates], workers: int) -> _Parts:
    """The shares (disk, running, net, other) from samples, for a job whose time is not counted."""
    if not workers:
        disk, running = _weighted_mean(rates, "main_disk_ratio"), _weighted_mean(rates, "main_running_ratio")
        return _UNKNOWN if disk is None else (disk, running, 0.0, 0.0)
    counts = [sum(getattr(r, f"wait_{kind}") for r in rates) for kind in ("disk", "running", "net", "other")]
    whole = sum(counts)
    if not whole:
        return _UNKNOWN
    disk, running, net, other = (count / whole for count in counts)
    return disk, running, net, other


def _parts(time: TimeShares, files: float, handover_share: float) -> _Parts:
    """The shares of the wait for data: (disk, running, net, other); all None without a wait.

    Waits for files on a network count as disk.

    files: the share of time in waits for files on the job's network mount. handover_share: the part of
    ``time.host`` that counts as a wait for loaders that compute.
    """
    if not time.data:
        return _UNKNOWN
    files, whole = min(files, time.data_network), time.data + handover_share
    disk, network = time.data_disk + files, time.data_network - files
    return disk / whole, (time.data_cpu + handover_share) / whole, network / whole, time.data_other / whole


class _DataWait(NamedTuple):
    """Some fields of ``JobFacts``, under the same names. parts: disk, running, net and other."""

    stall: float | None
    parts: _Parts
    handover: float = 0.0


def _data_wait(
    rates: Sequence[JobRates],
    workers: int,
    busy: float | None,
    time: TimeShares | None,
    files: float,
    min_own_work: float,
    job: Job,
) -> _DataWait:
    """The share of time without data and its parts, from the job's time shares; if there are none, from samples.

    If the job's GPUs are not known, its time shares may lack the time on the GPU; the wait is then at most the GPUs'
    idle share.
    busy: the utilisation of the job's GPUs, or of those that may be its own.
    min_own_work: a ``time.host`` of at least this is the main thread's own work; a lower one may be a wait for loaders.
    It is 0 in a job whose loader processes do not compute.
    """
    if time is not None:
        handover_share = handover(time, min_own_work)
        stall = time.data + handover_share
        stall = stall if job.gpus else min(stall, _idle(busy))
        return _DataWait(stall, _parts(time, files, handover_share), handover_share)
    return _DataWait(_stall(rates, workers, busy), _sampled_parts(rates, workers))


def _long_stall(
    long: Window,
    job: Job,
    workers: int,
    busy: Callable[[], tuple[float | None, bool]],
    time: TimeShares | None,
    min_own_work: float,
) -> float | None:
    """The share of time without data over the long window, from the job's time shares or else from samples.

    busy: returns the result of ``gpu_busy`` for that window; it is called only if the shares or GPUs are unknown.
    """
    if time is not None:
        stall = time.data + handover(time, min_own_work)
        return stall if job.gpus else min(stall, _idle(busy()[0]))
    return _stall(_rates(long, job.key), workers, busy()[0])


def _long_gate(long: Window, key: ProcessKey, limits: Thresholds) -> float:
    """The field long_gate of ``JobFacts``: from ``gate`` after the short window down to ``long_gate``.

    Shares of a short time are less exact: of 30 s (600 samples), a share of 5 % has a standard error of 1 point, so
    that every second job that loses a little less than 5 % would seem to lose more.
    """
    seconds = sum(s.seconds or 0.0 for s in long.samples if s.jobs.value is not None and key in s.jobs.value.jobs)
    filled = (seconds - limits.window_s) / (limits.long_window_s - limits.window_s)
    return limits.gate - (limits.gate - limits.long_gate) * min(1.0, max(0.0, filled))


def _worker_shares(rates: Sequence[JobRates]) -> tuple[float | None, float | None, float | None, float | None]:
    """The fields worker_disk, worker_cpu, worker_cpu_wait and worker_idle of ``JobFacts``."""
    disk, cpu = _weighted_mean(rates, "worker_disk_ratio"), _weighted_mean(rates, "worker_cpu_ratio")
    return disk, cpu, _weighted_mean(rates, "worker_cpu_wait_ratio"), _weighted_mean(rates, "worker_idle_ratio")


def _loaders_compute(rates: Sequence[JobRates], limits: Thresholds) -> bool:
    """Whether the loader processes are on a CPU, or wait for a CPU, most of the time."""
    runs, waits = _weighted_mean(rates, "worker_cpu_ratio"), _weighted_mean(rates, "worker_cpu_wait_ratio")
    return (runs or 0.0) + (waits or 0.0) >= limits.decider


def job_facts(
    snapshot: Snapshot,
    history: tuple[Sample, ...],
    gpu: GpuFacts,
    sums: JobSums,
    limits: Thresholds = LIMITS,
    periods: Periods | None = None,
    memory: Memory = NO_MEMORY,
) -> tuple[JobFacts, ...]:
    """The facts of every job in the Snapshot; () if no job is known. sums, memory: what earlier decisions have kept."""
    table = snapshot.jobs.value
    if table is None or not table.jobs:
        return ()
    sums.keep_only(table.jobs)
    window = recent_window(history, snapshot.at_ns, limits.window_s, ("jobs",), limits, periods)
    long = recent_window(history, snapshot.at_ns, limits.long_window_s, ("jobs",), limits, periods)
    owner = owner_of_hidden(table.jobs.values(), gpu, partial(_works, snapshot, window, sums))
    out = []
    for key, job in table.jobs.items():
        rates, place = _rates(window, key), table.places.get(key, NO_PLACE)
        # A job whose workers are being replaced has none for a moment, but it still does not load its data itself.
        loaders = len(job.workers)
        workers = loaders or int(memory.get(key, NO_JOB_MEMORY).newest_ticks > 0)
        time, long_time = (window_shares(w, key) for w in (window, long))
        own_known, computing = own_part_known(snapshot, job), bool(loaders) and _loaders_compute(rates, limits)
        uuids = job_gpus(job, gpu, owner)
        used = uuids - (held := held_gpus(long, job, uuids, limits))
        busy, shares_gpu = gpu_busy(window, used, own_known, time)
        min_own_work = limits.gate if computing else 0.0
        possible = used or possible_gpus(job, gpu)
        possible_busy = busy if used else gpu_busy(window, possible, own_known, time)[0]
        long_busy = partial(gpu_busy, long, possible, own_known, None)
        wait = _data_wait(rates, workers, possible_busy, time, file_waits(window, key, place), min_own_work, job)
        out.append(
            JobFacts(
                job,
                place,
                window,
                wait.stall,
                _long_stall(long, job, workers, long_busy, long_time, min_own_work),
                *wait.parts,
                _weighted_mean(rates, "main_disk_ratio"),
                _weighted_mean(rates, "main_running_ratio"),
                _main_disk(window, key),
                _blocked_tasks(rates, job),
                _waits_hidden(rates),
                *_worker_shares(rates),
                _growth(window, job),
                *sums.totals(window, job, snapshot.processes.value),
                busy,
                used,
                loaders,
                _age_s(snapshot, job),
                _weighted_mean(rates, "apart_ratio"),
                time,
                long_time,
                shares_gpu,
                computing,
                wait.handover,
                _long_gate(long, key, limits),
                held,
                late_ranks(window, long, job, wait.stall, limits),
            )
        )
    return tuple(out)


def _works(snapshot: Snapshot, window: Window, sums: JobSums, job: Job) -> bool:
    """Whether the job has loaders, or works in the window."""
    rates, cpu = _rates(window, job.key), sums.totals(window, job, snapshot.processes.value).cpu
    main = [_weighted_mean(rates, field) for field in ("main_disk_ratio", "main_running_ratio")]
    return bool(job.workers) or _is_busy(cpu, *main)


def _blocked_tasks(rates: Sequence[JobRates], job: Job) -> float | None:
    """The mean number of the job's tasks in state D at one moment; None when unknown."""
    per_rank = _weighted_mean(rates, "blocked_tasks")
    return None if per_rank is None else per_rank * len(job.ranks)


def _waits_hidden(rates: Sequence[JobRates]) -> bool:
    """Whether the place where the trainer sleeps is hidden in at least half of the samples in which it waits."""
    blind, waits = sum(r.blind for r in rates), sum(r.waits for r in rates)
    return bool(blind) and blind * 2 >= waits


def _age_s(snapshot: Snapshot, job: Job) -> float | None:
    """The age of the job's oldest rank, in seconds; None without ranks."""
    # 100 is the usual number of clock ticks per second.
    tick = 100 if snapshot.processes.value is None else snapshot.processes.value.clk_tck
    return max((rank.key.age_s(snapshot.at_ns, snapshot.suspended_ns or 0, tick) for rank in job.ranks), default=None)


def _main_disk(window: Window, key: ProcessKey) -> tuple[float | None, ...]:
    """For each sample, the share of time in which the main thread waits for a disk; None when unknown."""
    by_sample = [None if s.jobs.value is None else s.jobs.value.jobs.get(key) for s in window.samples]
    return tuple(None if rates is None else rates.main_disk_ratio for rates in by_sample)


def _growth(window: Window, job: Job) -> float | None:
    """The mean memory growth per trainer of the job, in bytes per second; None when unknown."""
    ranks = [rank.key for rank in job.ranks]
    return mean(
        task.grown_bytes_per_s
        for s in window.samples
        if s.jobs.value is not None
        for key in ranks
        if (task := s.jobs.value.tasks.get(key)) is not None
    )


def job_device(
    facts: JobFacts, devices: Sequence[DeviceFacts], infos: Mapping[str, BlockInfo], limits: Thresholds = LIMITS
) -> DeviceFacts | None:
    """The disk or disks (``joined``) that hold one of the job's mounts; if the disks of its first mount are unknown, a
    device that delivers about as much as the job reads.

    None if no device fits, or if the job reads most from a network filesystem and its time is counted. The device must
    deliver at least ``carried_share`` of the job's reads. If it holds none of the job's mounts, the job's reads must
    also be at least this share of what the device delivers.
    """
    read, part = facts.read_bytes_per_s, limits.carried_share
    if facts.remote_mount is not None and facts.time is not None:
        return None  # a local disk with a similar rate is not where this job reads from
    by_mount = [disks_of_mount(mount, infos) for mount in facts.place.mounts]
    for mount, known in zip(facts.place.mounts, by_mount, strict=True):
        names = known or _likely_disks(mount, infos)
        disks = [d for d in devices if d.name in names and d.read_bytes_per_s]
        if disks and (read is None or sum(d.read_bytes_per_s or 0.0 for d in disks) >= part * read):
            return joined(disks, limits)
    if not read or (by_mount and by_mount[0]):
        return None
    reading = [d for d in devices if d.read_bytes_per_s and d.read_bytes_per_s >= part * read]
    near = [d for d in reading if (d.read_bytes_per_s or 0.0) * part <= read]
    return max(near, key=lambda d: (not d.info.slaves, d.inflation or 0.0), default=None)


def _likely_disks(mount: JobMount, infos: Mapping[str, BlockInfo]) -> tuple[str, ...]:
    """For an overlay, whose own disks are unknown: the disks of the machine's mount with the same path.

    () for any other mount.
    """
    listed = (one for info in infos.values() for one in info.mounts if one.path == mount.path)
    same = next(listed, None) if mount.fstype == "overlay" else None
    return () if same is None else disks_of_mount(same, infos)
