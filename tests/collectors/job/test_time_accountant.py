"""A job's counters over made ticks: what each interval is given to, and that none of it is lost."""

from __future__ import annotations

from operator import add
from typing import Any

import pytest

from iotop_ai.collectors.job.time_accountant import (
    ALONE_S,
    ATTACHED_S,
    BLIND_MS,
    COMPILES_NS,
    HUNG_S,
    STARTUP_MOST_S,
    Tick,
    TimeAccountant,
)
from iotop_ai.model.gpu.state import GpuProcess, GpuState
from iotop_ai.model.job.looks import Loading, LookCounts, Split
from iotop_ai.model.job.records import Job, JobMount, JobPlace, Rank
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.model.reading import Reading, Status

SECOND = 10**9
MB = 10**6
TRAINER, WORKER, PEER, OTHER, CHILD = (ProcessKey(pid, 7) for pid in (100, 101, 200, 300, 400))
GPU, SECOND_GPU = "GPU-0", "GPU-1"
FAULTS = 50
"""Of each child: the trainer's cminflt grows by them when it reaps one."""
RUNS = LookCounts(looks=20, running=20)
RESTS = LookCounts(looks=20, resting=20)
WAITS = LookCounts(looks=20, waits=Split(disk=20.0))


def job_of(*ranks: Rank) -> Job:
    return Job(ranks[0].key, "train.py", "alice", 0, ranks)


ON_GPU = job_of(Rank(TRAINER, (), (GPU,)))
WITH_WORKERS = job_of(Rank(TRAINER, (WORKER,), (GPU,)))
ALONE = job_of(Rank(TRAINER))


class Machine:
    """Ticks of one job, a second apart where nothing else is asked for; what it did lately is set between them."""

    def __init__(self, job: Job = ON_GPU, age_s: float = 300.0) -> None:
        self.jobs = {job.key: job}
        self.at_ns = 10**12
        self.age_s = age_s
        self.looks = {rank.key: RUNS for rank in job.ranks}
        self.busy: dict[str, int | None] = dict.fromkeys(job.gpus, 0)
        self.io = {rank.key: [0] * 7 for rank in job.ranks}
        self.ticks = {rank.key: 0 for rank in job.ranks}
        self.stat_ns: dict[ProcessKey, int] = {}
        """When each stat was read, where that is not this tick."""
        self.children: dict[ProcessKey, str] = {}
        self.child_state = "R"
        self.reaped = 0
        self.gpu: dict[str, Any] = {}
        """Further fields of each GPU."""
        self.place = JobPlace(listening=0)
        self.loading = Loading.ITSELF
        self.accountant = TimeAccountant()
        self.counts = self.next(0.0)

    @property
    def key(self) -> ProcessKey:
        """The first job's."""
        return next(iter(self.jobs))

    def moves(self, key: ProcessKey = TRAINER, *, read: int = 0, chars: int = 0, write: int = 0, cpu: int = 0) -> None:
        """A process reads, writes or computes."""
        io = self.io[key]
        self.io[key] = [io[0] + chars, *io[1:4], io[4] + read, io[5] + write, io[6]]
        self.ticks[key] += cpu

    def child(self, name: str, **moved: int) -> None:
        """A child of the first trainer starts, and has read or written so much."""
        self.children[CHILD] = name
        self.io[CHILD] = [0] * 7
        self.ticks[CHILD] = 0
        self.moves(CHILD, **moved)

    def reap(self) -> None:
        """The first trainer waits for its child, which has ended."""
        del self.children[CHILD], self.ticks[CHILD]
        self.io[self.key] = list(map(add, self.io[self.key], self.io.pop(CHILD)))
        self.reaped += 1

    def tick(self) -> Tick:
        """What this tick knows."""
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
        )

    def next(self, seconds: float = 1.0) -> TimeCounts:
        """The first job's counters so much later."""
        self.at_ns += round(seconds * SECOND)
        self.age_s += seconds
        self.counts = self.accountant.update(self.jobs, self.tick())[self.key]
        return self.counts

    def grown(self, seconds: float = 1.0) -> dict[str, int]:
        """Milliseconds that the next interval gives, by share."""
        before = self.counts
        after = self.next(seconds)
        return {name: new - old for name, old, new in zip(TimeCounts._fields, before, after, strict=True) if new != old}


def test_the_counters_grow_by_exactly_the_time_that_passed() -> None:
    machine = Machine()
    begun = machine.at_ns
    machine.busy[GPU] = 33
    assert machine.counts == TimeCounts()
    for n in range(200):
        machine.looks = {TRAINER: LookCounts(looks=20, waits=Split(cpu=n % 7), running=20 - n % 7)}
        machine.next(1.0 + n * 0.000_37)
        assert machine.counts.whole_ms == (machine.at_ns - begun) // 1_000_000
    assert machine.counts.compute == pytest.approx(0.33 * machine.counts.whole_ms, rel=0.01)


def test_time_without_a_look_is_given_to_the_next_looks() -> None:
    machine = Machine()
    machine.looks = {TRAINER: LookCounts()}
    assert machine.grown() == {}
    machine.looks = {TRAINER: WAITS}
    assert machine.grown() == {"data_disk": 2000}


def test_time_in_which_no_rank_had_its_turn_is_left_out() -> None:
    machine = Machine()
    machine.looks = {}
    assert machine.grown() == {}
    machine.looks = {TRAINER: WAITS}
    assert machine.grown() == {"data_disk": 1000}


def test_the_rank_that_loses_most_decides() -> None:
    machine = Machine(job_of(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (SECOND_GPU,))))
    machine.busy = {GPU: 37, SECOND_GPU: 100}  # the other spins in a collective
    machine.looks = {TRAINER: WAITS, PEER: RUNS}
    assert machine.grown() == {"compute": 370, "data_disk": 630}
    machine.looks = {PEER: RUNS}
    assert machine.grown() == {"compute": 1000}, "where only one was looked at it decides"


def test_time_without_a_look_is_not_given_to_the_next_one() -> None:
    machine = Machine()
    machine.next()
    machine.looks = {TRAINER: LookCounts()}
    for _ in range(3):
        assert machine.grown() == {}
    machine.looks = {TRAINER: RUNS}
    assert machine.grown() == {"host": 4000}, "some ticks"
    machine.looks = {TRAINER: LookCounts()}
    for _ in range(600):
        assert machine.grown() == {}
    machine.looks = {TRAINER: RUNS}
    (grown,) = machine.grown().values()
    assert grown <= BLIND_MS + 1000


def test_what_is_not_watched_is_forgotten() -> None:
    machine = Machine()
    machine.busy[GPU] = 90
    machine.next()
    machine.accountant.forget()
    machine.busy[GPU] = 0
    machine.looks = {TRAINER: LookCounts()}
    machine.next(600.0)
    machine.looks = {TRAINER: WAITS}
    machine.next()
    assert machine.counts == TimeCounts(data_disk=1000)


def test_a_launcher_that_starts_its_ranks_again_starts() -> None:
    machine = Machine(age_s=2.0)
    machine.jobs = {TRAINER: ON_GPU._replace(ranks=(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (GPU,))))}
    machine.looks = {TRAINER: RUNS, PEER: RUNS}
    machine.busy[GPU] = 90
    machine.next(100.0)
    machine.busy[GPU] = 0
    machine.looks = {PEER: RUNS, OTHER: RUNS}
    machine.jobs = {TRAINER: ON_GPU._replace(ranks=(Rank(PEER, (), (GPU,)), Rank(OTHER, (), (GPU,))))}
    assert machine.grown() == {"host": 1000}, "one of two is new"
    machine.age_s = 2.0
    machine.looks = {WORKER: RUNS}
    machine.jobs = {TRAINER: ON_GPU._replace(ranks=(Rank(WORKER, (), (GPU,)),))}
    assert machine.grown() == {"startup": 1000}
    machine.busy[GPU] = 90
    assert machine.grown() == {"compute": 900, "host": 100}
    machine.busy[GPU] = 0
    assert machine.grown() == {"host": 1000}


def test_startup_ends_at_the_first_use_of_the_gpu() -> None:
    machine = Machine(age_s=2.0)
    assert machine.grown() == {"startup": 1000}
    machine.next(50.0)
    assert machine.grown() == {"startup": 1000}
    machine.busy[GPU] = 90
    assert machine.grown() == {"compute": 900, "host": 100}
    machine.busy[GPU] = 0
    assert machine.grown() == {"host": 1000}


def test_a_job_that_is_old_when_first_watched_has_begun() -> None:
    assert Machine(age_s=ATTACHED_S + 1).grown() == {"host": 1000}
    assert Machine(age_s=ATTACHED_S - 1).grown() == {"startup": 1000}


def test_without_a_gpu_loaders_or_some_seconds_are_the_begin() -> None:
    machine = Machine(ALONE, age_s=1.0)
    assert machine.grown() == {"startup": 1000}
    machine.next(ALONE_S)
    assert machine.grown() == {"compute": 1000}
    assert Machine(job_of(Rank(TRAINER, (WORKER,))), age_s=1.0).grown() == {"compute": 1000}


@pytest.mark.parametrize("job", [ON_GPU, WITH_WORKERS])
def test_what_does_not_move_for_a_minute_hangs(job: Job) -> None:
    machine = Machine(job)
    machine.looks = {TRAINER: RESTS}
    machine.busy[GPU] = 90
    machine.next()
    machine.busy[GPU] = 0
    for _ in range(int(HUNG_S) - 1):
        assert machine.grown() == {"unexplained": 1000}
    assert machine.grown() == {"hung": 1000}
    machine.next(600.0)
    assert machine.counts.hung == 601_000
    machine.moves(cpu=50)
    assert machine.grown() == {"unexplained": 1000}


AT_DISK = LookCounts(looks=20, waits=Split(disk=20.0))


@pytest.mark.parametrize(
    "moved",
    [
        {"cpu": 3},
        {"read": 40_000},
        {"chars": 40_000},
        {"write": 40_000},
        {"busy": 5},
        {"looks": LookCounts(20, main_disk=1)},
        {"read": 400, "looks": AT_DISK},
    ],
)
def test_what_moves_does_not_hang(moved: dict[str, Any]) -> None:
    machine = Machine()
    for _ in range(int(HUNG_S) + 20):
        machine.looks = {TRAINER: moved.get("looks", RESTS)}
        machine.busy[GPU] = moved.get("busy", 0)
        machine.moves(**{name: value for name, value in moved.items() if name not in ("busy", "looks")})
        machine.next()
    assert machine.counts.hung == 0


@pytest.mark.parametrize("looks", [RESTS, LookCounts(looks=20, waits=Split(other=20.0)), AT_DISK])
def test_a_tracker_beside_a_job_that_stands_still_does_not_move_it(looks: LookCounts) -> None:
    machine = Machine(WITH_WORKERS)
    machine.children = {CHILD: "wandb-core"}
    machine.io[CHILD], machine.ticks[CHILD] = [0] * 7, 0
    machine.looks = {TRAINER: looks}
    machine.next()
    hung = []
    for second in range(200):
        if looks is not AT_DISK:
            machine.moves(CHILD, chars=60 + 37_000 * (second % 15 == 0), cpu=int(second % 5 == 0))
            machine.moves(CHILD, read=139_264 * (second % 60 == 0))
        hung.append("hung" in machine.grown())
    assert hung.index(True) == HUNG_S - 1
    assert all(hung[int(HUNG_S) :])
    machine.moves(cpu=50)
    assert "hung" not in machine.grown(), "the job itself goes on"


def test_another_job_at_a_disk_does_not_move_this_one() -> None:
    machine = Machine()
    other = job_of(Rank(OTHER, (), (SECOND_GPU,)))
    machine.jobs[OTHER] = other
    machine.io[OTHER], machine.ticks[OTHER] = [0] * 7, 0
    machine.looks = {TRAINER: RESTS, OTHER: LookCounts(looks=20, main_disk=20)}
    machine.busy[GPU] = 90
    machine.next()
    machine.busy[GPU] = 0
    for _ in range(int(HUNG_S)):
        machine.next()
    assert machine.grown() == {"hung": 1000}


def test_a_job_that_holds_nothing_does_not_hang() -> None:
    machine = Machine(ALONE)
    machine.looks = {TRAINER: RESTS}
    machine.next(2 * HUNG_S)
    assert machine.counts == TimeCounts(unexplained=120_000)


def test_a_compiler_below_the_job() -> None:
    machine = Machine()
    machine.children = {CHILD: "ptxas"}
    assert machine.grown() == {"compile": 1000}
    machine.busy[GPU] = 60
    assert machine.grown() == {"compute": 600, "compile": 400}
    machine.children = {CHILD: "python3"}
    assert machine.grown() == {"compute": 600, "host": 400}


def test_a_compiler_that_does_nothing_compiles_nothing() -> None:
    machine = Machine()
    machine.child("gcc")
    machine.child_state = "Z"
    assert machine.grown() == {"host": 1000}
    machine.child_state = "S"
    machine.next(10.0)
    assert machine.grown(10.0) == {"host": 10_000}, "it waits for its input"
    machine.moves(CHILD, cpu=1)
    for _ in range(COMPILES_NS // SECOND):
        assert machine.grown() == {"compile": 1000}
    assert machine.grown() == {"host": 1000}
    machine.child_state = "D"
    assert machine.grown() == {"compile": 1000}


def test_the_first_compile_belongs_to_the_start() -> None:
    machine = Machine(age_s=2.0)
    machine.children = {CHILD: "ptxas"}
    machine.next(100.0)
    assert machine.counts == TimeCounts(startup=100_000)
    machine.busy[GPU] = 60
    assert machine.grown() == {"compute": 600, "compile": 400}, "its first step was made"
    machine.busy[GPU] = 0
    assert machine.grown() == {"compile": 1000}


@pytest.mark.parametrize("job", [ALONE, job_of(Rank(TRAINER, (WORKER,)))])
def test_neither_age_nor_loaders_end_the_first_compile_without_a_gpu(job: Job) -> None:
    machine = Machine(job, age_s=2.0)
    machine.children = {CHILD: "cc1plus"}
    machine.next(ALONE_S + 1)
    assert machine.grown() == {"startup": 1000}
    machine.children = {}
    assert machine.grown() == {"compute": 1000}
    machine.children = {CHILD: "cc1plus"}
    assert machine.grown() == {"compile": 1000}
    late = Machine(job, age_s=STARTUP_MOST_S + 1)
    late.children = {CHILD: "cc1plus"}
    assert late.grown() == {"compile": 1000}


def test_what_was_read_in_the_first_interval_counts() -> None:
    machine = Machine()
    machine.busy[GPU] = 30
    machine.moves(chars=10 * MB)
    assert machine.grown() == {"compute": 300, "data_cpu": 700}
    assert machine.grown() == {"compute": 300, "host": 700}
    machine.moves(chars=5 * MB)
    # A rate: five megabytes in ten seconds are little.
    assert machine.grown(10.0) == {"compute": 3000, "host": 7000}


def test_the_cpu_of_several_ticks_is_not_that_of_the_tick_that_read_it() -> None:
    """One thread of one core reads now and then; its stat is read with its io, else in every fifth tick."""
    machine = Machine(ALONE)
    machine.stat_ns[TRAINER] = machine.at_ns
    given: dict[str, int] = {}
    for second in range(1, 31):
        if second % 3 == 0:
            machine.moves(chars=30 * MB)
        if second % 3 == 0 or second % 5 == 0:
            machine.ticks[TRAINER] = 100 * second
            machine.stat_ns[TRAINER] = machine.at_ns + SECOND
        for name, ms in machine.grown().items():
            given[name] = given.get(name, 0) + ms
    assert given == {"compute": 20_000, "data_cpu": 10_000}
    # Four threads beside it: what the main thread reads is not a wait.
    machine.ticks[TRAINER] += 500
    machine.stat_ns[TRAINER] = machine.at_ns + SECOND
    machine.moves(chars=30 * MB)
    assert machine.grown() == {"compute": 1000}
    machine.moves(chars=30 * MB)
    assert machine.grown() == {"compute": 1000}, "its stat was not read since: the figure holds"


def test_what_children_read_counts() -> None:
    machine = Machine()
    machine.child("cat")
    machine.next()
    machine.moves(CHILD, chars=10 * MB)
    assert machine.grown() == {"data_cpu": 1000}
    # Its trainer inherits what it read, and reads no more.
    machine.reap()
    assert machine.grown() == {"host": 1000}


COMPUTES = LookCounts(looks=20, futex_computing=Split(cpu=20.0))


def reap_then_compute(machine: Machine) -> None:
    """The trainer rests longer than it remembers its bytes, takes over its child's, and computes."""
    machine.looks = {TRAINER: RESTS}
    for _ in range(12):
        machine.next()
    machine.reap()
    machine.looks = {TRAINER: COMPUTES}


def test_a_checkpoint_after_workers_that_read_much_were_reaped() -> None:
    machine = Machine()
    machine.loading = Loading.NAMED
    machine.child("pt_data_worker", chars=50_000 * MB)
    reap_then_compute(machine)
    for _ in range(12):
        machine.moves(write=500 * MB)
        assert machine.grown() == {"checkpoint": 1000}


def test_threads_that_compute_after_a_child_that_wrote_much_was_reaped() -> None:
    machine = Machine()
    machine.child("cp", write=10_000 * MB)
    reap_then_compute(machine)
    for _ in range(12):
        assert machine.grown() == {"data_cpu": 1000}


def test_a_checkpoint_and_a_remote_mount() -> None:
    machine = Machine()
    machine.looks = {TRAINER: LookCounts(looks=20, main_disk=20)}
    machine.moves(write=60 * MB)
    assert machine.grown() == {"checkpoint": 1000}
    machine.moves(read=60 * MB)
    assert machine.grown() == {"data_disk": 1000}
    machine.place = JobPlace(mounts=(JobMount("/data", "nfs4", "server:/data", ""),))
    assert machine.grown() == {"data_network": 1000}


def test_a_log_beside_a_network_filesystem_is_no_checkpoint() -> None:
    """NFS and FUSE count no read_bytes; a local filesystem counts all that it waits for."""
    machine = Machine()
    machine.looks = {TRAINER: WAITS}
    for mount, share in (
        (JobMount("/mnt/s3", "fuse.s3fs", "s3fs", "0:60"), "data_network"),
        (JobMount("/mnt/x", "fuse", "x", "0:61"), "data_disk"),
        (JobMount("/data", "ext4", "/dev/sda1", "8:1"), "checkpoint"),
    ):
        machine.place = JobPlace(mounts=(mount,))
        machine.moves(chars=80 * MB, write=2 * MB)
        assert machine.grown() == {share: 1000}


def test_sockets_beside_a_network_mount_are_counted_apart() -> None:
    machine = Machine()
    machine.looks = {TRAINER: LookCounts(looks=20, waits=Split(disk=4.0, network=16.0))}
    machine.next()
    assert machine.accountant.file_waits() == {}
    machine.place = JobPlace(mounts=(JobMount("/data", "nfs4", "server:/data", ""),))
    assert machine.grown() == {"data_network": 1000}
    assert machine.accountant.file_waits() == {TRAINER: 200}
    machine.looks = {TRAINER: LookCounts(looks=20, main_net=20)}
    assert machine.grown() == {"data_network": 1000}
    assert machine.accountant.file_waits() == {TRAINER: 200}


def test_another_users_job_goes_on_without_rates() -> None:
    machine = Machine(WITH_WORKERS)
    machine.io = {}
    machine.busy[GPU] = 30
    for _ in range(5):
        assert machine.grown() == {"compute": 300, "host": 700}
    machine.looks = {TRAINER: WAITS}
    assert machine.grown() == {"compute": 300, "data_disk": 700}
    machine.looks = {TRAINER: RESTS}
    machine.busy[GPU] = 0
    for _ in range(int(HUNG_S) - 1):
        assert "hung" not in machine.grown()
    assert machine.grown() == {"hung": 1000}


def test_a_gpu_that_does_not_say_is_no_gpu() -> None:
    machine = Machine()
    machine.busy = {GPU: None}
    assert machine.grown() == {"compute": 1000}


def test_a_gpu_without_a_utilisation_is_as_busy_as_its_busiest_engine() -> None:
    machine = Machine()
    machine.busy = {GPU: None}
    for second in range(3):
        machine.gpu = {
            "graphics_ns": second * SECOND // 10,
            "compute_ns": second * SECOND // 2,
            "engines_at_ns": machine.at_ns + SECOND,
        }
        before = machine.counts
        after = machine.next()
    assert shares(before, after) == {"compute": 500, "host": 500}


def test_a_job_that_ends_is_forgotten() -> None:
    machine = Machine()
    machine.next()
    tick = machine.tick()
    assert machine.accountant.update({}, tick) == {}
    again = machine.accountant.update(machine.jobs, tick._replace(at_ns=tick.at_ns + SECOND))
    assert again == {TRAINER: TimeCounts()}


def test_gpus_that_are_busy_at_little_power_wait_for_each_other() -> None:
    machine = Machine(job_of(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (SECOND_GPU,))))
    machine.busy = {GPU: 100, SECOND_GPU: 100}
    machine.looks = {TRAINER: RUNS, PEER: RUNS}
    machine.gpu = {"power_mw": 98_000, "power_limit_mw": 700_000}
    assert shares(machine.next(), machine.next()) == {"collective": 1000}
    machine.gpu = {"power_mw": 600_000, "power_limit_mw": 700_000}
    assert shares(machine.next(), machine.next()) == {"compute": 1000}


def two_on_one_gpu(*processes: GpuProcess) -> Machine:
    """A job whose loaders wait for a disk, and one that makes the GPU of both busy."""
    machine = Machine(WITH_WORKERS)
    machine.jobs[PEER] = job_of(Rank(PEER, (), (GPU,)))
    machine.io[PEER], machine.ticks[PEER] = [0] * 7, 0
    machine.looks = {TRAINER: WAITS, PEER: RUNS}
    machine.loading = Loading.NAMED
    machine.busy = {GPU: 95}
    machine.gpu = {"processes": processes}
    machine.next()
    return machine


@pytest.mark.parametrize(
    ("mine", "others", "shares"),
    [
        (4, 91, {"compute": 40, "data_disk": 960}),
        (None, 91, {"data_disk": 1000}),
        (None, None, {"data_disk": 1000}),
        (30, None, {"data_disk": 1000}),
        (0, 0, {"compute": 950, "data_disk": 50}),
        (95, 0, {"compute": 950, "data_disk": 50}),
    ],
)
@pytest.mark.parametrize("other", [PEER.pid, 999])
def test_another_jobs_work_on_the_same_gpu_is_not_this_jobs(
    mine: int | None, others: int | None, shares: dict[str, int], other: int
) -> None:
    machine = two_on_one_gpu(GpuProcess(TRAINER.pid, None, "compute", mine), GpuProcess(other, None, "compute", others))
    assert machine.grown() == shares


def test_a_gpus_own_job_has_it_alone() -> None:
    """Processes of the job itself, a desktop's, and one of which only another namespace's pid is known."""
    for process in (
        GpuProcess(WORKER.pid, None, "compute", None),
        GpuProcess(999, None, "graphics", 5),
        GpuProcess(999, None, "compute", None, found=False),
    ):
        machine = two_on_one_gpu(process)
        assert machine.grown() == {"compute": 950, "data_disk": 50}
    machine = two_on_one_gpu(
        GpuProcess(TRAINER.pid, None, "compute", 4), GpuProcess(999, None, "compute", 91, found=False)
    )
    assert machine.grown() == {"compute": 40, "data_disk": 960}


def test_gpus_that_another_job_uses_show_no_wait_for_peers_or_copies() -> None:
    machine = Machine(job_of(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (SECOND_GPU,))))
    machine.busy = {GPU: 100, SECOND_GPU: 100}
    machine.looks = {TRAINER: RUNS, PEER: RUNS}
    machine.gpu = {"power_mw": 98_000, "power_limit_mw": 700_000, "processes": (GpuProcess(999, None, "compute", 50),)}
    assert "collective" not in shares(machine.next(), machine.next())


def test_a_gpu_whose_link_is_full_waits_for_copies() -> None:
    machine = Machine()
    machine.busy = {GPU: 30}
    machine.gpu = {"pcie_generation": 5, "pcie_width": 16, "pcie_rx_bytes": 0}
    machine.next()
    machine.gpu = {**machine.gpu, "pcie_rx_bytes": 45 * 10**9}
    before = machine.counts
    after = machine.next()
    assert after.transfer - before.transfer == 700


def shares(before: TimeCounts, after: TimeCounts) -> dict[str, int]:
    """The milliseconds between two readings, by share."""
    return {name: b - a for name, a, b in zip(TimeCounts._fields, before, after, strict=True) if b > a}
