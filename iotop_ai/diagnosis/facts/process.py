"""The facts of processes over a window, and groups of processes by name and user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter

from iotop_ai.diagnosis.facts.fold_cache import FoldCache
from iotop_ai.diagnosis.facts.process_columns import CPU, DELAY, READ, STATE_D, WRITE, WindowTotals, window_totals
from iotop_ai.diagnosis.facts.window import Window, mean
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.process.records import ProcessKey, ProcessTable

LOADER_NAMES = ("pt_data_worker", "pt_multiprocess", "pt_thread_data_")
"""The names that PyTorch gives to DataLoader workers, cut to the 15 characters of comm."""
_DELAY_SEEN = 0.05
"""Delay accounting replaces the samples in state D if it shows a blocked share of at least this."""
_FEW = 8
"""Above this number of tasks, the means of all processes are computed together, which is then faster."""
_NAME_AND_UID = attrgetter("name", "uid")


class TaskFacts(NamedTuple):
    """One process over a window. Ratios are means, and None when unknown.

    blocked_ratio: the share of time blocked, from delay accounting if that shows a delay, else from the samples in
    state D.
    cpu_ratio: the CPU use; 1.0 is one core.
    """

    key: ProcessKey
    name: str
    uid: int
    ppid: int
    threads: int
    blocked_ratio: float
    cpu_ratio: float | None
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None

    @property
    def is_loader(self) -> bool:
        """Whether the process has the name of a DataLoader worker."""
        return self.name.startswith(LOADER_NAMES)


class Group(NamedTuple):
    """Processes of one name and user that behave alike."""

    name: str
    pid: int
    """The pid of one of the processes."""
    alike_count: int
    """The number of processes that behave alike."""
    name_count: int
    """The number of all processes of that name and user."""
    blocked_ratio: float
    """The mean ``blocked_ratio`` of these processes."""
    cpu_ratio: float | None
    """The mean CPU use of one process; 1.0 is one core."""
    read_bytes_per_s: float | None
    """The sum over these processes; None if it is unknown for each of them."""
    write_bytes_per_s: float | None
    """The sum over these processes; None if it is unknown for each of them."""


_Row = tuple[float, float, float, float]
"""The means of one process: the blocked share, CPU use, and bytes read and written per second."""


class _Means:
    """The means of each process over a window, in the order of ``WindowTotals.keys``. An unknown figure counts as 0."""

    def __init__(self, sums: WindowTotals) -> None:
        self._sums = sums
        self._count = sums.sample_count or 1

    @cached_property
    def blocked(self) -> list[float]:
        delays, in_state_d, count = self._sums.column(DELAY), self._sums.column(STATE_D), self._count
        # ``_blocked`` is written inline, because a call per process is too slow.
        return [
            min(1.0, d) if (d := delay / count) >= _DELAY_SEEN else in_d / count
            for delay, in_d in zip(delays[:-1], in_state_d, strict=False)
        ]

    @cached_property
    def cpu(self) -> list[float]:
        return self._mean(CPU)

    @cached_property
    def read(self) -> list[float]:
        return self._mean(READ)

    @cached_property
    def write(self) -> list[float]:
        return self._mean(WRITE)

    @cached_property
    def rows(self) -> list[_Row]:
        """The means of every process."""
        return [*zip(self.blocked, self.cpu, self.read, self.write, strict=True)]

    def of(self, i: int) -> _Row:
        """The means of the process at index ``i``; cheaper than ``rows`` for a few processes."""
        of, count = self._sums.of, self._count
        blocked = _blocked(of(DELAY, i) / count, of(STATE_D, i) / count)
        return blocked, of(CPU, i) / count, of(READ, i) / count, of(WRITE, i) / count

    def _mean(self, number: int) -> list[float]:
        count = self._count
        return [summed / count for summed in self._sums.column(number)[:-1]]


def _blocked(delay: float, in_d: float) -> float:
    # Delay accounting is exact but covers block devices only. Where it shows no delay, the samples in state D decide.
    return min(1.0, delay) if delay >= _DELAY_SEEN else in_d


class Tasks:
    """Every living process that did or waited for something in a window.

    Kernel threads and the monitor's own processes are excluded. TaskFacts are made on demand, because most rules need
    only a few. only: the pids to include; None for all.
    """

    def __init__(
        self,
        table: ProcessTable | None,
        window: Window,
        own_pid: int,
        *,
        cache: FoldCache | None = None,
        only: frozenset[int] | None = None,
    ) -> None:
        self._table = table
        self._selected: dict[tuple[str, float], tuple[TaskFacts, ...]] = {}
        self._made: dict[int, TaskFacts | None] = {}
        """For each index in ``WindowTotals.keys`` that was asked for, the task; None if it is excluded."""
        self._groups: dict[float, tuple[Group, ...]] = {}
        if table is None:
            return
        cache = cache or FoldCache()
        keys = None
        if only is not None:
            tree = cache.process_trees.of(table)
            keys = [tree.keys[pid] for pid in sorted(only) if pid in tree.keys]
        self._sums = window_totals(window, cache.process_columns, keys)
        self._means = _Means(self._sums)
        self._rows: list[_Row] = []
        self._own_pids = cache.monitor_pids.of(table, own_pid)

    def all(self) -> tuple[TaskFacts, ...]:
        """All tasks."""
        return self._select("all", 0.0, lambda: range(len(self._sums.keys)))

    def blocked(self, least: float) -> tuple[TaskFacts, ...]:
        """The tasks that are blocked for at least the share ``least`` of the time; ``least`` must be above 0."""
        return self._select("blocked", least, lambda: self._where_blocked(least))

    def busy(self, least: float) -> tuple[TaskFacts, ...]:
        """The tasks that use at least ``least`` cores; ``least`` must be above 0."""
        if self._table is None:
            return ()
        if self._sums.no_cpu:
            return tuple(task for task in self.all() if (task.cpu_ratio or 0.0) >= least)
        return self._select("busy", least, lambda: [i for i, cpu in enumerate(self._means.cpu) if cpu >= least])

    def busiest(self) -> TaskFacts | None:
        """The process with the highest known CPU use; None if there is none."""
        if self._table is None:
            return None
        if self._sums.no_cpu:
            known = [task for task in self.all() if task.cpu_ratio is not None]
            return max(known, key=lambda task: task.cpu_ratio or 0.0, default=None)
        cpu, indices = self._sums.column(CPU), range(len(self._sums.keys))
        most = next(self._tasks_at([max(indices, key=cpu.__getitem__)] if indices else ()), None)
        # The busiest process is rarely excluded, so sorting them all is rarely needed.
        return most or next(self._tasks_at(sorted(indices, key=cpu.__getitem__, reverse=True)), None)

    def blocked_groups(self, least: float) -> tuple[Group, ...]:
        """The tasks that ``blocked`` returns, in groups as ``group_tasks`` makes them."""
        table = self._table
        if table is None:
            return ()
        if least not in self._groups:
            unknown = bool(table.denied or self._sums.no_io or self._sums.no_cpu)
            groups = (
                group_tasks(self.blocked(least), table) if unknown else self._group_indices(self._where_blocked(least))
            )
            self._groups[least] = groups
        return self._groups[least]

    def loaders(self) -> tuple[TaskFacts, ...]:
        """The tasks with the name of a DataLoader worker."""
        info = {} if self._table is None else self._table.info
        return self._select(
            "loaders",
            0.0,
            lambda: [
                i for i, key in enumerate(self._sums.keys) if key in info and info[key].name.startswith(LOADER_NAMES)
            ],
        )

    def _group_indices(self, indices: Iterable[int]) -> tuple[Group, ...]:
        """The result of ``group_tasks`` for tasks whose figures are all known, without making a TaskFacts for each."""
        table, keys, own_pids, means = self._table, self._sums.keys, self._own_pids, self._means
        assert table is not None
        blocked, cpu, read, write = means.blocked, means.cpu, means.read, means.write
        by_group: dict[tuple[str, int], list[int]] = {}
        for i in indices:
            key = keys[i]
            info = table.info.get(key)
            if info is not None and not info.kernel and key.pid not in own_pids and key in table.stat:
                by_group.setdefault((info.name, info.uid), []).append(i)
        alive = _alive(table) if by_group else {}
        return _in_order(
            Group(
                name,
                keys[alike[0]].pid,
                len(alike),
                max(len(alike), alive.get((name, uid), 0)),
                mean([blocked[i] for i in alike]) or 0.0,
                mean([cpu[i] for i in alike]),
                sum([read[i] for i in alike]),
                sum([write[i] for i in alike]),
            )
            for (name, uid), alike in by_group.items()
        )

    def _select(self, selection: str, least: float, indices: Callable[[], Iterable[int]]) -> tuple[TaskFacts, ...]:
        """The tasks at the indices that ``indices`` returns. The result is kept by ``selection`` and ``least``."""
        if self._table is None:
            return ()
        tasks = self._selected.get((selection, least))
        if tasks is None:
            selected = [*indices()]
            if len(selected) > _FEW:
                self._rows = self._means.rows
            tasks = self._selected[selection, least] = tuple(self._tasks_at(selected))
        return tasks

    def _where_blocked(self, least: float) -> list[int]:
        return [i for i, blocked in enumerate(self._means.blocked) if blocked >= least]

    def _tasks_at(self, indices: Iterable[int]) -> Iterator[TaskFacts]:
        """The tasks at these indices, in this order; kernel threads and the monitor's processes are excluded."""
        made = self._made
        for i in indices:
            if i not in made:
                made[i] = self._task(i)
            task = made[i]
            if task is not None:
                yield task

    def _task(self, i: int) -> TaskFacts | None:
        table, sums = self._table, self._sums
        assert table is not None
        key = sums.keys[i]
        stat, info = table.stat.get(key), table.info.get(key)
        if stat is None or info is None or info.kernel or key.pid in self._own_pids:
            return None
        cpu: float | None
        read: float | None
        write: float | None
        blocked, cpu, read, write = self._rows[i] if self._rows else self._means.of(i)
        if key in sums.no_cpu:
            count = sums.sample_count - sums.no_cpu[key]
            cpu = sums.column(CPU)[i] / count if count else None
        if key in table.denied:
            # The process is listed because it used CPU; its I/O is still unknown.
            read = write = None
        elif key in sums.no_io:
            count = sums.sample_count - sums.no_io[key]
            read, write = (sums.column(column)[i] / count if count else None for column in (READ, WRITE))
        return TaskFacts(key, info.name, info.uid, stat.ppid, stat.threads, blocked, cpu, read, write)


def group_tasks(tasks: Iterable[TaskFacts], table: ProcessTable | None) -> tuple[Group, ...]:
    """The tasks grouped by name and user, the group with the most tasks first."""
    by_group: dict[tuple[str, int], list[TaskFacts]] = {}
    for task in tasks:
        by_group.setdefault((task.name, task.uid), []).append(task)
    alive = _alive(table) if table is not None and by_group else {}
    groups = []
    for (name, uid), alike in by_group.items():
        read = [task.read_bytes_per_s for task in alike if task.read_bytes_per_s is not None]
        write = [task.write_bytes_per_s for task in alike if task.write_bytes_per_s is not None]
        groups.append(
            Group(
                name,
                alike[0].key.pid,
                len(alike),
                max(len(alike), alive.get((name, uid), 0)),
                mean([task.blocked_ratio for task in alike]) or 0.0,
                mean([task.cpu_ratio for task in alike]),
                sum(read) if read else None,
                sum(write) if write else None,
            )
        )
    return _in_order(groups)


def _alive(table: ProcessTable) -> Mapping[tuple[str, int], int]:
    """The number of living processes of each name and user."""
    return Counter(map(_NAME_AND_UID, filter(None, map(table.info.get, table.stat))))


def _in_order(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda group: (-group.alike_count, group.name)))


def blocked_tasks(tasks: Tasks, limits: Thresholds = LIMITS) -> tuple[TaskFacts, ...]:
    """The tasks that are blocked long enough for a finding about them to stay active."""
    return tasks.blocked(limits.blocked * limits.leave_level)


def blocked_groups(tasks: Tasks, limits: Thresholds = LIMITS) -> tuple[Group, ...]:
    """The groups of ``blocked_tasks`` by name and user, the group with the most tasks first."""
    return tasks.blocked_groups(limits.blocked * limits.leave_level)
