"""A machine whose ticks a test makes up, and the accountant that divides their time."""

from __future__ import annotations

from operator import add
from typing import Any

from iotop_ai.collectors.job.time_accountant import Tick, TimeAccountant
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.job.looks import Loading, LookCounts, Split
from iotop_ai.model.job.records import Job, JobPlace, Rank
from iotop_ai.model.job.task_states import TaskCounts
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.model.reading import Reading, Status

SECOND = 10**9
MB = 10**6
TRAINER, WORKER, PEER, OTHER, CHILD = (ProcessKey(pid, 7) for pid in (100, 101, 200, 300, 400))
GPU, SECOND_GPU = "GPU-0", "GPU-1"
FAULTS = 50
"""The page faults of each child, by which the trainer's cminflt grows when it reaps the child."""
RUNS = LookCounts(looks=20, running=20)
RESTS = LookCounts(looks=20, resting=20)
WAITS = LookCounts(looks=20, waits=Split(disk=20.0))


def job_of(*ranks: Rank) -> Job:
    return Job(ranks[0].key, "train.py", "alice", 0, ranks)


ON_GPU = job_of(Rank(TRAINER, (), (GPU,)))
WITH_WORKERS = job_of(Rank(TRAINER, (WORKER,), (GPU,)))
ALONE = job_of(Rank(TRAINER))


class Machine:
    """Ticks of one job, one second apart unless a test asks for more. Between ticks a test sets what the job did."""

    def __init__(self, job: Job = ON_GPU, age_s: float = 300.0) -> None:
        self.jobs = {job.key: job}
        self.at_ns = 10**12
        self.age_s = age_s
        self.looks = {rank.key: RUNS for rank in job.ranks}
        self.busy: dict[str, int | None] = dict.fromkeys(job.gpus, 0)
        self.io = {rank.key: [0] * 7 for rank in job.ranks}
        self.ticks = dict.fromkeys((job.key, *self.io), 0)
        self.stat_ns: dict[ProcessKey, int] = {}
        """The time at which each process's stat was read, if that was before this tick."""
        self.children: dict[ProcessKey, str] = {}
        self.child_state = "R"
        self.reaped = 0
        self.gpu: dict[str, Any] = {}
        """Further fields of each GPU's state."""
        self.place = JobPlace(listening=0)
        self.loading = Loading.ITSELF
        self.tasks: dict[ProcessKey, TaskCounts] = {}
        self.accountant = TimeAccountant()
        self.counts = self.next(0.0)

    @property
    def key(self) -> ProcessKey:
        """The key of the first job."""
        return next(iter(self.jobs))

    def moves(self, key: ProcessKey = TRAINER, *, read: int = 0, chars: int = 0, write: int = 0, cpu: int = 0) -> None:
        """Let a process read and write this many bytes and compute for this many clock ticks."""
        io = self.io[key]
        self.io[key] = [io[0] + chars, *io[1:4], io[4] + read, io[5] + write, io[6]]
        self.ticks[key] += cpu

    def child(self, name: str, **moved: int) -> None:
        """Start a child of the first trainer that has already moved this much."""
        self.children[CHILD] = name
        self.io[CHILD] = [0] * 7
        self.ticks[CHILD] = 0
        self.moves(CHILD, **moved)

    def reap(self) -> None:
        """Let the first trainer reap its child, which has ended."""
        del self.children[CHILD], self.ticks[CHILD]
        self.io[self.key] = list(map(add, self.io[self.key], self.io.pop(CHILD)))
        self.reaped += 1

    def tick(self) -> Tick:
        """Everything that the accountant gets at this tick."""
        stat = {key: ProcessStat("S", 1, 0, 0, 0, ticks, 0, 1, 0, 0) for key, ticks in self.ticks.items()}
        stat |= {
            key: ProcessStat(self.child_state, TRAINER.pid, FAULTS, 0, 0, self.ticks.get(key, 0), 0, 1, 0, 0)
            for key in self.children
        }
        stat[self.key] = stat[self.key]._replace(cminflt=FAULTS * self.reaped)
        info = {key: ProcessInfo(name, (), "alice", 1000) for key, name in self.children.items()}
        io = {key: ProcessIo(*fields) for key, fields in self.io.items()}
        table = ProcessTable(
            io, stat, info, frozenset(), self.at_ns, self.at_ns, (self.at_ns,), self.stat_ns, {}, {}, {}
        )
        gpus = {
            uuid: Reading(GpuState(uuid, 0, "H100", percent, **self.gpu), Status.OK, at_ns=self.at_ns)
            for uuid, percent in self.busy.items()
        }
        ranks = [rank.key for job in self.jobs.values() for rank in job.ranks]
        loading = dict.fromkeys(ranks, self.loading)
        places = dict.fromkeys(self.jobs, self.place)
        return Tick(
            self.at_ns,
            table,
            gpus,
            self.looks,
            loading,
            places,
            {TRAINER: frozenset(self.children)},
            dict.fromkeys(self.jobs, self.age_s),
            self.tasks,
        )

    def next(self, seconds: float = 1.0) -> TimeCounts:
        """The counters of the first job after this many seconds."""
        self.at_ns += round(seconds * SECOND)
        self.age_s += seconds
        self.counts = self.accountant.update(self.jobs, self.tick())[self.key]
        return self.counts

    def grown(self, seconds: float = 1.0) -> dict[str, int]:
        """How many milliseconds of the next interval go to each share."""
        before = self.counts
        after = self.next(seconds)
        return {name: new - old for name, old, new in zip(TimeCounts._fields, before, after, strict=True) if new != old}


def shares(before: TimeCounts, after: TimeCounts) -> dict[str, int]:
    """The milliseconds that each share gained between two readings."""
    return {name: b - a for name, a, b in zip(TimeCounts._fields, before, after, strict=True) if b > a}
