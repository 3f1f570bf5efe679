"""Training jobs: which processes train, which load for them, and what belongs together.

Names of PyTorch's processes and threads: torch/utils/data/_utils/worker.py, torch/multiprocessing (2.x); TensorFlow
and JAX give none, they are known by the libraries that they map.
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
WEAK_EVIDENCE = frozenset({"children", "mpi", "slurm", "notebook", "ray"})
"""Evidence that programs which do not train may have as well, alone or together."""

LOADER, RAY = "loader", "ray"
"""The worker_kind of PyTorch's DataLoader, and of Ray's tasks and actors."""


class Rank(NamedTuple):
    """One training process. workers: its loader processes, oldest first. gpus: UUIDs on which it is seen.

    pin_tid: its pin-memory thread, 0 when none was seen. worker_kind: what the workers are: "loader" (PyTorch's
    DataLoader), "ray" (Ray's tasks and actors), "prep" (of Hugging Face datasets), "env" (simulated environments, which
    answer requests of the trainer at a socket), "pool" (others of multiprocessing); "" without workers, and where it is
    not known: loaders of an old PyTorch have no name. number: its rank in the whole job, None where its environment
    does not tell.
    """

    key: ProcessKey
    workers: tuple[ProcessKey, ...] = ()
    gpus: tuple[str, ...] = ()
    pin_tid: int = 0
    worker_kind: str = ""
    number: int | None = None


class Job(NamedTuple):
    """Processes that train together. key: the process at the top of them (a launcher, else the trainer).

    name: the script ("train.py"). label: "slurm 48213", "pod 1a2b3c4d", "container 0123456789ab" or "".
    helpers: launchers, fork servers, resource trackers. framework: as in ``inspection.LIBRARIES``, or "".
    evidence: why it is taken for a job: gpu, device, library, loader, launcher, ray, mpi, slurm, notebook, children.
    hidden: what of its ranks this user may not read: libraries, environment, open files. group: what its ranks on
    several machines share beside a batch job's id, "" where it is not known or all are on this machine.
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
        """UUIDs of the GPUs on which a rank is seen."""
        return frozenset(uuid for rank in self.ranks for uuid in rank.gpus)

    @property
    def weak(self) -> bool:
        """Whether it is only a Python program at work, or with busy children: perhaps no training at all."""
        return bool(self.evidence) and WEAK_EVIDENCE.issuperset(self.evidence)


class IoLimit(NamedTuple):
    """A cgroup's limit on one device. device: "254:0". what: read_bytes, read_ios, write_bytes, write_ios.

    value: per second. file: where it is set, under the cgroup mount.
    """

    device: str
    what: str
    value: int
    file: str


class JobMount(NamedTuple):
    """A mount from which the job was seen reading. path: in the job's own mount namespace. device: "254:0"."""

    path: str
    fstype: str
    source: str
    device: str


class JobPlace(NamedTuple):
    """What surrounds a job; read every few seconds. None: unknown.

    limits: of its cgroup and of those above. cpu_cores: CPU quota in cores, None without one. throttled_periods:
    periods in which the quota ran out; grows. memory_limit_bytes, memory_used_bytes, memory_failures: of its cgroup
    (failures: the limit was hit; grows). memory_room_bytes: what the limit leaves, counting reclaimable cache as free.
    shm_*: /dev/shm of its own mount namespace.
    allowed_cores: CPUs that its ranks may run on. mounts: most often seen first. listening, connections: TCP sockets of
    its training processes on which they wait for clients, and open connections to them; looked at only without workers.
    peer: the numeric address from which its processes receive most over TCP, "" none; received_bytes_per_s: from all.
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

    @property
    def remote_mount(self) -> JobMount | None:
        """The mount from which it reads most, when it is a network filesystem; else None."""
        first = self.mounts[0] if self.mounts else None
        return first if first is not None and is_remote(first.fstype, first.source) else None

    @property
    def reads_locally(self) -> bool:
        """Whether the mount from which it reads most is known not to be a network filesystem."""
        first = self.mounts[0] if self.mounts else None
        if first is None:
            return False
        return fuse_is_remote(first.fstype, first.source) is False if is_fuse(first.fstype) else not self.remote_mount


class JobTable(NamedTuple):
    """One reading of the jobs. {}: looked and found none. All but ``own_cpu_ns`` by the job's or the process's key.

    sweeps, tasks: growing counts of the fast looks. own_cpu_ns: CPU time of the sampling thread so far. times: where
    the jobs' time went since they were first watched; {} in recordings made before it was counted. file_waits: of
    data_network, milliseconds at files of a network mount, not at sockets; of jobs that read from one.
    """

    jobs: Mapping[ProcessKey, Job] = {}
    sweeps: Mapping[ProcessKey, SweepCounts] = {}
    tasks: Mapping[ProcessKey, TaskCounts] = {}
    places: Mapping[ProcessKey, JobPlace] = {}
    own_cpu_ns: int | None = None
    times: Mapping[ProcessKey, TimeCounts] = {}
    file_waits: Mapping[ProcessKey, int] = {}

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
    used = None if before is None else delta(before.own_cpu_ns, after.own_cpu_ns)
    old = {} if before is None else before.times
    times = {key: found for key in after.times if (found := time_shares(old.get(key), after.times[key])) is not None}
    own_cpu = None if used is None or not seconds else used / 1e9 / seconds
    return JobSample(jobs, tasks, own_cpu, times, _file_waits(before, after, times))


def _file_waits(
    before: JobTable | None, after: JobTable, times: Mapping[ProcessKey, TimeShares]
) -> dict[ProcessKey, float]:
    """The shares of the interval spent in waits for files of a network mount."""
    old = {} if before is None else before.file_waits
    grown = {key: delta(old.get(key), now) for key, now in after.file_waits.items() if key in times}
    return {key: min(1.0, ms / times[key].whole_ms) for key, ms in grown.items() if ms is not None}


def _tasks_rates(
    before: Mapping[ProcessKey, TaskCounts], after: Mapping[ProcessKey, TaskCounts], seconds: float | None
) -> dict[ProcessKey, TaskRates]:
    """The shares of the tasks in both. Equal growth has equal shares, computed once: idle tasks all grow alike."""
    out: dict[ProcessKey, TaskRates] = {}
    made: dict[tuple[int, ...], TaskRates] = {}
    for key, counts in after.items():
        old = before.get(key)
        if old is None:
            continue
        try:
            added = tuple(map(sub, counts, old))
        except TypeError:  # something is unknown
            out[key] = task_rates(old, counts, seconds)
            continue
        rates = made.get(added)
        if rates is None:
            rates = made[added] = task_rates(old, counts, seconds)
        out[key] = rates
    return out
