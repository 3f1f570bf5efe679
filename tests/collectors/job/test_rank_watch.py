"""The tasks that are sampled together with a training process, and how their samples are counted (real processes)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.rank_watch import LEAST_PAIR_SLEEPS, MOST_WORKERS, RECENT_SAMPLES, RankWatch
from iotop_ai.collectors.job.task_sampler import CENSUS_SWEEPS, TaskSampler
from iotop_ai.collectors.job.watched_task import WatchedTask
from iotop_ai.model.job.looks import Loading, LookCounts, Split
from iotop_ai.model.job.records import LOADER, Job, Rank
from iotop_ai.model.job.task_states import DISK, FUTEX, NET, OTHER, QUEUE, RUNNING, STOPPED
from tests.collectors.job.children import Child, descriptors, fields, names_of
from tests.rigs.threads import no_thread
from tests.waiting import until

ROOT = Root()
Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a process with these threads, or with one thread in state D if there are no words."""
    children: list[Child] = []

    def run(*words: str) -> Child:
        children.append(Child(*words) if words else Child.in_d(tmp_path))
        return children[-1]

    yield run
    for child in children:
        child.end()


def job_of(trainer: Child, *workers: Child, evidence: tuple[str, ...] = ("loader",)) -> Job:
    kind = LOADER if workers and "loader" in evidence else ""
    rank = Rank(trainer.key, tuple(worker.key for worker in workers), worker_kind=kind)
    return Job(trainer.key, "train.py", "alice", 0, (rank,), evidence=evidence)


class Watch:
    """A RankWatch of real processes that takes a census every half a second."""

    def __init__(self, job: Job, most: int = 32) -> None:
        self.rank = RankWatch(ROOT)
        self.tasks = [WatchedTask(ROOT, key) for key in (job.ranks[0].key, *job.workers)]
        self.rank.set(job, job.ranks[0], self.tasks[0], self.tasks[1:], False)
        self.most = most
        self.now_ns = 10**12

    def next(self) -> list[tuple[int, int]]:
        """Take a census, and return the pid and thread id of each sampled task, in order."""
        self.now_ns += 500_000_000
        self.rank.take_census(self.now_ns, self.most)
        return [(task.key.pid, task.tid) for task in self.rank.tasks_to_sample(0)]

    def until(self, tasks: set[tuple[int, int]]) -> list[tuple[int, int]]:
        """Take censuses until exactly these tasks are sampled, and return them in order."""
        row: list[tuple[int, int]] = []

        def just_these() -> bool:
            row[:] = self.next()
            return set(row) == tasks

        until(just_these)
        return row

    def look(self, wait_states: dict[int, int]) -> LookCounts:
        """Count one sample in which each thread is in the given wait state."""
        self.rank.count([wait_states[task.tid] for task in self.rank.tasks_to_sample(0)], 1)
        return self.rank.tally.take()

    def close(self) -> None:
        self.rank.close()
        for task in self.tasks:
            task.close()


def test_each_thread_counts_by_its_role(start: Start) -> None:
    trainer = start("busy", "busy:pt_autograd_0", "asleep:pt_data_pin", "asleep")
    main, (pool, autograd, pin, _) = trainer.pid, trainer.tids
    before = descriptors()
    watch = Watch(job_of(trainer, evidence=()))
    row = watch.until({(main, main), (main, pool), (main, autograd), (main, pin)})
    assert row[0] == (main, main)
    assert watch.rank.mains == 1
    assert watch.rank.loading is Loading.ITSELF
    backward = {main: FUTEX, pool: RUNNING, autograd: RUNNING, pin: QUEUE}
    assert watch.look(backward) == LookCounts(looks=1, backward=1)
    # A thread of the backward pass that sleeps prepares no data, and neither does the pin thread.
    forward = backward | {autograd: DISK, pin: DISK}
    assert watch.look(forward) == LookCounts(looks=1, futex_computing=Split(cpu=1.0))
    assert watch.look(forward | {pool: QUEUE}) == LookCounts(looks=1, resting=1)
    assert watch.look(forward | {main: STOPPED}) == LookCounts(looks=1, stopped=1)
    watch.close()
    assert descriptors() == before


def test_a_worker_and_its_threads_count_as_one(start: Start) -> None:
    trainer, reader, other = start("asleep"), start("busy", "busy", "asleep"), start("asleep")
    before = descriptors()
    watch = Watch(job_of(trainer, reader, other))
    one, two = reader.tids[:2]
    mains = {(child.pid, child.pid) for child in (trainer, reader, other)}
    row = watch.until(mains | {(reader.pid, one), (reader.pid, two)})
    assert row[:3] == [(trainer.pid, trainer.pid), (reader.pid, reader.pid), (other.pid, other.pid)]
    assert watch.rank.loading is Loading.NAMED
    wait_states = {trainer.pid: QUEUE, reader.pid: FUTEX, other.pid: RUNNING, one: DISK, two: DISK}
    assert watch.look(wait_states) == LookCounts(looks=1, waits=Split(disk=0.5, cpu=0.5))
    # A stopped worker prepares nothing, whatever its threads do.
    assert watch.look(wait_states | {reader.pid: STOPPED}) == LookCounts(looks=1, waits=Split(cpu=1.0))
    running = wait_states | {trainer.pid: RUNNING}
    assert watch.look(running) == LookCounts(looks=1, running=1, crowded=1)
    assert watch.look(running | {other.pid: QUEUE}) == LookCounts(looks=1, running=1)
    watch.rank.receiving = frozenset((other.pid,))
    resting = dict.fromkeys(wait_states, FUTEX) | {trainer.pid: QUEUE}
    assert watch.look(resting) == LookCounts(looks=1, waits=Split(network=1.0))
    watch.close()
    assert descriptors() == before


def test_a_socket_within_the_job_does_not_count_as_the_network(start: Start) -> None:
    trainer, worker = start("asleep"), start("asleep")
    for kind, evidence in ((Loading.NAMED, ("loader",)), (Loading.OTHERS, ("children",))):
        watch = Watch(job_of(trainer, worker, evidence=evidence))
        watch.next()
        assert watch.rank.loading is kind
        rest = dict.fromkeys((*trainer.tids, *worker.tids), FUTEX)
        at_socket, busy = {**rest, trainer.pid: NET, worker.pid: NET}, {**rest, trainer.pid: NET, worker.pid: RUNNING}
        assert watch.look(at_socket) == LookCounts(looks=1, main_net=1)
        watch.rank.connected_within_job = frozenset((worker.pid,))
        assert watch.look(at_socket | {trainer.pid: QUEUE}) == LookCounts(looks=1, resting=1)
        watch.rank.connected_within_job = frozenset((trainer.pid, worker.pid))
        if kind is Loading.NAMED:
            assert watch.look(busy) == LookCounts(looks=1, asleep=1)
        else:
            assert watch.look(at_socket) == LookCounts(looks=1, resting=1)
            assert watch.look(busy) == LookCounts(looks=1, waits=Split(cpu=1.0))
            watch.rank.has_peers = True
            assert watch.look(busy) == LookCounts(looks=1, asleep=1), (
                "a wait for another rank was counted as a wait for data"
            )
        watch.close()


@pytest.mark.parametrize("pipeline", ["below", "shell"])
def test_a_pipeline_counts_for_the_thread_that_reads_from_it(start: Start, pipeline: str) -> None:
    trainer = start("asleep", pipeline, "asleep")
    watch = Watch(job_of(trainer, evidence=()))
    assert watch.rank.loading is Loading.ITSELF

    def below() -> list[int]:
        return [pid for pid, _ in watch.next() if pid != trainer.pid]

    until(lambda: names_of(below()) == ["cat", "cat", "sh"])
    shell, *cats = sorted(below())
    # The pipeline stays listed while the thread that started it sleeps.
    watch.now_ns += 60 * 10**9
    assert sorted(below()) == [shell, *cats]
    wait_states = {trainer.pid: QUEUE, shell: OTHER, cats[0]: QUEUE, cats[1]: DISK}
    wait_states |= dict.fromkeys(trainer.tids, FUTEX)
    assert watch.look(wait_states) == LookCounts(looks=1, waits=Split(disk=1.0))
    # A pipeline that only rests does not load anything.
    assert watch.rank.loading is Loading.ITSELF
    for _ in range(RECENT_SAMPLES // 10):
        watch.look(wait_states)
    assert watch.rank.loading is Loading.OTHERS
    for _ in range(RECENT_SAMPLES):
        watch.look(wait_states | {cats[1]: QUEUE})
    assert watch.rank.loading is Loading.ITSELF
    trainer.end()
    until(lambda: below() == [])
    watch.close()


SOCKET, POLL = b"unix_stream_read_generic", b"poll_schedule_timeout.constprop.0"


@pytest.mark.parametrize(
    ("sleeps", "is_simulation"),
    [
        ([(QUEUE, SOCKET)] * LEAST_PAIR_SLEEPS, True),
        ([(QUEUE, SOCKET), *[(RUNNING, b"0")] * 50] * LEAST_PAIR_SLEEPS, True),
        ([(QUEUE, SOCKET)] * (LEAST_PAIR_SLEEPS - 1), False),
        ([(QUEUE, SOCKET), (QUEUE, POLL)] * LEAST_PAIR_SLEEPS, False),
        ([(FUTEX, b"futex_do_wait")] * 50, False),
        ([(RUNNING, b"0"), (OTHER, b"hrtimer_nanosleep")] * 50, False),
    ],
)
def test_a_worker_that_mostly_sleeps_at_a_socket_is_a_simulation(
    start: Start, sleeps: list[tuple[int, bytes]], is_simulation: bool
) -> None:
    trainer, worker = start("asleep"), start("asleep")
    for evidence in ("children", "loader"):
        watch = Watch(job_of(trainer, worker, evidence=(evidence,)))
        watch.rank.tasks_to_sample(0)
        for wait_state, raw in sleeps:
            watch.rank.count_sleeps([QUEUE, wait_state], [POLL, raw])
        # Loaders that are known by their name never count as simulations.
        assert watch.rank.answering_workers() == ({worker.key} if is_simulation and evidence == "children" else set())
        watch.close()


def test_a_task_that_ended_is_left_out_of_the_sample(start: Start) -> None:
    trainer, worker = start("asleep"), start("asleep")
    watch = Watch(job_of(trainer, worker))
    watch.until({(trainer.pid, trainer.pid), (worker.pid, worker.pid)})
    watch.rank.count([QUEUE, None], 3)
    watch.rank.count([None, DISK], 3)
    assert watch.rank.tally.take() == LookCounts(looks=3, resting=3)
    watch.tasks[1].ended = True
    assert watch.next() == [(trainer.pid, trainer.pid)]
    watch.tasks[0].ended = True
    assert watch.next() == []
    assert not watch.rank.take_census(watch.now_ns, 32)
    watch.close()


def test_the_number_of_sampled_tasks_is_bounded(start: Start) -> None:
    trainer = start(*["busy"] * 6, *["asleep"] * 194, *["below"] * 2)
    before = descriptors()
    watch = Watch(job_of(trainer, evidence=()), most=4)
    until(lambda: len(watch.next()) == 5)
    assert all(len(watch.next()) == 5 for _ in range(20))
    # Threads that compute do not take the places of the children.
    until(lambda: sum(pid != trainer.pid for pid, _ in watch.next()) == 2)
    watch.close()
    assert descriptors() == before


def test_the_pin_thread_is_sampled_if_there_is_room(start: Start) -> None:
    trainer = start("busy", "asleep:pt_data_pin", "below")
    watch = Watch(job_of(trainer), most=1)
    watch.until({(trainer.pid, trainer.pid), (trainer.pid, trainer.tids[1])})
    assert watch.next()[1:] == [(trainer.pid, trainer.tids[1])]
    watch.close()


def test_workers_are_listed_in_turn(start: Start) -> None:
    trainer = start("asleep")
    many = [start("below") for _ in range(MOST_WORKERS + 3)]
    watch = Watch(job_of(trainer, *many), most=200)
    seen: set[int] = set()

    def all_seen() -> bool:
        seen.update(pid for pid, _ in watch.next())
        return len(seen) == 1 + 4 * len(many)

    until(all_seen)
    watch.close()


def test_a_sampling_thread_that_could_not_start_is_started_by_the_next_selection(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = start("asleep")
    sampler = TaskSampler(ROOT, Clock(), period_s=0.01)
    job = job_of(trainer)
    jobs = {job.key: job}
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            sampler.select(jobs)
    sampler.select(jobs)
    until(lambda: sampler.looks()[job.key].looks)
    sampler.close()


def test_real_sweeps_are_counted(start: Start) -> None:
    trainer, worker = start("asleep"), start()
    below = Path(f"/proc/{worker.pid}/task/{worker.tids[0]}/children")
    until(lambda: [fields(int(pid))[0] for pid in below.read_text().split()] == ["S"])
    assert fields(worker.pid, worker.tids[0])[0] == "D"
    before = descriptors()
    sampler = TaskSampler(ROOT, Clock(), period_s=60.0)
    rank = Rank(trainer.key, (worker.key,), ("GPU-0",), worker_kind=LOADER)
    job = Job(trainer.key, "train.py", "alice", 0, (rank,), evidence=("loader",))
    sampler.select({job.key: job})
    for _ in range(3 * CENSUS_SWEEPS):
        sampler.sweep()
    looks = sampler.looks()[job.key]
    # Before the first census, the worker consists of its main thread, which sleeps.
    assert looks.looks == 3 * CENSUS_SWEEPS
    assert looks.waits.disk == looks.waits.whole >= 2 * CENSUS_SWEEPS
    assert looks.resting == looks.looks - looks.waits.whole
    assert sampler.looks()[job.key] == LookCounts()
    # A worker that is killed in the middle no longer prepares data.
    worker.end()
    for _ in range(CENSUS_SWEEPS):
        sampler.sweep()
    assert sampler.looks()[job.key] == LookCounts(looks=CENSUS_SWEEPS, resting=CENSUS_SWEEPS)
    trainer.end()
    sampler.sweep()
    sampler.sweep()
    assert sampler.looks()[job.key] == LookCounts()
    sampler.close()
    assert descriptors() == before - 4
