"""Samples the states of training jobs' tasks 20 times a second on average, on a thread of its own.

A sweep samples all tasks once: it reads the wchan of each with one ``map``. Most names of kernel functions show the
state, so stat is rarely needed. The sweeps mainly count how often each combination of wait states has occurred. Most
figures are computed when the counts are read, because code that runs between two sweeps is slow: the CPU's caches are
cold. The thread runs only while there is a job. It samples the main threads of at most ``MOST_TASKS`` processes, in
rotation if there are more, and ``MOST_EXTRA`` further threads and children that were active recently. A census chooses
these (task_census.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.lazy_thread import LazyThread
from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.main_thread_waits import MainThreadWaits
from iotop_ai.collectors.job.network_watch import NetworkWatch, sleepers
from iotop_ai.collectors.job.rank_watch import RankWatch
from iotop_ai.collectors.job.sockets import JobSockets, SocketDiag, Traffic
from iotop_ai.collectors.job.wait_target import WaitTarget, wait_target
from iotop_ai.collectors.job.watched_task import (
    SCHEDSTAT,
    SCHEDSTAT_SIZE,
    STAT,
    STATE_SIZE,
    WCHAN,
    WCHAN_SIZE,
    WatchedTask,
    fields_after_name,
)
from iotop_ai.collectors.process.descriptors import STAT_SIZE, read_kept
from iotop_ai.model.job.looks import Loading, LookCounts, LookTally, count_peers
from iotop_ai.model.job.records import Job, Rank
from iotop_ai.model.job.task_states import (
    APART,
    COARSE,
    SweepCounts,
    TaskCounts,
    add_sweep,
    wait_state_in,
    wait_state_of,
)
from iotop_ai.model.process.records import ProcessKey

PERIOD_S = 0.05
"""The mean time between two sweeps, in seconds."""
MOST_TASKS = 32
MOST_EXTRA = 32
"""The most further threads and children that are sampled; each training process has an equal share of them."""
LEAST_WORKERS = 2
"""The number of workers that are sampled with each training process, if it has so many."""
SELECTIONS_PER_ROTATION = 5
"""The number of calls of ``select`` after which other processes are sampled, if not all fit."""
NETWORK_SWEEPS = 8
"""The number of sweeps between two checks of the traffic of sleeping processes."""
CENSUS_SWEEPS = 10
"""The number of sweeps between two censuses of a training process: half a second."""


def uneven_waits(period_s: float, seed: int | None = None) -> Iterator[float]:
    """Yield the seconds to wait before each sample, so that each period has one sample at a random moment.

    Samples at regular intervals would always find a loop with the same period in the same state. seed: the seed of the
    random numbers; None for a different sequence each time.
    """
    from random import Random  # this import takes 2 ms, and most machines do not run a job

    random, moment = Random(seed).random, 0.0
    while True:
        next_moment = random()
        yield period_s * (1 - moment + next_moment)
        moment = next_moment


class _Planned:
    """One training process that is to be sampled. partial: whether some of its workers are left out for now."""

    __slots__ = ("job", "partial", "rank", "workers")

    def __init__(self, job: ProcessKey, rank: Rank, workers: Sequence[ProcessKey], partial: bool) -> None:
        self.job = job
        self.rank = rank
        self.workers = workers
        self.partial = partial


class TaskSampler:
    """Samples the tasks of jobs on a thread. ``select`` sets the tasks; ``sweeps`` and ``tasks`` return the counts.

    ``looks`` returns the samples of each training process since the last call of ``looks``. A wait state is the state
    of a task, as in ``model.job.task_states``.
    """

    def __init__(self, root: Root, clock: Clock, *, period_s: float = PERIOD_S, most: int = MOST_TASKS) -> None:
        self._root = root
        self._clock = clock
        self._period_s = period_s
        self._most = most
        self._lock = threading.Lock()
        self._sweep_lock = threading.Lock()
        """The lock that the thread holds during a sweep.

        Each thread has its own, because an earlier one may end late. A thread ends once this is another thread's lock.
        """
        self._thread = self._new_thread()
        self._jobs: Mapping[ProcessKey, Job] | None = None
        self._tasks: dict[ProcessKey, WatchedTask] = {}
        self._watches: list[RankWatch] = []
        self._row: list[WatchedTask] = []
        """The tasks that each sweep samples, in order."""
        self._fds: list[int] = []
        """The descriptors of the wchan files of the tasks in ``_row``."""
        self._stats: list[int] = []
        self._schedstats: list[int] = []
        """The descriptors of the stat files (``_stats``) and schedstat files (``_schedstats``) of all ``_tasks``."""
        self._row_counts: dict[tuple[int | None, ...], int] = {}
        """How many sweeps found each row of wait states, since the last ``_count``. An exited task has None."""
        self._sweeps: dict[ProcessKey, list[int]] = {}
        """The fields of the SweepCounts of each job."""
        self._state_by_wchan: dict[bytes | OSError, int] = {}
        """The wait state by the raw content of wchan, if this content alone determines the wait state."""
        self._turn = 0
        self._sweep_number = 0
        """The number of sweeps so far."""
        self._cpu_ns = 0
        self._diag = SocketDiag(root, clock)
        self._memory = ProcessMemory(root)
        self._network = NetworkWatch(JobSockets(root, self._diag))
        self._main_thread_waits = MainThreadWaits(root)
        self._answering_workers: frozenset[ProcessKey] = frozenset()

    @property
    def cpu_ns(self) -> int:
        """The CPU time of the sampling thread, in nanoseconds."""
        return self._cpu_ns

    def select(self, jobs: Mapping[ProcessKey, Job]) -> None:
        """Sample the tasks of these jobs. The thread starts with the first job and ends when there are no jobs.

        Raises RuntimeError if the thread cannot start; the next call tries again.
        """
        if jobs is self._jobs and self._all_watched(jobs):
            return
        self._jobs = jobs
        plan = self._plan(jobs)
        wanted = dict.fromkeys(key for planned in plan for key in (planned.rank.key, *planned.workers))
        with self._lock:
            self._count()
            for key in [key for key in self._tasks if key not in wanted or self._tasks[key].ended]:
                self._tasks.pop(key).close()
            for key in wanted:
                if key not in self._tasks:
                    self._tasks[key] = self._open(key)
            self._sweeps = {key: self._sweeps.get(key) or [0] * len(SweepCounts._fields) for key in jobs}
            old = {watch.rank.key: watch for watch in self._watches}
            self._watches = []
            for planned in plan:
                watch = old.pop(planned.rank.key, None) or RankWatch(self._root)
                workers = [self._tasks[key] for key in planned.workers]
                watch.set(jobs[planned.job], planned.rank, self._tasks[planned.rank.key], workers, planned.partial)
                self._watches.append(watch)
            for watch in old.values():
                watch.close()
            self._answering_workers &= {key for job in jobs.values() for key in job.members}
            self._main_thread_waits.keep_only({watch.rank.key.pid for watch in self._watches})
            self._rebuild_row()
        if plan and not self._thread.started:
            self._start()
        elif not plan:
            self._end()

    def sweeps(self) -> dict[ProcessKey, SweepCounts]:
        """Return the counts of the sweeps so far, by job."""
        with self._lock:
            self._count()
            return {key: SweepCounts(*counts) for key, counts in self._sweeps.items()}

    def looks(self) -> dict[ProcessKey, LookCounts]:
        """Return the samples of each training process since the last call, by its key."""
        with self._lock:
            self._count()
            return {watch.rank.key: watch.tally.take() for watch in self._watches}

    def loading(self) -> dict[ProcessKey, Loading]:
        """Return how each watched training process gets its data, by its key."""
        with self._lock:
            return {watch.rank.key: watch.loading for watch in self._watches}

    def answering_workers(self) -> frozenset[ProcessKey]:
        """Return the workers that were found to answer requests of their trainer, as long as a job has them."""
        with self._lock:
            workers = self._answering_workers.union(*(watch.answering_workers() for watch in self._watches))
            if workers != self._answering_workers:
                self._answering_workers = workers
            return self._answering_workers

    def traffic(self) -> dict[ProcessKey, Traffic]:
        """Return the TCP traffic of each training process, by its key, including that of its workers and children.

        The traffic is measured only while a training process sleeps, so it may be old. A training process whose traffic
        is unknown is left out.
        """
        with self._lock:
            by_rank = {watch.rank.key: self._network.busiest(watch.pids()) for watch in self._watches}
        return {key: traffic for key, traffic in by_rank.items() if traffic is not None}

    def tasks(self) -> dict[ProcessKey, TaskCounts]:
        """Return the counts of the processes that are watched now, with their CPU times up to now."""
        with self._lock:
            self._count()
            schedstats, stats = read_kept(self._schedstats, SCHEDSTAT_SIZE), read_kept(self._stats, STAT_SIZE)
            for task, schedstat, stat in zip(self._tasks.values(), schedstats, stats, strict=True):
                task.store(schedstat, stat)
            return {
                key: TaskCounts._make((*task.counts, *task.times, task.rss_bytes)) for key, task in self._tasks.items()
            }

    def sweep(self) -> None:
        """Sample every watched task once."""
        with self._lock:
            if not self._row:
                return
            self._take_census()
            raws = read_kept(self._fds, WCHAN_SIZE)
            wait_states: list[int | None] = list(map(self._state_by_wchan.get, raws))
            if None in wait_states:
                self._read_unclear_states(wait_states, raws)
            for watch in self._watches:
                watch.count_sleeps(wait_states, raws)
            tasks, now = self._row, self._clock.monotonic_ns()
            due = self._main_thread_waits.due(self._watches, wait_states, now)
            checks_network = self._sweep_number % NETWORK_SWEEPS == 0
            if checks_network:
                due += self._network.due(sleepers(self._watches, wait_states))
        # A process can make the reads wait. Without the lock, only this thread waits.
        targets = {pid: wait_target(self._root, self._memory, pid, pid) for pid in dict.fromkeys(due)}
        with self._lock:
            if self._row is not tasks:
                return  # other tasks have been selected in the meantime
            self._main_thread_waits.update(self._watches, wait_states, targets, now)
            row = tuple(wait_states)
            if checks_network and (asleep := sleepers(self._watches, row)):
                self._watch_network(asleep, targets)
            self._row_counts[row] = self._row_counts.get(row, 0) + 1
            if None in wait_states:
                self._count()
                self._rebuild_row()

    def close(self) -> None:
        """End the thread and close all descriptors."""
        self._end()
        with self._lock:
            self._count()
            for watch in self._watches:
                watch.close()
            self._watches, self._jobs = [], None
            for task in self._tasks.values():
                task.close()
            self._tasks = {}
            self._rebuild_row()
            self._diag.close()
            self._memory.close()

    def _start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError:
            self._jobs = None  # so that the next selection tries again
            raise

    def _new_thread(self) -> LazyThread:
        sweep_lock = self._sweep_lock = threading.Lock()
        return LazyThread("task-states", lambda: self._run(sweep_lock))

    def _end(self) -> None:
        """Let the thread end, and wait until its last sweep is done, at most a second."""
        if self._thread.started:
            sweep_lock = self._sweep_lock
            self._thread = self._new_thread()
            if sweep_lock.acquire(timeout=1.0):
                sweep_lock.release()

    def _run(self, sweep_lock: threading.Lock) -> None:
        counted_ns = 0
        for wait_s in uneven_waits(self._period_s):
            # A sleep takes a third less CPU time than waiting for a Lock, which would let the thread end at once.
            time.sleep(wait_s)
            with sweep_lock:
                if sweep_lock is not self._sweep_lock:
                    break
                self.sweep()
            used_ns = self._clock.thread_ns()
            self._cpu_ns += used_ns - counted_ns
            counted_ns = used_ns

    def _watch_network(self, asleep: list[int], targets: Mapping[int, WaitTarget]) -> None:
        self._count()
        self._network.update(self._watches, asleep, targets, self._clock.monotonic_ns())

    def _take_census(self) -> None:
        """Choose the extra tasks again, for those training processes whose census is due in this sweep."""
        self._sweep_number += 1
        turn = self._sweep_number % CENSUS_SWEEPS
        due = self._watches[turn::CENSUS_SWEEPS]
        if not due:
            return
        self._count()
        now, changed = self._clock.monotonic_ns(), False
        for watch in due:
            changed |= watch.take_census(now, max(1, MOST_EXTRA // len(self._watches)))
        if changed:
            self._rebuild_row()

    def _all_watched(self, jobs: Mapping[ProcessKey, Job]) -> bool:
        """Whether every process of the jobs is watched and none has ended, so that no new selection is needed."""
        if any(task.ended for task in self._tasks.values()):
            return False
        return len(self._tasks) == sum(1 + len(rank.workers) for job in jobs.values() for rank in job.ranks)

    def _rebuild_row(self) -> None:
        """Put the tasks to sample into one row."""
        self._row = []
        for watch in self._watches:
            self._row += watch.tasks_to_sample(len(self._row))
        self._fds = [task.fd(WCHAN) for task in self._row]
        self._stats = [task.fd(STAT) for task in self._tasks.values()]
        self._schedstats = [task.fd(SCHEDSTAT) for task in self._tasks.values()]

    def _count(self) -> None:
        """Add ``_row_counts``, the results of the newest sweeps, to the counts of the tasks and jobs, and clear it."""
        for row, times in self._row_counts.items():
            tallies: dict[ProcessKey, list[LookTally]] = {}
            for watch in self._watches:
                wait_states = row[watch.start : watch.end]
                coarse = [
                    None if wait_state is None else COARSE[wait_state] for wait_state in wait_states[: watch.mains]
                ]
                for task, wait_state in zip(self._row[watch.start :], coarse, strict=False):
                    if wait_state is not None:
                        task.counts[wait_state] += times
                if not wait_states or wait_states[0] is None:
                    continue
                # APART: the sweeps in which another task worked on data while the main thread slept.
                self._sweeps[watch.job][APART] += watch.count(wait_states, times) * times
                tallies.setdefault(watch.job, []).append(watch.tally)
                main, *workers = (wait_state for wait_state in coarse if wait_state is not None)
                add_sweep(self._sweeps[watch.job], main, workers, watch.partial, times)
            for tallies_of_job in tallies.values():
                count_peers(tallies_of_job, times)
        self._row_counts = {}

    def _open(self, key: ProcessKey) -> WatchedTask:
        """Open a task and check that its files belong to this process, since a new process may have the PID by now."""
        task = WatchedTask(self._root, key)
        fields = fields_after_name(read_kept([task.fd(STAT)], STAT_SIZE)[0])
        if len(fields) < 20 or int(fields[19]) != key.start_ticks:
            task.close()
            task.ended = True
        return task

    def _read_unclear_states(self, wait_states: list[int | None], raws: list[bytes | OSError]) -> None:
        """Find the wait states that wchan alone does not give, from the states in stat; an ended task keeps None."""
        unclear = [i for i, wait_state in enumerate(wait_states) if wait_state is None]
        stats = read_kept([self._row[i].fd(STAT) for i in unclear], STATE_SIZE)
        for i, stat in zip(unclear, stats, strict=True):
            task, raw = self._row[i], raws[i]
            if isinstance(raw, OSError) and task.fd(WCHAN) < 0:
                raw = b""
            if isinstance(raw, OSError) or isinstance(stat, OSError):
                task.ended = True
                continue
            state = stat[stat.rfind(b")") + 2 :][:1]
            wait_state = wait_state_in(raw.strip())
            if wait_state is not None:
                wait_states[i] = self._state_by_wchan[raw] = wait_state
            elif state in (b"Z", b"X"):
                task.ended = True
            else:
                wait_states[i] = wait_state_of(state, raw.strip())

    def _plan(self, jobs: Mapping[ProcessKey, Job]) -> list[_Planned]:
        """Choose the training processes and workers to sample, at most ``_most`` tasks in all.

        Every job gets an equal share. If a job has more tasks, each training process is sampled with an equal number of
        its workers, at least ``LEAST_WORKERS``: the slowest training process decides the job's speed, and it can be any
        of them. Training processes that do not fit even so are sampled in rotation, and so are workers.
        """
        out: list[_Planned] = []
        self._turn += 1
        turn, room = self._turn // SELECTIONS_PER_ROTATION, self._most
        for i, (key, job) in enumerate(jobs.items()):
            share = room // (len(jobs) - i)
            shift = turn % max(1, len(job.ranks))
            ranks: Sequence[Rank] = (*job.ranks[shift:], *job.ranks[:shift])
            all_fit = sum(1 + len(rank.workers) for rank in ranks) <= share
            if not all_fit:
                ranks = ranks[: _watched_rank_count(job, share)]
            for j, rank in enumerate(ranks):
                fitting = share if all_fit else share // (len(ranks) - j)
                count = min(len(rank.workers), fitting - 1)
                start = turn * count % len(rank.workers) if count < len(rank.workers) else 0
                workers = (*rank.workers[start:], *rank.workers[:start])[:count]
                out.append(_Planned(key, rank, workers, count < len(rank.workers)))
                share -= 1 + count
                room -= 1 + count
        return out


def _watched_rank_count(job: Job, share: int) -> int:
    """Return how many training processes of a job are sampled at a time. share: the most tasks of the job."""
    most_workers = max((len(rank.workers) for rank in job.ranks), default=0)
    return min(len(job.ranks), max(min(share, 1), share // (1 + min(most_workers, LEAST_WORKERS))))
