"""Looks at the tasks of training jobs 20 times a second, on a thread of its own, and counts where they are.

wchan is read first: a name of a queue or a socket says that the task sleeps there, so that its state need not be read.
The thread runs only while there is a job. Cost: about 6 µs a look (docs/cost.md); at most ``MOST_TASKS`` are looked at,
taking turns over the training processes where there are more.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping, Sequence

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.process_slot import keep
from iotop_ai.collectors.root import KeptFile, Root
from iotop_ai.model.job import Job
from iotop_ai.model.process import ProcessKey
from iotop_ai.model.taskstate import PLACES, SweepCounts, TaskCounts, add_sweep, place_in, place_of

PERIOD_S = 0.05
MOST_TASKS = 32
TURN = 5
"""Selections for which the same training processes are watched, where not all can be."""
_STAT_SIZE = 1024
_WCHAN_SIZE = 64
_SCHEDSTAT_SIZE = 128
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Task:
    """One watched main thread: kept descriptors, counts by place, and what its last wchan meant."""

    __slots__ = ("counts", "ended", "key", "schedstat", "stat", "wchan")

    def __init__(self, root: Root, key: ProcessKey) -> None:
        here = f"proc/{key.pid}/task/{key.pid}"
        stat, wchan = keep(root, f"{here}/stat", _STAT_SIZE), keep(root, f"{here}/wchan", _WCHAN_SIZE)
        schedstat = keep(root, f"{here}/schedstat", _SCHEDSTAT_SIZE)
        self.key = key
        self.stat = stat if isinstance(stat, KeptFile) else None
        self.wchan = wchan if isinstance(wchan, KeptFile) else None
        self.schedstat = schedstat if isinstance(schedstat, KeptFile) else None
        self.counts = [0] * PLACES
        self.ended = self.stat is None

    def close(self) -> None:
        for file in (self.stat, self.wchan, self.schedstat):
            if file is not None:
                file.close()
        self.stat = self.wchan = self.schedstat = None

    def rss_bytes(self) -> int | None:
        """Resident memory: field 24 of stat, in pages."""
        fields = b"" if self.stat is None else _read(self.stat)
        after = fields[fields.rfind(b")") + 1 :].split()
        return int(after[21]) * _PAGE if len(after) > 21 else None

    def times(self) -> tuple[int | None, int | None]:
        """(ns on a CPU, ns runnable without one): ``3146527 14510 27`` of /proc/PID/task/TID/schedstat."""
        if self.schedstat is None:
            return None, None
        try:
            fields = self.schedstat.read().split()
            return int(fields[0]), int(fields[1])
        except (OSError, ValueError, IndexError):
            return None, None


class _Watch:
    """One training process with the workers that are looked at together with it."""

    __slots__ = ("job", "main", "partial", "workers")

    def __init__(self, job: ProcessKey, main: _Task, workers: list[_Task], partial: bool) -> None:
        self.job = job
        self.main = main
        self.workers = workers
        self.partial = partial


class TaskSampler:
    """The looking thread. ``select`` says whom to watch, ``sweeps`` and ``tasks`` give the counts so far."""

    def __init__(self, root: Root, clock: Clock, *, period_s: float = PERIOD_S, most: int = MOST_TASKS) -> None:
        self._root = root
        self._clock = clock
        self._period_s = period_s
        self._most = most
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._tasks: dict[ProcessKey, _Task] = {}
        self._watched: list[_Watch] = []
        self._sweeps: dict[ProcessKey, list[int]] = {}
        self._places: dict[bytes, int | None] = {}
        self._turn = 0
        self._cpu_ns = 0

    @property
    def cpu_ns(self) -> int:
        """CPU time that looking has used."""
        return self._cpu_ns

    def select(self, jobs: Mapping[ProcessKey, Job]) -> None:
        """Watch these jobs. Starts the thread with the first job; without any it ends."""
        plan = self._plan(jobs)
        wanted = dict.fromkeys(key for _, main, workers, _ in plan for key in (main, *workers))
        with self._lock:
            for key in [key for key in self._tasks if key not in wanted or self._tasks[key].ended]:
                self._tasks.pop(key).close()
            for key in wanted:
                if key not in self._tasks:
                    self._tasks[key] = self._open(key)
            self._sweeps = {key: self._sweeps.get(key) or [0] * len(SweepCounts._fields) for key in jobs}
            self._watched = [
                _Watch(job, self._tasks[main], [self._tasks[key] for key in workers], partial)
                for job, main, workers, partial in plan
            ]
        if plan and self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="task-states", daemon=True)
            self._thread.start()
        elif not plan and self._thread is not None:
            self._end()

    def sweeps(self) -> dict[ProcessKey, SweepCounts]:
        """The joint counts by job."""
        with self._lock:
            return {key: SweepCounts(*counts) for key, counts in self._sweeps.items()}

    def tasks(self) -> dict[ProcessKey, TaskCounts]:
        """The counts of the processes that are watched now, with their CPU times of this moment."""
        with self._lock:
            out = {}
            for key, task in self._tasks.items():
                run_ns, wait_ns = task.times()
                out[key] = TaskCounts(*task.counts)._replace(run_ns=run_ns, wait_ns=wait_ns, rss_bytes=task.rss_bytes())
            return out

    def sweep(self) -> None:
        """Look at every watched task once."""
        with self._lock:
            for watch in self._watched:
                if watch.main.ended:
                    continue
                main = self._look(watch.main)
                workers = [self._look(task) for task in watch.workers if not task.ended]
                if main is not None:
                    seen = [place for place in workers if place is not None]
                    add_sweep(self._sweeps[watch.job], main, seen, watch.partial)

    def close(self) -> None:
        """End the thread and give the descriptors back."""
        self._end()
        with self._lock:
            self._watched = []
            for task in self._tasks.values():
                task.close()
            self._tasks = {}

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)
            self._thread = None

    def _run(self) -> None:
        earlier = self._cpu_ns
        while not self._stop.wait(self._period_s):
            self.sweep()
            self._cpu_ns = earlier + self._clock.thread_ns()

    def _open(self, key: ProcessKey) -> _Task:
        """A task whose files belong to the process meant: a pid may have a new owner by now."""
        task = _Task(self._root, key)
        raw = b"" if task.stat is None else _read(task.stat)
        fields = raw[raw.rfind(b")") + 1 :].split()
        if len(fields) < 20 or int(fields[19]) != key.start_ticks:
            task.close()
            task.ended = True
        return task

    def _look(self, task: _Task) -> int | None:
        """The task's place, counted; None when it has ended."""
        stat, wchan = task.stat, task.wchan
        if stat is None:
            return None
        try:
            where = os.pread(wchan.fd, _WCHAN_SIZE, 0) if wchan is not None else b""
            place = self._places.get(where, -1)
            if place == -1:
                place = self._places[where] = place_in(where.strip())
            if place is None:
                raw = os.pread(stat.fd, _STAT_SIZE, 0)
                after = raw.rfind(b")") + 2
                if raw[after : after + 1] in (b"Z", b"X"):
                    task.ended = True
                    return None
                place = place_of(raw[after : after + 1], where.strip())
        except OSError:
            task.ended = True
            return None
        task.counts[place] += 1
        return place

    def _plan(self, jobs: Mapping[ProcessKey, Job]) -> list[tuple[ProcessKey, ProcessKey, Sequence[ProcessKey], bool]]:
        """(job, trainer, workers, whether workers are left out), in all at most ``most`` tasks.

        Every job gets its share; where a job has more training processes than fit, they take turns.
        """
        out: list[tuple[ProcessKey, ProcessKey, Sequence[ProcessKey], bool]] = []
        self._turn += 1
        room = self._most
        for i, (key, job) in enumerate(jobs.items()):
            share = room // (len(jobs) - i)
            shift = self._turn // TURN % max(1, len(job.ranks))
            for j, rank in enumerate((*job.ranks[shift:], *job.ranks[:shift])):
                need = 1 + len(rank.workers)
                if need > share and j:
                    break
                taken = min(need, share)
                if taken < 1:
                    break
                out.append((key, rank.key, rank.workers[: taken - 1], taken < need))
                share -= taken
                room -= taken
        return out


def _read(file: KeptFile) -> bytes:
    with contextlib.suppress(OSError):
        return file.read()
    return b""
