"""Training jobs: which processes train, which load data for them, and which belong to one job.

Names of PyTorch's processes and threads: torch/utils/data/_utils/worker.py, torch/multiprocessing (2.x). TensorFlow and
JAX do not name theirs, so they are recognised by the libraries that they map.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from operator import sub

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta
from iotop_ai.model.job.task_states import JobSample, SweepCounts, TaskCounts, TaskRates, sweep_rates, task_rates
from iotop_ai.model.job.time_shares import TimeCounts, TimeShares, time_shares
from iotop_ai.model.machine.filesystem import fuse_is_remote, is_fuse, is_remote
from iotop_ai.model.process.records import ProcessKey

MOST_JOBS = 16
"""The largest number of jobs that are watched."""
WEAK_EVIDENCE = frozenset({"children", "mpi", "slurm", "notebook", "ray"})
"""Kinds of evidence that do not prove training, even together, because other programs may have them too."""

LOADER, RAY = "loader", "ray"
"""The worker_kind of workers of PyTorch's DataLoader, and of Ray's tasks and actors."""


class Rank(NamedTuple):
    """One training process.

    workers: its loader processes, oldest first
    gpus: the UUIDs of the GPUs that it uses
    pin_tid: the id of its pin-memory thread; 0 if none was seen
    worker_kind: "loader" (PyTorch's DataLoader), "ray" (Ray's tasks and actors), "prep" (Hugging Face datasets), "env"
        (simulated environments, which answer the trainer's requests at a socket) or "pool" (other workers of
        multiprocessing); "" without workers, or if unknown (loaders of an old PyTorch have no name of their own)
    number: the global number of the rank; None if its environment does not contain it
    """

    key: ProcessKey
    workers: tuple[ProcessKey, ...] = ()
    gpus: tuple[str, ...] = ()
    pin_tid: int = 0
    worker_kind: str = ""
    number: int | None = None


class Job(NamedTuple):
    """Processes that train together.

    key: the top process of the job: a launcher, the program that uses Ray, or else the trainer
    name: the name of the script ("train.py")
    ranks: its training processes
    helpers: the top process unless it trains, and other candidates below the job, such as resource trackers
    label: "slurm 48213", "pod 1a2b3c4d", "container 0123456789ab" or ""
    framework: a name of ``inspection.LIBRARIES``, or ""
    evidence: why the processes count as a job: gpu, device, library, loader, launcher, ray, mpi, slurm, notebook,
        children
    hidden: the parts of its ranks that this user cannot read: libraries, environment, open files
    group: a name that its ranks on all machines share, other than the batch job's id; "" if unknown or if all ranks are
        on this machine
    notebook: whether its first rank is the kernel of a notebook that a person runs; False in old recordings
    readers: the libraries that read its data, as far as they are seen: dali, lmdb, hdf5, datasets
    """

    key: ProcessKey
    name: str
    user: str
    uid: int
    ranks: tuple[Rank, ...]
    helpers: tuple[ProcessKey, ...] = ()
    label: str = ""
    framework: str = ""
    evidence: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    group: str = ""
    notebook: bool = False
    readers: tuple[str, ...] = ()

    @property
    def workers(self) -> tuple[ProcessKey, ...]:
        """The loader processes of all ranks."""
        if len(self.ranks) == 1:
            return self.ranks[0].workers
        return tuple(chain.from_iterable(rank.workers for rank in self.ranks))

    @property
    def members(self) -> frozenset[ProcessKey]:
        """Every process of the job."""
        return frozenset((*(rank.key for rank in self.ranks), *self.workers, *self.helpers))

    @property
    def gpus(self) -> frozenset[str]:
        """The UUIDs of the GPUs that a rank uses."""
        return frozenset(uuid for rank in self.ranks for uuid in rank.gpus)

    @property
    def may_use_gpu(self) -> bool:
        """Whether a rank has the device file of a GPU open, or this user cannot see the open files of a rank."""
        return "device" in self.evidence or "open files" in self.hidden

    @property
    def weak(self) -> bool:
        """Whether all evidence is of the kinds in WEAK_EVIDENCE, so that the processes may not train at all."""
        return bool(self.evidence) and WEAK_EVIDENCE.issuperset(self.evidence)


class IoLimit(NamedTuple):
    """A cgroup's limit on one device.

    device: the device number, such as "254:0"
    what: read_bytes, read_ios, write_bytes or write_ios
    value: the limit per second
    file: the file that sets the limit, as a path below the cgroup mount
    """

    device: str
    what: str
    value: int
    file: str


class JobMount(NamedTuple):
    """A mount on which the job has or had data files open for reading.

    path: the mount point in the job's mount namespace
    device: the device number, such as "254:0"
    """

    path: str
    fstype: str
    source: str
    device: str


class JobPlace(NamedTuple):
    """The surroundings of a job, read every few seconds; None if unknown.

    limits: the I/O limits of the job's cgroup and the cgroups above it
    cpu_cores: the CPU quota in cores; None without a quota
    throttled_periods: the number of periods in which the quota ran out, a counter
    memory_limit_bytes, memory_used_bytes: the limit and the use of the job's cgroup, or of the cgroup above it whose
        limit leaves the least room
    memory_failures: how often that limit was reached, a counter
    memory_room_bytes: the memory left below that limit, counting reclaimable cache as free
    shm_total_bytes, shm_used_bytes: the size and use of /dev/shm in the job's mount namespace
    allowed_cores: the number of CPUs on which its ranks together can run
    mounts: the mounts on which it has or had data files open for reading, the most frequent first
    listening, connections: the number of TCP ports on which its training processes wait for clients, and the number of
        open connections to these ports; counted only if the job has no workers
    peer: the numeric address from which its processes receive most over TCP; "" without one
    received_bytes_per_s: the bytes per second that its processes receive from all addresses; like ``peer``, it
        was last measured while a training process slept
    waits_for_input: whether the main thread of a training process waits for input from a terminal; False if unknown
    allowed_numbers: the numbers of the CPUs of ``allowed_cores``, in ascending order
    """

    limits: tuple[IoLimit, ...] = ()
    cpu_cores: float | None = None
    throttled_periods: int | None = None
    memory_limit_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_failures: int | None = None
    shm_total_bytes: int | None = None
    shm_used_bytes: int | None = None
    allowed_cores: int | None = None
    mounts: tuple[JobMount, ...] = ()
    listening: int | None = None
    connections: int | None = None
    memory_room_bytes: int | None = None
    peer: str = ""
    received_bytes_per_s: float | None = None
    waits_for_input: bool = False
    allowed_numbers: tuple[int, ...] | None = None

    @property
    def remote_mount(self) -> JobMount | None:
        """The mount from which the job reads most, if that is a network filesystem; otherwise None."""
        first = self.mounts[0] if self.mounts else None
        return first if first is not None and is_remote(first.fstype, first.source) else None

    @property
    def reads_locally(self) -> bool:
        """Whether the mount from which the job reads most is known not to be a network filesystem."""
        first = self.mounts[0] if self.mounts else None
        if first is None:
            return False
        return fuse_is_remote(first.fstype, first.source) is False if is_fuse(first.fstype) else not self.remote_mount


class JobTable(NamedTuple):
    """One reading of the jobs. The keys of all mappings are jobs or processes; {} means that none was found.

    sweeps, tasks: the counts of looks (``task_states``) at each job and at each process
    own_cpu_ns: the CPU time of the sampling thread so far
    times: where each job's time went since it was first watched; {} in recordings without this field
    file_waits: for each job that reads from a network mount, how many milliseconds of its data_network (``times``) were
        waits for files of the mount rather than for sockets
    rank_waits: for each rank of the jobs whose ranks step together, how many milliseconds it waited for its own data,
        not for another rank; {} in recordings without this field
    """

    jobs: Mapping[ProcessKey, Job] = {}
    sweeps: Mapping[ProcessKey, SweepCounts] = {}
    tasks: Mapping[ProcessKey, TaskCounts] = {}
    places: Mapping[ProcessKey, JobPlace] = {}
    own_cpu_ns: int | None = None
    times: Mapping[ProcessKey, TimeCounts] = {}
    file_waits: Mapping[ProcessKey, int] = {}
    rank_waits: Mapping[ProcessKey, int] = {}

    def job_of(self, key: ProcessKey) -> Job | None:
        """The training job that a process belongs to; None without one."""
        return next((job for job in self.jobs.values() if key in job.members), None)


def job_rates(before: JobTable | None, after: JobTable, seconds: float | None) -> JobSample:
    """The shares of one interval; a job or task without an earlier reading is left out."""
    tasks = {} if before is None else _tasks_rates(before.tasks, after.tasks, seconds)
    jobs = {}
    for key, job in after.jobs.items():
        if before is None or key not in before.sweeps or key not in after.sweeps:
            continue
        workers = [tasks[worker] for worker in job.workers if worker in tasks]
        rates = sweep_rates(before.sweeps[key], after.sweeps[key], workers)
        if rates is not None:
            jobs[key] = rates
    cpu_ns = None if before is None else delta(before.own_cpu_ns, after.own_cpu_ns)
    old = {} if before is None else before.times
    times = {key: shares for key in after.times if (shares := time_shares(old.get(key), after.times[key])) is not None}
    own_cpu = None if cpu_ns is None or not seconds else cpu_ns / 1e9 / seconds
    return JobSample(jobs, tasks, own_cpu, times, _file_waits(before, after, times), _rank_waits(before, after, times))


def _file_waits(
    before: JobTable | None, after: JobTable, times: Mapping[ProcessKey, TimeShares]
) -> dict[ProcessKey, float]:
    """The share of the interval that each job spent waiting for files of a network mount."""
    old = {} if before is None else before.file_waits
    waited_ms = {key: delta(old.get(key), now) for key, now in after.file_waits.items() if key in times}
    return {key: min(1.0, ms / times[key].whole_ms) for key, ms in waited_ms.items() if ms is not None}


def _rank_waits(
    before: JobTable | None, after: JobTable, times: Mapping[ProcessKey, TimeShares]
) -> dict[ProcessKey, float]:
    """The share of the interval that each rank spent waiting for its own data."""
    old = {} if before is None else before.rank_waits
    out = {}
    if old and after.rank_waits:
        for key, shares in times.items():
            for rank in after.jobs[key].ranks if key in after.jobs else ():
                waited_ms = delta(old.get(rank.key), after.rank_waits.get(rank.key))
                if waited_ms is not None:
                    out[rank.key] = min(1.0, waited_ms / shares.whole_ms)
    return out


def _tasks_rates(
    before: Mapping[ProcessKey, TaskCounts], after: Mapping[ProcessKey, TaskCounts], seconds: float | None
) -> dict[ProcessKey, TaskRates]:
    """The shares of each task that is in both readings.

    Tasks whose counts grew equally, as those of most idle tasks do, have equal shares, which are computed once.
    """
    out: dict[ProcessKey, TaskRates] = {}
    by_growth: dict[tuple[int, ...], TaskRates] = {}
    for key, counts in after.items():
        old = before.get(key)
        if old is None:
            continue
        try:
            growth = tuple(map(sub, counts, old))
        except TypeError:  # one of the counts is unknown
            out[key] = task_rates(old, counts, seconds)
            continue
        rates = by_growth.get(growth)
        if rates is None:
            rates = by_growth[growth] = task_rates(old, counts, seconds)
        out[key] = rates
    return out
