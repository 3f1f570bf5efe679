"""The training jobs over a window: the share of time without data, and its cause."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter, mul

from iotop_ai.diagnosis.facts.block import DeviceFacts
from iotop_ai.diagnosis.facts.gpu import GpuFacts
from iotop_ai.diagnosis.facts.job_gpus import gpu_busy, others_on
from iotop_ai.diagnosis.facts.time_window import file_waits, handover, window_shares
from iotop_ai.diagnosis.facts.window import Periods, Window, mean, recent_window
from iotop_ai.diagnosis.memory.jobs import NOTHING as NO_JOB_MEMORY
from iotop_ai.diagnosis.memory.jobs import Memory
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.records import Job, JobMount, JobPlace
from iotop_ai.model.job.task_states import JobRates
from iotop_ai.model.job.time_shares import TimeShares
from iotop_ai.model.machine.filesystem import is_fuse
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

_Parts = tuple[float | None, float | None, float | None, float | None]
_UNKNOWN: _Parts = (None, None, None, None)
NO_PLACE = JobPlace()
NO_MEMORY: Memory = {}
_APART = 0.3
"""Part of the wait for data that threads or children must be seen to cause in a job without workers."""
_ACTIVE = 0.1
"""Share of a core, or of time in state D, below which a job without workers and GPU is idle."""


class JobFacts(NamedTuple):
    """One job over a window. Ratios are means over the sweeps in it, 0..1; None unknown.

    disk, running, net and other: shares of the states of the workers that are not idle while the trainer waits; without
    workers the trainer's own shares of the time (net and other 0).
    """

    job: Job
    place: JobPlace
    window: Window
    stall: float | None
    """Share of time in which the trainer has no data."""
    long_stall: float | None
    """The same over the long window."""
    disk: float | None
    running: float | None
    net: float | None
    other: float | None
    main_disk_ratio: float | None
    main_running_ratio: float | None
    main_disk: tuple[float | None, ...]
    """Per sample, for events."""
    blocked_tasks: float | None
    """Tasks in state D at one moment."""
    blind: bool
    """The place where the trainer sleeps is hidden."""
    worker_disk: float | None
    worker_cpu: float | None
    worker_cpu_wait: float | None
    worker_idle: float | None
    grown_bytes_per_s: float | None
    read_bytes_per_s: float | None
    read_chars_per_s: float | None
    write_bytes_per_s: float | None
    cpu_ratio: float | None
    gpu_busy: float | None
    """Mean utilisation of its GPUs, only its own part where other jobs compute on them; None: unknown, or no GPU."""
    gpus: int
    """Number of its GPUs, or of all GPUs in use where it is the only job and the GPUs' processes are not visible."""
    age_s: float | None
    """The age of its oldest trainer."""
    apart: float | None = None
    """Share of looks in which its main thread slept while another part of the job made data."""
    time: TimeShares | None = None
    """Where its time went over the window; None if not counted. If known, the figures above follow from it."""
    long_time: TimeShares | None = None
    """The same over the long window."""
    shares_gpu: bool = False
    """Another job works, or may work, on its GPUs: busy GPUs then do not show that this job has its data."""
    loaders_compute: bool = False
    """Its loader processes compute, or wait for a core, most of the time: a small share ``host`` may be next()'s."""
    handover: float = 0.0
    """The part of the share ``host`` that is counted in ``stall``: next() takes batches from loaders that compute."""

    @property
    def workers(self) -> int:
        """Loader processes of all ranks."""
        return len(self.job.workers)

    @property
    def loads_apart(self) -> bool:
        """Whether something other than its main thread makes its data: workers, its own threads, children."""
        if self.workers or self.time is None:
            return bool(self.workers)
        return (self.apart or 0.0) >= _APART * self.time.data > 0

    @property
    def active(self) -> bool:
        """Whether it works: a notebook that only has its framework loaded does not."""
        busy = max(self.cpu_ratio or 0.0, self.main_disk_ratio or 0.0, self.main_running_ratio or 0.0)
        return bool(self.workers or self.gpus) or busy >= _ACTIVE

    @property
    def subject(self) -> str:
        """Names the job in a finding: the pid at its top."""
        return str(self.job.key.pid)

    @property
    def remote_mount(self) -> JobMount | None:
        """The mount from which it reads most, when it is a network filesystem; else None."""
        return self.place.remote_mount

    @property
    def reads_locally(self) -> bool:
        """Whether the mount from which it reads most is known not to be a network filesystem."""
        return self.place.reads_locally

    @property
    def through_fuse(self) -> bool:
        """Whether it reads through a FUSE program of this machine, whose own waits do not show in the job."""
        return bool(self.place.mounts) and is_fuse(self.place.mounts[0].fstype)


_OF = {field: itemgetter(place) for place, field in enumerate(JobRates._fields)}
_SWEEPS = _OF["sweeps"]


def _rates(window: Window, key: ProcessKey) -> list[JobRates]:
    return [r for s in window.samples if s.jobs.value is not None and (r := s.jobs.value.jobs.get(key)) is not None]


def _weighted(rates: Sequence[JobRates], field: str) -> float | None:
    """The mean of a share, weighted by the sweeps of each interval."""
    values, sweeps = [*map(_OF[field], rates)], [*map(_SWEEPS, rates)]
    if None in values:
        sweeps = [count for value, count in zip(values, sweeps, strict=True) if value is not None]
        values = [value for value in values if value is not None]
    whole = sum(sweeps)
    return sum(map(mul, values, sweeps)) / whole if whole else None


def _stall(rates: Sequence[JobRates], workers: int, gpu_busy: float | None) -> float | None:
    """Share of time without data; at most the GPUs' idle share.

    Without workers the trainer loads its data: blocked, it waits for a device; running, it prepares data, unless the
    GPU is busy meanwhile: a trainer often spins while it waits for the GPU.
    """
    idle = 1.0 if gpu_busy is None else max(0.0, 1 - gpu_busy)
    if workers:
        stall = _weighted(rates, "stall_ratio")
        return None if stall is None else min(stall, idle)
    disk, running = _weighted(rates, "main_disk_ratio"), _weighted(rates, "main_running_ratio")
    if disk is None or running is None:
        return None
    return disk + min(running, max(0.0, idle - disk))


def _decider(rates: Sequence[JobRates], workers: int) -> _Parts:
    if not workers:
        disk, running = _weighted(rates, "main_disk_ratio"), _weighted(rates, "main_running_ratio")
        return _UNKNOWN if disk is None else (disk, running, 0.0, 0.0)
    counts = [sum(getattr(r, f"wait_{kind}") for r in rates) for kind in ("disk", "running", "net", "other")]
    whole = sum(counts)
    if not whole:
        return _UNKNOWN
    disk, running, net, other = (count / whole for count in counts)
    return disk, running, net, other


def _parts(time: TimeShares, files: float, handed: float) -> _Parts:
    """The data shares as parts of the wait; waits for a network filesystem count as blocked readers.

    files: share of the time at its files. handed: the share of host that counts as a wait for loaders that compute.
    """
    if not time.data:
        return _UNKNOWN
    files, whole = min(files, time.data_network), time.data + handed
    disk, network = time.data_disk + files, time.data_network - files
    return disk / whole, (time.data_cpu + handed) / whole, network / whole, time.data_other / whole


class _Lost(NamedTuple):
    """The fields of ``JobFacts`` with the same names, over one window."""

    stall: float | None
    disk: float | None
    running: float | None
    net: float | None
    other: float | None
    time: TimeShares | None
    handover: float = 0.0


def _lost(
    rates: Sequence[JobRates], workers: int, busy: float | None, time: TimeShares | None, files: float, least: float
) -> _Lost:
    """The lost share, by the job's time shares; where its time was not counted, by samples of trainer and workers.

    least: from this share on host is the main thread's own work; 0 in a job whose loader processes do not compute.
    """
    if time is not None:
        handed = handover(time, least)
        return _Lost(time.data + handed, *_parts(time, files, handed), time, handed)
    return _Lost(_stall(rates, workers, busy), *_decider(rates, workers), None)


def _loaders_compute(rates: Sequence[JobRates], job: Job, limits: Thresholds) -> bool:
    """Whether the loader processes are on a CPU, or wait for one, most of the time."""
    runs, waits = _weighted(rates, "worker_cpu_ratio"), _weighted(rates, "worker_cpu_wait_ratio")
    return bool(job.workers) and (runs or 0.0) + (waits or 0.0) >= limits.decider


class _Moved(NamedTuple):
    """The totals of all processes of a job, bytes per second and cores; None unknown."""

    read: float | None
    rchar: float | None
    write: float | None
    cpu: float | None


def _moved(samples: Sequence[Sample], job: Job, newest: ProcessTable | None) -> _Moved:
    """The job's totals. newest: the processes, which name those whose I/O may not be read; None unknown."""
    members, sums, known = job.members, [0.0] * 4, 0
    for sample in samples:
        if sample.processes.value is None or not sample.processes.renewed:
            continue
        known += 1
        listed = sample.processes.value.rates
        for rates in [listed[key] for key in members if key in listed]:
            read, write, _, rchar, _, _, _, cpu, *_ = rates
            sums[0] += read or 0.0
            sums[1] += rchar or 0.0
            sums[2] += write or 0.0
            sums[3] += cpu or 0.0
    if not known:
        return _Moved(None, None, None, None)
    read, rchar, write, cpu = (value / known for value in sums)
    if newest is None or not job.members.isdisjoint(newest.denied):
        return _Moved(None, None, None, None if newest is None else cpu)
    return _Moved(read, rchar, write, cpu)


def job_facts(
    snapshot: Snapshot,
    history: tuple[Sample, ...],
    gpu: GpuFacts,
    limits: Thresholds = LIMITS,
    periods: Periods | None = None,
    memory: Memory = NO_MEMORY,
) -> tuple[JobFacts, ...]:
    """Every job of the Snapshot over the window; () when none is known."""
    table = snapshot.jobs.value
    if table is None or not table.jobs:
        return ()
    window = recent_window(history, snapshot.at_ns, limits.window_s, ("jobs",), limits, periods)
    long = recent_window(history, snapshot.at_ns, limits.long_window_s, ("jobs",), limits, periods)
    out = []
    for key, job in table.jobs.items():
        rates = _rates(window, key)
        # Between two sets of workers a job has none for a moment; it is still not a job that loads by itself.
        workers = len(job.workers) or int(memory.get(key, NO_JOB_MEMORY).newest_ticks > 0)
        place = table.places.get(key, NO_PLACE)
        time, long_time = (window_shares(one, key) for one in (window, long))
        others = others_on(snapshot, job)
        busy, shares_gpu = gpu_busy(window, job, gpu, len(table.jobs), others, time)
        long_busy, _ = gpu_busy(long, job, gpu, len(table.jobs), others, long_time)
        computing = _loaders_compute(rates, job, limits)
        least = limits.gate if computing else 0.0
        lost = _lost(_rates(long, key), workers, long_busy, long_time, file_waits(long, key, place), least)
        wait = _lost(rates, workers, busy, time, file_waits(window, key, place), least)
        moved = _moved(window.samples, job, snapshot.processes.value)
        blocked = _weighted(rates, "blocked_tasks")
        out.append(
            JobFacts(
                job,
                place,
                window,
                wait.stall,
                lost.stall,
                wait.disk,
                wait.running,
                wait.net,
                wait.other,
                _weighted(rates, "main_disk_ratio"),
                _weighted(rates, "main_running_ratio"),
                _main_disk(window, key),
                None if blocked is None else blocked * len(job.ranks),
                _is_blind(rates),
                _weighted(rates, "worker_disk_ratio"),
                _weighted(rates, "worker_cpu_ratio"),
                _weighted(rates, "worker_cpu_wait_ratio"),
                _weighted(rates, "worker_idle_ratio"),
                _growth(window, job),
                *moved,
                busy,
                len(job.gpus) or (gpu.used if len(table.jobs) == 1 and gpu.pids is None else 0),
                _age_s(snapshot, job),
                _weighted(rates, "apart_ratio"),
                wait.time,
                lost.time,
                shares_gpu,
                computing,
                wait.handover,
            )
        )
    return tuple(out)


def _is_blind(rates: Sequence[JobRates]) -> bool:
    """Whether in at least half of the samples in which the trainer waits, the place where it sleeps is hidden."""
    blind, waits = sum(r.blind for r in rates), sum(r.waits for r in rates)
    return bool(blind) and blind * 2 >= waits


def _age_s(snapshot: Snapshot, job: Job) -> float | None:
    """The age of the job's oldest rank."""
    tick = 100 if snapshot.processes.value is None else snapshot.processes.value.clk_tck
    return max((rank.key.age_s(snapshot.at_ns, snapshot.suspended_ns or 0, tick) for rank in job.ranks), default=None)


def _main_disk(window: Window, key: ProcessKey) -> tuple[float | None, ...]:
    """The main thread's share of time at the disk, per sample; None unknown."""
    found = [None if s.jobs.value is None else s.jobs.value.jobs.get(key) for s in window.samples]
    return tuple(None if rates is None else rates.main_disk_ratio for rates in found)


def _growth(window: Window, job: Job) -> float | None:
    """Growth of the memory of the job's trainers in bytes per second."""
    ranks = [rank.key for rank in job.ranks]
    return mean(
        task.grown_bytes_per_s
        for s in window.samples
        if s.jobs.value is not None
        for key in ranks
        if (task := s.jobs.value.tasks.get(key)) is not None
    )


def job_device(facts: JobFacts, devices: Sequence[DeviceFacts], part: float) -> DeviceFacts | None:
    """The device that the job reads from: behind its mounts, else one that delivers about as much as the job reads.

    part: the share of the job's reads that a device must deliver.
    """
    read = facts.read_bytes_per_s
    if facts.remote_mount is not None and facts.time is not None:
        return None  # a disk of this machine that is busy at a similar rate is not its source
    reading = [d for d in devices if d.read_bytes_per_s and (read is None or d.read_bytes_per_s >= part * read)]
    for mount in facts.place.mounts:
        for device in reading:
            info = device.info
            if mount.device == f"{info.major}:{info.minor}" or any(m.path == mount.path for m in info.mounts):
                return device
    if not read:
        return None
    near = [d for d in reading if (d.read_bytes_per_s or 0.0) * part <= read]
    return max(near, key=lambda d: (not d.info.slaves, d.inflation or 0.0), default=None)
