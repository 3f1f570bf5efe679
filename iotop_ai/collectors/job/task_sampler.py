"""Samples the states of training jobs' tasks 20 times a second, on a thread of its own.

It reads wchan of all tasks by one ``map``: most function names give the state, so that stat need not be read. A sweep
is kept as one tuple and equal tuples are counted until the counts are read, since Python code between two sweeps runs
with cold caches. The thread runs only while there is a job; it samples at most ``MOST_TASKS`` and rotates over the
training processes where there are more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.process.descriptors import STAT_SIZE, open_kept, read_kept
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.task_states import PLACES, SweepCounts, TaskCounts, add_sweep, place_in, place_of
from iotop_ai.model.process.records import ProcessKey

PERIOD_S = 0.05
MOST_TASKS = 32
TURN = 5
"""Selections that keep the same training processes where not all fit."""
_STATE_SIZE = 128
"""Bytes of stat up to the state, after a name of at most 64."""
_WCHAN_SIZE = 64
_SCHEDSTAT_SIZE = 128
_PAGE = os.sysconf("SC_PAGE_SIZE")
_WCHAN, _STAT, _SCHEDSTAT = range(3)


class _Task:
    """One watched main thread: kept descriptors, its counts by place, and what its numbers were read from.

    times: (ns on a CPU, ns runnable without one); rss_bytes: resident memory; None where not readable.
    """

    __slots__ = ("counts", "ended", "files", "key", "rss_bytes", "seen", "times")

    def __init__(self, root: Root, key: ProcessKey) -> None:
        here = f"proc/{key.pid}/task/{key.pid}"
        names = (("wchan", _WCHAN_SIZE), ("stat", STAT_SIZE), ("schedstat", _SCHEDSTAT_SIZE))
        self.files = [open_kept(root, f"{here}/{name}", size) for name, size in names]
        self.key = key
        self.counts = [0] * PLACES
        self.ended = not isinstance(self.files[_STAT], KeptFile)
        self.seen: list[bytes | OSError] = [b"", b""]
        self.times: tuple[int | None, int | None] = (None, None)
        self.rss_bytes: int | None = None

    def fd(self, which: int) -> int:
        """A kept descriptor; -1 where the file could not be opened."""
        file = self.files[which]
        return file.fd if isinstance(file, KeptFile) else -1

    def close(self) -> None:
        for file in self.files:
            if isinstance(file, KeptFile):
                file.close()

    def store(self, schedstat: bytes | OSError, stat: bytes | OSError) -> None:
        """Store the values of these files: ``3146527 14510 27`` and field 24 of stat, in pages."""
        if schedstat != self.seen[0]:
            run, wait, *_ = [*([] if isinstance(schedstat, OSError) else schedstat.split()), b"", b""]
            self.times = _number(run), _number(wait)
        if stat != self.seen[1]:
            pages = _number((_fields_after_name(stat)[21:22] or [b""])[0])
            self.rss_bytes = None if pages is None else pages * _PAGE
        self.seen = [schedstat, stat]


class _Watch:
    """One training process and the workers that are sampled together with it.

    start, end: its part of a row, the trainer first; empty after its exit.
    """

    __slots__ = ("end", "job", "main", "partial", "start", "workers")

    def __init__(self, job: ProcessKey, main: _Task, workers: list[_Task], partial: bool) -> None:
        self.job = job
        self.main = main
        self.workers = workers
        self.partial = partial
        self.start = self.end = 0


class TaskSampler:
    """The sampling thread. ``select`` sets the tasks; ``sweeps`` and ``tasks`` return the counts so far."""

    def __init__(self, root: Root, clock: Clock, *, period_s: float = PERIOD_S, most: int = MOST_TASKS) -> None:
        self._root = root
        self._clock = clock
        self._period_s = period_s
        self._most = most
        self._lock = threading.Lock()
        self._going = threading.Lock()
        """Held while the thread runs: waiting for a Lock takes a fifth less than for an Event."""
        self._thread: threading.Thread | None = None
        self._jobs: Mapping[ProcessKey, Job] | None = None
        self._tasks: dict[ProcessKey, _Task] = {}
        self._watched: list[_Watch] = []
        self._row: list[_Task] = []
        """Tasks sampled per sweep, in order."""
        self._fds: list[int] = []
        """Their wchan."""
        self._stats: list[int] = []
        self._times: list[int] = []
        """stat and schedstat of all of ``_tasks``."""
        self._seen: dict[tuple[int | None, ...], int] = {}
        """Number of sweeps by row of states, since the last count; None for an exited task."""
        self._sweeps: dict[ProcessKey, list[int]] = {}
        self._places: dict[bytes | OSError, int] = {}
        """State by the raw content of wchan, where that suffices."""
        self._turn = 0
        self._cpu_ns = 0

    @property
    def cpu_ns(self) -> int:
        """CPU time of the sampling."""
        return self._cpu_ns

    def select(self, jobs: Mapping[ProcessKey, Job]) -> None:
        """Sample these jobs. The thread starts with the first job and ends without any."""
        if jobs is self._jobs and self._all_watched(jobs):
            return
        self._jobs = jobs
        plan = self._plan(jobs)
        wanted = dict.fromkeys(key for _, main, workers, _ in plan for key in (main, *workers))
        with self._lock:
            self._count()
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
            self._lay()
        if plan and self._thread is None:
            self._going.acquire()
            self._thread = threading.Thread(target=self._run, name="task-states", daemon=True)
            self._thread.start()
        elif not plan and self._thread is not None:
            self._end()

    def sweeps(self) -> dict[ProcessKey, SweepCounts]:
        """The joint counts by job."""
        with self._lock:
            self._count()
            return {key: SweepCounts(*counts) for key, counts in self._sweeps.items()}

    def tasks(self) -> dict[ProcessKey, TaskCounts]:
        """The counts of the processes that are watched now, with their CPU times of this moment."""
        with self._lock:
            self._count()
            times, stats = read_kept(self._times, _SCHEDSTAT_SIZE), read_kept(self._stats, STAT_SIZE)
            for task, schedstat, stat in zip(self._tasks.values(), times, stats, strict=True):
                task.store(schedstat, stat)
            return {
                key: TaskCounts._make((*task.counts, *task.times, task.rss_bytes)) for key, task in self._tasks.items()
            }

    def sweep(self) -> None:
        """Look at every watched task once."""
        with self._lock:
            if not self._row:
                return
            raws = read_kept(self._fds, _WCHAN_SIZE)
            places: list[int | None] = list(map(self._places.get, raws))
            if None in places:
                self._ask(places, raws)
            seen = tuple(places)
            self._seen[seen] = self._seen.get(seen, 0) + 1
            if None in places:
                self._count()
                self._lay()

    def close(self) -> None:
        """End the thread and give the descriptors back."""
        self._end()
        with self._lock:
            self._count()
            self._watched, self._jobs = [], None
            for task in self._tasks.values():
                task.close()
            self._tasks = {}
            self._lay()

    def _end(self) -> None:
        if self._thread is not None:
            self._going.release()
            self._thread.join(1.0)
            self._thread = None

    def _run(self) -> None:
        earlier = self._cpu_ns
        while not self._going.acquire(timeout=self._period_s):
            self.sweep()
            self._cpu_ns = earlier + self._clock.thread_ns()
        self._going.release()

    def _all_watched(self, jobs: Mapping[ProcessKey, Job]) -> bool:
        """Whether nobody waits for a turn and nobody has ended."""
        if any(task.ended for task in self._tasks.values()):
            return False
        return len(self._tasks) == sum(1 + len(rank.workers) for job in jobs.values() for rank in job.ranks)

    def _lay(self) -> None:
        """Put those who are looked at into a row."""
        self._row = []
        for watch in self._watched:
            watch.start = len(self._row)
            if not watch.main.ended:
                self._row += [watch.main, *(task for task in watch.workers if not task.ended)]
            watch.end = len(self._row)
        self._fds = [task.fd(_WCHAN) for task in self._row]
        self._stats = [task.fd(_STAT) for task in self._tasks.values()]
        self._times = [task.fd(_SCHEDSTAT) for task in self._tasks.values()]

    def _count(self) -> None:
        """Add what the sweeps saw to the counts."""
        for seen, times in self._seen.items():
            for task, place in zip(self._row, seen, strict=True):
                if place is not None:
                    task.counts[place] += times
            for watch in self._watched:
                main = seen[watch.start] if watch.end > watch.start else None
                if main is not None:
                    workers = [place for place in seen[watch.start + 1 : watch.end] if place is not None]
                    add_sweep(self._sweeps[watch.job], main, workers, watch.partial, times)
        self._seen = {}

    def _open(self, key: ProcessKey) -> _Task:
        """A task whose files belong to the process meant: a pid may have a new owner by now."""
        task = _Task(self._root, key)
        fields = _fields_after_name(read_kept([task.fd(_STAT)], STAT_SIZE)[0])
        if len(fields) < 20 or int(fields[19]) != key.start_ticks:
            task.close()
            task.ended = True
        return task

    def _ask(self, places: list[int | None], raws: list[bytes | OSError]) -> None:
        """Find the places that wchan alone does not tell by their states; None stays that of a task that ended."""
        asked = [i for i, place in enumerate(places) if place is None]
        stats = read_kept([self._row[i].fd(_STAT) for i in asked], _STATE_SIZE)
        for i, stat in zip(asked, stats, strict=True):
            task, raw = self._row[i], raws[i]
            if isinstance(raw, OSError) and task.fd(_WCHAN) < 0:
                raw = b""
            if isinstance(raw, OSError) or isinstance(stat, OSError):
                task.ended = True
                continue
            state = stat[stat.rfind(b")") + 2 :][:1]
            known = place_in(raw.strip())
            if known is not None:
                places[i] = self._places[raw] = known
            elif state in (b"Z", b"X"):
                task.ended = True
            else:
                places[i] = place_of(state, raw.strip())

    def _plan(self, jobs: Mapping[ProcessKey, Job]) -> list[tuple[ProcessKey, ProcessKey, Sequence[ProcessKey], bool]]:
        """(job, trainer, workers, whether workers are left out), in all at most ``most`` tasks.

        Every job gets an equal share; training processes that do not fit take turns.
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
                count = min(need, share)
                if count < 1:
                    break
                out.append((key, rank.key, rank.workers[: count - 1], count < need))
                share -= count
                room -= count
        return out


def _fields_after_name(stat: bytes | OSError) -> list[bytes]:
    """The fields of stat from the third on; [] when it could not be read."""
    return [] if isinstance(stat, OSError) else stat[stat.rfind(b")") + 1 :].split()


def _number(field: bytes) -> int | None:
    return int(field) if field.isdigit() else None
