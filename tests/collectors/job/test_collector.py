"""Jobs on the running machine: a trainer with loaders is found, and its tasks are sampled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.collector import JobCollector
from iotop_ai.collectors.job.system_calls import system_calls
from iotop_ai.collectors.job.task_sampler import MOST_TASKS, TaskSampler
from iotop_ai.collectors.process.collector import ProcessCollector
from iotop_ai.model.job.looks import Loading, LookCounts
from iotop_ai.model.job.records import Job, JobTable, Rank, job_rates
from iotop_ai.model.job.task_states import APART, COARSE, COUNTED_WAIT_STATES, SweepCounts, add_sweep, wait_state_of
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat, ProcessTable

TRAINER = Path(__file__).resolve().parents[2] / "scenarios" / "trainer.py"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def key_of(pid: int) -> ProcessKey:
    return ProcessKey(pid, start_ticks(pid))


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(TRAINER), str(tmp_path), "--workers", "2", "--cpu-ms", "5", "--step", "0.02"]
    process = subprocess.Popen(command, start_new_session=True)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if len(children) == 2 and all(Path(f"/proc/{pid}/comm").read_text() == "pt_data_worker\n" for pid in children):
            break
        time.sleep(0.02)
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_trainer_and_its_loaders_are_found_and_sampled(trainer: subprocess.Popen[bytes]) -> None:
    root, clock = Root("/"), Clock()
    before, threads = descriptors(), threading.active_count()
    processes, jobs = ProcessCollector(root, clock), JobCollector(root, clock)

    def read() -> JobTable:
        jobs.see(processes.read(), None)
        return jobs.read()

    began = time.monotonic()
    first = read()
    job = next(job for job in first.jobs.values() if job.key.pid == trainer.pid)
    assert (job.name, len(job.workers), job.evidence) == ("trainer.py", 2, ("loader",))
    assert first.places[job.key].allowed_cores == len(os.sched_getaffinity(0))
    time.sleep(1.0)
    second = read()
    rates = job_rates(first, second, 1.0)
    got = rates.jobs[job.key]
    assert 10 <= got.sweeps <= 21 * (time.monotonic() - began)
    assert got.stall_ratio is not None
    # On a loaded machine the batches that the loaders prefetched may last for the first seconds.
    end = time.monotonic() + 20
    while not got.waits and time.monotonic() < end:
        time.sleep(1.0)
        second = read()
        rates = job_rates(first, second, 1.0)
        got = rates.jobs[job.key]
    assert got.waits > 0
    assert got.wait_running > got.wait_disk
    shares = rates.times[job.key]
    assert sum(shares) - shares.whole_ms == pytest.approx(1.0)
    assert shares.whole_ms >= 900
    assert shares.data_cpu > shares.data_disk
    assert rates.own_cpu_ratio is not None
    seconds = (got.sweeps or 20) / 20
    assert 0 < rates.own_cpu_ratio / max(1.0, seconds) < 0.2
    # The trainers of other tests may run on this machine, and a process that has just begun has no CPU time yet.
    assert all(rates.tasks[key].cpu_ratio is not None for key in (job.key, *job.workers))
    os.killpg(trainer.pid, signal.SIGKILL)
    trainer.wait()
    assert job.key not in read().jobs
    processes.close()
    jobs.close()
    assert descriptors() <= before
    end = time.monotonic() + 20
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.05)  # close() does not wait for its threads
    assert threading.active_count() <= threads


def test_without_a_job_the_table_stays_the_same() -> None:
    class WithoutJobs(JobCollector):
        def _follow(self, table: object, now: int) -> None:
            pass

    root, clock = Root("/"), Clock()
    processes, jobs = ProcessCollector(root, clock), WithoutJobs(root, clock)
    jobs.see(processes.read(), None)
    first, at = jobs.read(), jobs.at_ns()
    jobs.see(processes.read(), None)
    assert jobs.read() is first
    assert jobs.at_ns() == at
    assert first == JobTable(own_cpu_ns=0)
    processes.close()
    jobs.close()


class _Looks:
    """A sampler that makes up its samples: at each tick, each training process has the same counts."""

    cpu_ns = 0

    def __init__(self) -> None:
        self.keys: list[ProcessKey] = []

    def select(self, jobs: Mapping[ProcessKey, Job]) -> None:
        self.keys = [rank.key for job in jobs.values() for rank in job.ranks]

    def looks(self) -> dict[ProcessKey, LookCounts]:
        return {key: LookCounts(looks=20, running=20) for key in self.keys}

    def loading(self) -> dict[ProcessKey, Loading]:
        return dict.fromkeys(self.keys, Loading.ITSELF)

    def answering_workers(self) -> frozenset[ProcessKey]:
        return frozenset()

    def close(self) -> None:
        pass

    def sweeps(self) -> dict[ProcessKey, object]:
        return {}

    tasks = traffic = sweeps


class _OneInTurn(_Looks):
    """A sampler that samples the training processes of a job one at a time. A selection drops the earlier counts."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0
        self.sampled = False

    def select(self, jobs: Mapping[ProcessKey, Job]) -> None:
        self.turn += 1
        super().select(jobs)
        self.keys = self.keys[self.turn % 2 :][:1]
        self.sampled = False

    def looks(self) -> dict[ProcessKey, LookCounts]:
        return super().looks() if self.sampled else dict.fromkeys(self.keys, LookCounts())


class _Seconds(Clock):
    now_s = 10_000

    def monotonic_ns(self) -> int:
        return self.now_s * 10**9

    def suspended_ns(self) -> int:
        return 0


def job_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: Sequence[ProcessKey | None]) -> list[TimeCounts]:
    """The counters of a launcher at each second. ranks: its only rank at that second; None for no rank and no job."""
    top = ProcessKey(50, 1)
    clock, now = _Seconds(), [ranks[0]]

    def found(*_: object) -> dict[ProcessKey, Job]:
        return {} if now[0] is None else {top: Job(top, "train.py", "alice", 0, (Rank(now[0]),))}

    monkeypatch.setattr("iotop_ai.collectors.job.collector.find_jobs", found)
    jobs = JobCollector(Root(str(tmp_path)), clock, sampler=cast("TaskSampler", _Looks()))
    out = []
    for rank in ranks:
        now[0] = rank
        keys = [top] if rank is None else [top, rank]
        info = {key: ProcessInfo("python", ("python", "train.py"), "alice", 0) for key in keys}
        stat = {key: ProcessStat("S", 50, 0, 0, 0, 0, 0, 1, 0, 0) for key in keys}
        at = clock.monotonic_ns()
        jobs.see(ProcessTable({}, stat, info, frozenset(), at, at, (at,), {}, {}, {}, {}), None)
        out.append(jobs.read().times.get(top, TimeCounts()))
        clock.now_s += 1
    jobs.close()
    return out


def test_no_time_is_lost_while_the_ranks_are_sampled_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [ProcessKey(60, 2), ProcessKey(61, 2)]
    job = Job(ranks[0], "train.py", "alice", 0, tuple(map(Rank, ranks)))
    monkeypatch.setattr("iotop_ai.collectors.job.collector.find_jobs", lambda *_: {job.key: job})
    clock, sampler = _Seconds(), _OneInTurn()
    jobs = JobCollector(Root(str(tmp_path)), clock, sampler=cast("TaskSampler", sampler))
    info = dict.fromkeys(ranks, ProcessInfo("python", ("python", "train.py"), "alice", 0))
    stat = dict.fromkeys(ranks, ProcessStat("S", 1, 0, 0, 0, 0, 0, 1, 0, 0))
    for _ in range(11):
        at = clock.monotonic_ns()
        jobs.see(ProcessTable({}, stat, info, frozenset(), at, at, (at,), {}, {}, {}, {}), None)
        whole_ms = jobs.read().times[job.key].whole_ms
        clock.now_s += 10
        sampler.sampled = True
    assert whole_ms == 100_000
    jobs.close()


def test_time_without_a_job_is_not_given_to_any_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = ProcessKey(60, 2)
    times = job_times(tmp_path, monkeypatch, [rank, rank, *[None] * 600, rank, rank])
    assert times[1].whole_ms == 1000
    assert times[-1].whole_ms == 1000


def test_the_age_of_a_job_is_the_age_of_its_youngest_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = ProcessKey(60, 100), ProcessKey(61, 10_002 * 100)
    times = job_times(tmp_path, monkeypatch, [old, old, new, new])
    assert (times[1].startup, times[3].startup) == (0, 2000)
    assert job_times(tmp_path, monkeypatch, [new, new, new, new])[3].startup > 0, (
        "a new job was not starting, because its launcher is old"
    )


def test_a_gpu_that_a_job_opens_after_minutes_is_seen(tmp_path: Path) -> None:
    key, here = ProcessKey(100, 7), tmp_path / "proc/100"
    (here / "fd").mkdir(parents=True)
    (here / "maps").write_text("7f00 r-xp 0 0:0 1 /v/libtorch_python.so\n")
    (here / "fd/3").symlink_to("/data/text.bin")
    clock, evidence = _Seconds(), []
    jobs = JobCollector(Root(str(tmp_path)), clock, sampler=cast("TaskSampler", _Looks()))
    info = {key: ProcessInfo("python", ("python", "train.py"), "alice", 0)}
    stat = {key: ProcessStat("R", 1, 0, 0, 0, 0, 0, 1, 0, 0)}
    for second in range(300):
        if second == 240:
            (here / "fd/4").symlink_to("/dev/nvidia-uvm")
        at = clock.monotonic_ns()
        jobs.see(ProcessTable({}, stat, info, frozenset(), at, at, (at,), {}, {}, {}, {}), None)
        evidence.append(jobs.read().jobs[key].evidence)
        clock.now_s += 1
    jobs.close()
    assert evidence[239] == ("library",)
    assert evidence[-1] == ("device", "library")


def test_loaders_that_are_forked_soon_after_a_gpu_was_opened_are_not_ranks(tmp_path: Path) -> None:
    """They inherit the open GPU, and their parent was last inspected before it opened one."""
    trainer, loaders = ProcessKey(100, 7), [ProcessKey(101, 300), ProcessKey(102, 300)]
    clock = _Seconds()
    jobs = JobCollector(Root(str(tmp_path)), clock, sampler=cast("TaskSampler", _Looks()))
    info, stat, ranks = {}, {}, set()
    for second in range(260):
        started = [trainer] if second == 0 else loaders if second == 245 else []
        for key in started:
            here = tmp_path / f"proc/{key.pid}"
            (here / "fd").mkdir(parents=True)
            (here / "maps").write_text("7f00 r-xp 0 0:0 1 /v/libtorch_python.so\n")
            info[key] = ProcessInfo("python", ("python", "train.py"), "alice", 0)
            stat[key] = ProcessStat("R", 1 if key is trainer else 100, 0, 0, 0, 0, 0, 1, 0, 0)
        if second == 243:
            (tmp_path / "proc/100/fd/4").symlink_to("/dev/nvidia-uvm")
        if second == 245:
            for key in loaders:
                (tmp_path / f"proc/{key.pid}/fd/4").symlink_to("/dev/nvidia-uvm")
        at = clock.monotonic_ns()
        table = ProcessTable({}, dict(stat), dict(info), frozenset(), at, at, (at,), {}, {}, {}, {})
        jobs.see(table, None)
        ranks |= {rank.key for job in jobs.read().jobs.values() for rank in job.ranks}
        clock.now_s += 1
    jobs.close()
    assert ranks == {trainer}


def test_a_trainer_whose_name_is_not_pythons_is_inspected_for_its_gpu(tmp_path: Path) -> None:
    trainer, loader = ProcessKey(100, 7), ProcessKey(101, 8)
    (tmp_path / "proc/100/fd").mkdir(parents=True)
    (tmp_path / "proc/100/maps").write_text("")
    (tmp_path / "proc/100/fd/4").symlink_to("/dev/nvidia-uvm")
    clock = _Seconds()
    jobs = JobCollector(Root(str(tmp_path)), clock, sampler=cast("TaskSampler", _Looks()))
    info = {
        trainer: ProcessInfo("llm-train", ("llm-train", "step 3"), "alice", 0),
        loader: ProcessInfo("pt_data_worker", ("llm-train", "step 3"), "alice", 0),
    }
    stat = {
        trainer: ProcessStat("R", 1, 0, 0, 0, 0, 0, 1, 0, 0),
        loader: ProcessStat("S", 100, 0, 0, 0, 0, 0, 1, 0, 0),
    }
    for _ in range(2):
        at = clock.monotonic_ns()
        jobs.see(ProcessTable({}, stat, info, frozenset(), at, at, (at,), {}, {}, {}, {}), None)
        job = jobs.read().jobs[trainer]
        clock.now_s += 1
    jobs.close()
    assert job.may_use_gpu
    assert job.evidence == ("device", "loader")


def test_a_process_whose_pid_was_reused_is_not_sampled() -> None:
    sampler = TaskSampler(Root("/"), Clock(), period_s=60.0)
    stranger = ProcessKey(os.getpid(), 1)
    sampler.select({stranger: Job(stranger, "x.py", "a", 0, (Rank(stranger),))})
    sampler.sweep()
    assert sampler.sweeps()[stranger].sweeps == 0
    assert sampler.tasks()[stranger].looks == 0
    sampler.close()


def test_a_task_that_ends_does_not_affect_the_others() -> None:
    sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    keys = [key_of(process.pid) for process in sleepers]
    sampler = TaskSampler(Root("/"), Clock(), period_s=60.0)
    jobs = {keys[0]: Job(keys[0], "x.py", "a", 0, (Rank(keys[0], tuple(keys[1:])),))}
    sampler.select(jobs)
    sampler.sweep()
    sleepers[1].kill()
    sleepers[1].wait()
    sampler.sweep()
    sampler.sweep()
    assert sampler.sweeps()[keys[0]].sweeps == 3
    assert [sampler.tasks()[key].looks for key in keys] == [3, 1, 3]
    sampler.select(jobs)
    sampler.close()
    for process in (sleepers[0], sleepers[2]):
        process.kill()
        process.wait()


@pytest.mark.parametrize(("count", "watched_ranks", "workers"), [(4, 4, 7), (8, 8, 3), (10, 10, 2), (16, 10, 2)])
def test_every_rank_is_sampled_and_its_workers_take_turns(count: int, watched_ranks: int, workers: int) -> None:
    """Any rank can be the slowest, and the slowest decides. Ranks take turns only if not all fit with two workers."""
    me = key_of(os.getpid())
    ranks = tuple(
        Rank(ProcessKey(n * 100, n), tuple(ProcessKey(n * 100 + w, n) for w in range(1, 8))) for n in range(count)
    )
    job = Job(me, "x.py", "a", 0, ranks)
    sampler = TaskSampler(Root("/nowhere"), Clock(), period_s=60.0)
    seen = set()
    for _ in range(200):
        sampler.select({me: job})
        watched = set(sampler.tasks())
        assert len(watched) <= MOST_TASKS
        at_once = [rank for rank in ranks if rank.key in watched]
        assert len(at_once) == watched_ranks
        assert min(len(watched.intersection(rank.workers)) for rank in at_once) == workers
        seen |= watched
    assert seen == {key for rank in ranks for key in (rank.key, *rank.workers)}
    large = Job(me, "x.py", "a", 0, (Rank(me, tuple(ProcessKey(9000 + n, 1) for n in range(64))),))
    sampler.select({me: large})
    assert len(sampler.tasks()) == MOST_TASKS
    sampler.close()


class Tree:
    """Files that stand in for the files of tasks. They are changed in place, so open descriptors see the change."""

    def __init__(self, folder: Path, pids: range) -> None:
        self.folder = folder
        self.keys = [ProcessKey(pid, 7) for pid in pids]
        for key in self.keys:
            (folder / f"proc/{key.pid}/task/{key.pid}").mkdir(parents=True)
            self.write(key, b"S", b"0", b"1 2 3\n", 5)

    def write(self, key: ProcessKey, state: bytes, wchan: bytes, schedstat: bytes, pages: int) -> None:
        here = self.folder / f"proc/{key.pid}/task/{key.pid}"
        zeros = b" ".join([b"0"] * 18)
        (here / "stat").write_bytes(b"%d (a) b) %s %s 7 0 %d 0\n" % (key.pid, state, zeros, pages))
        (here / "wchan").write_bytes(wchan)
        (here / "schedstat").write_bytes(schedstat)


def test_equal_sweeps_are_counted_as_if_each_were_counted_alone(tmp_path: Path) -> None:
    tree, draw = Tree(tmp_path, range(100, 108)), random.Random(4)
    one, two = tree.keys[:3], tree.keys[3:]
    jobs = {rank[0]: Job(rank[0], "x.py", "a", 0, (Rank(rank[0], tuple(rank[1:])),)) for rank in (one, two)}
    sampler = TaskSampler(Root(str(tmp_path)), Clock(), period_s=60.0)
    sampler.select(jobs)
    kinds = [(b"S", b"futex_do_wait"), (b"S", b"hrtimer_nanosleep"), (b"D", b"folio_wait_bit_common"), (b"R", b"0")]
    kinds += [(b"S", b"wait_woken"), (b"D", b"some_lock"), (b"S", b"some_sleep"), (b"S", b"0")]
    tasks = {key: [0] * COUNTED_WAIT_STATES for key in tree.keys}
    sweeps = {key: [0] * len(SweepCounts._fields) for key in jobs}
    now = dict.fromkeys(tree.keys, (b"S", b"0"))
    ended: set[ProcessKey] = set()
    for turn in range(200):
        for key in draw.sample(tree.keys, draw.randrange(3)):
            now[key] = draw.choice(kinds)
        if turn == 150:
            now[one[1]] = now[two[0]] = (b"Z", b"0")
        for key, (state, wchan) in now.items():
            tree.write(key, state, wchan, b"%d 2 3\n" % turn, turn)
        sampler.sweep()
        wait_states = {
            key: COARSE[wait_state_of(*seen)] for key, seen in now.items() if seen[0] != b"Z" and key not in ended
        }
        for rank in (one, two):
            if rank[0] in ended:
                continue
            for key in rank:
                if key in wait_states:
                    tasks[key][wait_states[key]] += 1
            if rank[0] in wait_states:
                add_sweep(
                    sweeps[rank[0]], wait_states[rank[0]], [wait_states[key] for key in rank[1:] if key in wait_states]
                )
        ended |= tree.keys - wait_states.keys()
        if draw.random() < 0.2:
            if not ended:
                sampler.select(dict(jobs))
            assert {key: list(counts[:COUNTED_WAIT_STATES]) for key, counts in sampler.tasks().items()} == tasks
            assert {key: list(counts[:APART]) for key, counts in sampler.sweeps().items()} == {
                key: counts[:APART] for key, counts in sweeps.items()
            }
            got = sampler.tasks()[two[1]]
            assert (got.run_ns, got.wait_ns, got.rss_bytes) == (turn, 2, turn * os.sysconf("SC_PAGE_SIZE"))
    sampler.close()


ARGUMENTS = b" 0x4 0x0 0x0 0x0 0x0 0x0 0x7ffd81cee1c8 0x7f2ff1b2a99a\n"
CALLS = {call.name: number for number, call in system_calls(os.uname().machine).items()}


@pytest.mark.parametrize(
    ("call", "writes"),
    [("fsync", True), ("pwrite64", True), ("sync_file_range", True), ("pread64", False), ("ioctl", False)],
)
def test_a_main_thread_blocked_in_a_call_that_writes_is_saving(tmp_path: Path, call: str, writes: bool) -> None:
    tree = Tree(tmp_path, range(100, 103))
    ranks = tuple(Rank(key, ()) for key in tree.keys)
    sampler = TaskSampler(Root(str(tmp_path)), Clock(), period_s=60.0)
    sampler.select({ranks[0].key: Job(ranks[0].key, "x.py", "a", 0, ranks)})
    for key in tree.keys:
        tree.write(key, b"D", b"folio_wait_bit_common", b"1 2 3\n", 5)
        (tmp_path / f"proc/{key.pid}/task/{key.pid}/syscall").write_bytes(b"%d" % CALLS[call] + ARGUMENTS)
    for _ in range(2):
        sampler.sweep()
    # Three ranks need two sweeps, because each sweep reads the system calls of two of them.
    sampler.looks()
    sampler.sweep()
    seen = LookCounts(looks=1, main_write=1) if writes else LookCounts(looks=1, main_disk=1)
    assert sampler.looks() == dict.fromkeys(tree.keys, seen)
    tree.write(tree.keys[0], b"R", b"0", b"1 2 3\n", 5)
    # this content means a page fault
    (tmp_path / "proc/101/task/101/syscall").write_bytes(b"-1 0x7ffd81cee1c8 0x7f2ff1b2a99a\n")
    (tmp_path / "proc/102/task/102/syscall").unlink()  # as if reading it were not permitted
    for _ in range(2):
        sampler.sweep()
    sampler.looks()
    sampler.sweep()
    found = sampler.looks()
    assert [found[key].running for key in tree.keys] == [1, 0, 0]
    assert [found[key].main_disk for key in tree.keys] == [0, 1, 1]
    sampler.close()
