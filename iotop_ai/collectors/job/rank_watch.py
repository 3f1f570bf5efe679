"""A training process (rank, trainer), the tasks that are sampled together with it, and the counts of these samples.

A sweep samples every watched task once (task_sampler.py). A census chooses the threads and child processes that are
sampled besides the main threads (task_census.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.task_census import Census, ThreadCensus, children_of, newest_pid, start_ticks
from iotop_ai.collectors.job.watched_task import STAT, WatchedTask, fields_after_name
from iotop_ai.collectors.process.descriptors import STAT_SIZE, read_kept
from iotop_ai.model.job.looks import Loading, Look, LookTally
from iotop_ai.model.job.records import LOADER, Job, Rank
from iotop_ai.model.job.task_states import DISK, FUTEX, NET, OTHER, QUEUE, RUNNING, STOPPED
from iotop_ai.model.process.records import ProcessKey

NO_RANK = Rank(ProcessKey(0, 0))
LISTED_AGAIN_NS = 2_000_000_000
"""All workers are listed again after this time at the latest, even if no process or thread seems to have started.

Inside a container, lxcfs may show the newest PID up to 5 s late.
"""
MOST_WORKERS = 16
"""The most workers whose threads and children are listed in one census. The next census lists other workers."""
RECENT_SAMPLES = 200
"""The number of samples over which the work of child processes is averaged."""
LEAST_CHILDREN_WORK = 0.05
"""The least share of recent samples in which child processes work, for them to count as loaders.

Other children, such as a resource tracker, are mostly idle.
"""
_WORKING_STATES = frozenset((DISK, RUNNING, NET))
"""The wait states of a task that is producing data."""
_ASLEEP = frozenset((QUEUE, NET, FUTEX))
_TWO_WAY = (b"unix_stream_read_generic", b"unix_stream_data_wait")
"""Kernel functions in which a reader of a multiprocessing.Pipe(), a pair of sockets, sleeps (net/unix/af_unix.c)."""
LEAST_PAIR_SLEEPS, MOST_SLEEPS = 5, 100
"""How often a worker must be found asleep at a pair of sockets to count as one that answers requests.

MOST_SLEEPS: the most samples of a worker that are counted for this decision.
"""


class RankWatch:
    """One training process's part of the row of tasks that a sweep samples.

    The part begins with the main thread of the training process; the main threads of its workers and then the extra
    tasks follow. start, end: the limits of the part in the row; the part is empty after the trainer's exit. mains: the
    number of main threads at the beginning of the part. A wait state is the state of a task, as in
    ``model.job.task_states``.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self.rank = NO_RANK
        self.job = NO_RANK.key
        self.partial = False
        """Whether some workers of the training process are not sampled for now."""
        self.has_peers = False
        """Whether the job has other training processes, on this machine or on others."""
        self.on_gpu = False
        """Whether the job uses a GPU that we know of."""
        self.start = self.end = self.mains = 0
        self.tally = LookTally()
        self._main: WatchedTask | None = None
        self._workers: list[WatchedTask] = []
        self._members: frozenset[int] = frozenset()
        """The PIDs of the processes of the job."""
        self._named = False
        """Whether the workers are recognised as loaders by their name."""
        self._children_work = 0.0
        """The share of recent samples in which a child process was producing data."""
        self._sleeps: dict[ProcessKey, tuple[int, int]] = {}
        """(samples asleep at a pair of sockets, samples asleep in other functions) of each worker."""
        self._uncounted: set[ProcessKey] = set()
        """The workers whose sleeps are still to be counted."""
        self._extra: dict[tuple[int, int], WatchedTask] = {}
        """The extra tasks, which are further threads and children, by (PID, thread ID)."""
        self._censuses: dict[ProcessKey, ThreadCensus] = {}
        self._census = Census()
        self._turn = 0
        """The index, in ``_workers``, of the worker that is listed next."""
        self._unlisted = 0
        """The number of workers that are to be listed, from ``_turn`` on."""
        self._newest_pid: bytes | None = None
        """The PID of the machine's newest process or thread when ``_unlisted`` was last set, at ``_listed_ns``."""
        self._listed_ns = 0
        self._with_threads: set[int] = set()
        """The PIDs of the workers that had several threads when they were last listed."""
        self._children: dict[int, list[int]] = {}
        """The children of each worker, with their descendants, by the worker's PID, as they were last listed."""
        self._order: list[WatchedTask] = []
        """The tasks of this part of the row, in order."""
        self.row_pids: list[int] = []
        """The PID of each task in this part of the row, in order."""
        self.receiving: frozenset[int] = frozenset()
        """PIDs of the processes that wait for the network or whose sockets have just received bytes."""
        self.connected_within_job: frozenset[int] = frozenset()
        """PIDs of the processes whose recent TCP connections all count in ``Traffic.near``: they carry no data from
        outside the job."""
        self.main_gets_data = True
        """Whether the trainer's own sockets lately received as much as data takes; True when that is unknown."""

    def set(self, job: Job, rank: Rank, main: WatchedTask, workers: list[WatchedTask], partial: bool) -> None:
        """Set the newest facts about the training process."""
        self.rank, self.job, self.partial = rank, job.key, partial
        self.has_peers = bool(job.group) or len(job.ranks) > 1
        self.on_gpu = bool(job.gpus)
        self._main, self._workers = main, workers
        self._members = frozenset(key.pid for key in job.members)
        self._sleeps = {key: sleeps for key, sleeps in self._sleeps.items() if key in job.members}
        self._named = rank.worker_kind == LOADER
        self._uncounted = {
            task.key for task in workers if not self._named and sum(self._sleeps.get(task.key, (0, 0))) < MOST_SLEEPS
        }
        pids = {task.key.pid for task in workers}
        self._with_threads &= pids
        self._children = {pid: children for pid, children in self._children.items() if pid in pids}
        self._unlisted = len(workers)

    @property
    def loading(self) -> Loading:
        """How the training process gets its data, judged by its processes."""
        if self._named:
            return Loading.NAMED
        others = bool(self._workers) or self._children_work >= LEAST_CHILDREN_WORK
        return Loading.OTHERS if others else Loading.ITSELF

    def pids(self) -> list[int]:
        """Return the PIDs of the processes that are sampled."""
        return list(dict.fromkeys((self.rank.key.pid, *self.row_pids)))

    def main_pids(self) -> list[int]:
        """Return the PID of each main thread in this part of the row, in order."""
        return self.row_pids[: self.mains]

    def count_sleeps(self, wait_states: Sequence[int | None], raws: Sequence[bytes | OSError]) -> None:
        """Count in which kernel functions the workers sleep, unless the workers are recognised by their name.

        wait_states, raws: the wait state and the raw content of wchan of each task in the whole row.
        """
        if not self._uncounted:
            return
        workers_start = self.start + 1
        for task, wait_state, raw in zip(
            self._order[1 : self.mains], wait_states[workers_start:], raws[workers_start:], strict=False
        ):
            if wait_state in _ASLEEP and task.key in self._uncounted and not isinstance(raw, OSError):
                at_pair, elsewhere = self._sleeps.get(task.key, (0, 0))
                two_way = raw.startswith(_TWO_WAY)
                self._sleeps[task.key] = at_pair + two_way, elsewhere + (not two_way)
                if at_pair + elsewhere + 1 == MOST_SLEEPS:
                    self._uncounted.discard(task.key)

    def answering_workers(self) -> frozenset[ProcessKey]:
        """Return the workers that mostly sleep until the trainer's next request, as simulated environments in RL do."""
        return frozenset(
            key
            for key, (at_pair, elsewhere) in self._sleeps.items()
            if at_pair >= LEAST_PAIR_SLEEPS and at_pair > elsewhere
        )

    def take_census(self, now_ns: int, most: int) -> bool:
        """Choose at most ``most`` threads and children to sample; return whether the choice or the census changed."""
        if self._main is None or self._main.ended:
            return False
        census = self._census_of(self.rank.key).update(now_ns)
        own_threads = [(self.rank.key.pid, tid) for tid in (census.pin, *census.threads) if tid]
        # The children of the workers are listed with the workers.
        children = self._census_of(self.rank.key).children(census.threads, {task.key.pid for task in self._workers})
        worker_threads: list[tuple[int, int]] = []
        for task in self._workers_to_list(now_ns):
            threads = self._list_worker(task, now_ns, max(1, most // 4))
            worker_threads += [(task.key.pid, tid) for tid in threads]
        children += [pid for pids in self._children.values() for pid in pids]
        child_tasks = [(pid, pid) for pid in dict.fromkeys(children) if pid not in self._members]
        # Keep room for some children beside a large thread pool: all tasks may be waiting for one of the children.
        first_children, first_own = child_tasks[: most // 4], own_threads[: max(1, most // 2)]
        others = (*worker_threads, *child_tasks[len(first_children) :], *own_threads[len(first_own) :])
        return self._choose([*first_own, *first_children, *others][:most], census)

    def _workers_to_list(self, now_ns: int) -> list[WatchedTask]:
        """Return the workers whose threads and children this census lists.

        A worker with one thread is listed again only when a process or thread has started somewhere since the last
        census, because its children cannot have changed otherwise.
        """
        pid = newest_pid(self._root)
        is_old = now_ns - self._listed_ns >= LISTED_AGAIN_NS
        if pid is None or pid != self._newest_pid or self._with_threads or is_old:
            self._newest_pid, self._listed_ns, self._unlisted = pid, now_ns, len(self._workers)
        count = min(self._unlisted, MOST_WORKERS)
        start = self._turn % len(self._workers) if self._workers else 0
        self._turn = start + count
        self._unlisted -= count
        return [*self._workers[start:], *self._workers[:start]][:count]

    def _list_worker(self, task: WatchedTask, now_ns: int, most: int) -> Sequence[int]:
        """List the threads and children of a worker; return the IDs of its active threads, at most ``most``."""
        raw = read_kept([task.fd(STAT)], STAT_SIZE)[0]
        pid = task.key.pid
        # Field 20 of stat is the number of threads. A process with one thread needs no census.
        if (fields_after_name(raw)[17:18] or [b"1"])[0] == b"1":
            self._with_threads.discard(pid)
            self._children[pid] = children_of(self._root, pid)
            return ()
        self._with_threads.add(pid)
        census = self._census_of(task.key)
        threads = census.update(now_ns).threads[:most]
        self._children[pid] = census.children(threads)
        return threads

    def tasks_to_sample(self, start: int) -> list[WatchedTask]:
        """Return the tasks of this part of the row in order. start: the position in the row where the part begins."""
        if self._main is None or self._main.ended:
            self._order = []
        else:
            mains = [self._main, *(task for task in self._workers if not task.ended)]
            self.mains = len(mains)
            self._order = mains + [task for task in self._extra.values() if not task.ended]
        self.row_pids = [task.key.pid for task in self._order]
        self.start, self.end = start, start + len(self._order)
        return self._order

    def count(self, wait_states: Sequence[int | None], times: int) -> bool:
        """Count a sample that occurred ``times`` times.

        Returns whether another task worked on data while the main thread slept. wait_states: the wait states of the
        tasks in this part of the row; None for a task that has ended.
        """
        main, own_pid = wait_states[0], self.rank.key.pid
        if main is None:
            return False
        if main == NET and own_pid in self.connected_within_job:
            # The main thread waits for another rank, or for loaders that send batches by TCP. PyTorch's loaders do not
            # use TCP.
            main = OTHER if self._named or self.has_peers else QUEUE
        elif main == NET and not self.main_gets_data:
            main = OTHER  # it waits for an answer or sends something, and no data comes
        pin: int | None = None
        threads: list[int] = []
        autograd = False
        by_pid: dict[int, list[int]] = {}
        for task, wait_state in zip(self._order[1:], wait_states[1:], strict=True):
            if wait_state is None:
                continue
            if wait_state == NET and task.key.pid in self.connected_within_job:
                wait_state = QUEUE
            if task.key.pid != own_pid:
                by_pid.setdefault(task.key.pid, []).append(wait_state)
            elif task.tid == self._census.pin:
                pin = wait_state
            elif task.tid in self._census.autograd:
                autograd = autograd or wait_state == RUNNING
            else:
                threads.append(wait_state)
        processes = [(tuple(states), pid in self.receiving) for pid, states in by_pid.items() if states[0] != STOPPED]
        works = any(receives or not _WORKING_STATES.isdisjoint(states) for states, receives in processes)
        self._children_work += (works - self._children_work) * min(1.0, times / RECENT_SAMPLES)
        look = Look(main, pin, threads, autograd, processes, own_pid in self.receiving)
        return self.tally.add(look, self.loading, times)

    def close(self) -> None:
        """Close the files that this watch opened itself."""
        for census in self._censuses.values():
            census.close()
        for task in self._extra.values():
            task.close()
        self._censuses, self._extra, self._order, self.row_pids = {}, {}, [], []

    def _census_of(self, key: ProcessKey) -> ThreadCensus:
        census = self._censuses.get(key)
        if census is None:
            census = self._censuses[key] = ThreadCensus(self._root, key)
        return census

    def _choose(self, wanted: list[tuple[int, int]], census: Census) -> bool:
        """Sample these extra tasks, given as (PID, thread ID), and no others; return as ``take_census`` does."""
        changed = census != self._census
        self._census = census
        for key in [key for key, task in self._extra.items() if key not in wanted or task.ended]:
            self._extra.pop(key).close()
            changed = True
        watched = {self.rank.key, *(task.key for task in self._workers)}
        for process in [process for process in self._censuses if process not in watched]:
            self._censuses.pop(process).close()
        for pid, tid in wanted:
            if (pid, tid) in self._extra:
                continue
            start = start_ticks(self._root, pid)
            if start is None:
                continue
            task = WatchedTask(self._root, ProcessKey(pid, start), tid)
            if task.ended:
                task.close()
            else:
                self._extra[pid, tid] = task
                changed = True
        return changed
