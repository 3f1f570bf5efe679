"""What processes did over a window, equal ones together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter

from iotop_ai.diagnosis.columns import CPU, DELAY, LOOKS, READ, WRITE, Sums, window_sums
from iotop_ai.diagnosis.ours import monitor_pids
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.diagnosis.window import Window, mean
from iotop_ai.model.process import ProcessKey, ProcessTable
from iotop_ai.model.record import NamedTuple

LOADER_NAMES = ("pt_data_worker", "pt_multiprocess", "pt_thread_data_")
"""Names that PyTorch gives to DataLoader workers (comm, 15 characters)."""
_DELAY_SEEN = 0.05
_FEW = 8
_WHO = attrgetter("name", "uid")


class TaskFacts(NamedTuple):
    """One process over a window. Ratios are means, None unknown.

    blocked_ratio: by delay accounting where it shows something, else the share of looks in state D.
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
    def loader(self) -> bool:
        """Whether it is a DataLoader worker by its name."""
        return self.name.startswith(LOADER_NAMES)


class Group(NamedTuple):
    """Processes of one name and user that do the same. pid: of one of them; doing: how many do it; whole: all of that
    name and user.

    blocked_ratio: mean share of time in state D; cpu_ratio: mean CPU of one of them, 1.0 is one core. read_bytes_per_s,
    write_bytes_per_s: of all of them, None when that of none is known.
    """

    name: str
    pid: int
    doing: int
    whole: int
    blocked_ratio: float
    cpu_ratio: float | None
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None


class Family(NamedTuple):
    """Who started whom. keys: by pid; children: the pids below each pid."""

    keys: Mapping[int, ProcessKey]
    children: Mapping[int, Collection[int]]

    def below(self, roots: Iterable[int]) -> frozenset[int]:
        """The pids of ``roots`` that exist, and of all their children and children's children."""
        found: set[int] = set()
        todo = [pid for pid in roots if pid in self.keys]
        while todo:
            pid = todo.pop()
            if pid not in found:
                found.add(pid)
                todo.extend(self.children.get(pid, ()))
        return frozenset(found)


NO_FAMILY = Family({}, {})


def family(table: ProcessTable | None) -> Family:
    """The processes of a table by descent."""
    if table is None:
        return NO_FAMILY
    children: dict[int, list[int]] = {}
    for key, stat in table.stat.items():
        below = children.get(stat.ppid)
        if below is None:
            children[stat.ppid] = [key.pid]
        else:
            below.append(key.pid)
    return Family({key.pid: key for key in table.stat}, children)


_Row = tuple[float, float, float, float]
"""Of a process: blocked, CPU, bytes read and written."""


class _Ratios:
    """Means over a window, one a process in the order of its Sums; as if nothing were unknown."""

    def __init__(self, sums: Sums) -> None:
        self._sums = sums
        self._known = sums.known or 1

    @cached_property
    def blocked(self) -> list[float]:
        delays, looks, known = self._sums.column(DELAY), self._sums.column(LOOKS), self._known
        # As in ``_blocked``, without a call for each.
        return [
            min(1.0, d) if (d := delay / known) >= _DELAY_SEEN else look / known
            for delay, look in zip(delays[:-1], looks, strict=False)
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
        """The figures of each."""
        return [*zip(self.blocked, self.cpu, self.read, self.write, strict=True)]

    def of(self, i: int) -> _Row:
        """The figures of one alone."""
        of, known = self._sums.of, self._known
        blocked = _blocked(of(DELAY, i) / known, of(LOOKS, i) / known)
        return blocked, of(CPU, i) / known, of(READ, i) / known, of(WRITE, i) / known

    def _mean(self, number: int) -> list[float]:
        known = self._known
        return [summed / known for summed in self._sums.column(number)[:-1]]


def _blocked(delay: float, look: float) -> float:
    # Delay accounting is exact but counts block devices only: where it shows nothing, the looks decide.
    return min(1.0, delay) if delay >= _DELAY_SEEN else look


class Tasks:
    """Every process that is alive and did or waited for something in a window, but for this monitor's own.

    They are made into TaskFacts as far as a rule asks: of a thousand most rules want a few. only: the pids asked for;
    None all.
    """

    def __init__(
        self,
        table: ProcessTable | None,
        look: Window,
        own_pid: int,
        *,
        only: frozenset[int] | None = None,
        tree: Family | None = None,
    ) -> None:
        self._table = table
        self._chosen: dict[tuple[str, float], tuple[TaskFacts, ...]] = {}
        self._known: dict[int, TaskFacts | None] = {}
        self._groups: dict[float, tuple[Group, ...]] = {}
        if table is None:
            return
        keys = None
        if only is not None:
            tree = tree or family(table)
            keys = [tree.keys[pid] for pid in sorted(only) if pid in tree.keys]
        self._sums = window_sums(look, keys)
        self._ratios = _Ratios(self._sums)
        self._rows: list[_Row] = []
        self._ours = monitor_pids(table, own_pid)

    def all(self) -> tuple[TaskFacts, ...]:
        """All of them."""
        return self._once("all", 0.0, lambda: range(len(self._sums.keys)))

    def blocked(self, least: float) -> tuple[TaskFacts, ...]:
        """Those in state D for that share of the time, above 0."""
        return self._once("blocked", least, lambda: self._where_blocked(least))

    def busy(self, least: float) -> tuple[TaskFacts, ...]:
        """Those that use so much CPU, above 0."""
        if self._table is None:
            return ()
        if self._sums.no_cpu:
            return tuple(task for task in self.all() if (task.cpu_ratio or 0.0) >= least)
        return self._once("busy", least, lambda: [i for i, cpu in enumerate(self._ratios.cpu) if cpu >= least])

    def busiest(self) -> TaskFacts | None:
        """The one that uses most CPU, of those of which it is known; None without any."""
        if self._table is None:
            return None
        if self._sums.no_cpu:
            known = [task for task in self.all() if task.cpu_ratio is not None]
            return max(known, key=lambda task: task.cpu_ratio or 0.0, default=None)
        cpu, places = self._sums.column(CPU), range(len(self._sums.keys))
        most = next(self._made([max(places, key=cpu.__getitem__)] if places else ()), None)
        # What uses most is seldom one that does not count.
        return most or next(self._made(sorted(places, key=cpu.__getitem__, reverse=True)), None)

    def blocked_groups(self, least: float) -> tuple[Group, ...]:
        """The same by name and user, as ``grouped``."""
        table = self._table
        if table is None:
            return ()
        if least not in self._groups:
            unknown = bool(table.denied or self._sums.no_io or self._sums.no_cpu)
            found = grouped(self.blocked(least), table) if unknown else self._grouped(self._where_blocked(least))
            self._groups[least] = found
        return self._groups[least]

    def loaders(self) -> tuple[TaskFacts, ...]:
        """The DataLoader workers by their names."""
        info = {} if self._table is None else self._table.info
        return self._once(
            "loaders",
            0.0,
            lambda: [
                i for i, key in enumerate(self._sums.keys) if key in info and info[key].name.startswith(LOADER_NAMES)
            ],
        )

    def _grouped(self, places: Iterable[int]) -> tuple[Group, ...]:
        """``grouped`` of many of which everything is known, without making them first."""
        table, keys, ours, ratios = self._table, self._sums.keys, self._ours, self._ratios
        assert table is not None
        blocked, cpu, read, write = ratios.blocked, ratios.cpu, ratios.read, ratios.write
        by: dict[tuple[str, int], list[int]] = {}
        for i in places:
            key = keys[i]
            info = table.info.get(key)
            if info is not None and not info.kernel and key.pid not in ours and key in table.stat:
                by.setdefault((info.name, info.uid), []).append(i)
        alive = _alive(table) if by else {}
        return _in_order(
            Group(
                name,
                keys[doing[0]].pid,
                len(doing),
                max(len(doing), alive.get((name, uid), 0)),
                mean([blocked[i] for i in doing]) or 0.0,
                mean([cpu[i] for i in doing]),
                sum([read[i] for i in doing]),
                sum([write[i] for i in doing]),
            )
            for (name, uid), doing in by.items()
        )

    def _once(self, what: str, least: float, places: Callable[[], Iterable[int]]) -> tuple[TaskFacts, ...]:
        if self._table is None:
            return ()
        found = self._chosen.get((what, least))
        if found is None:
            chosen = [*places()]
            if len(chosen) > _FEW:
                self._rows = self._ratios.rows
            found = self._chosen[what, least] = tuple(self._made(chosen))
        return found

    def _where_blocked(self, least: float) -> list[int]:
        return [i for i, blocked in enumerate(self._ratios.blocked) if blocked >= least]

    def _made(self, places: Iterable[int]) -> Iterator[TaskFacts]:
        """Those of these places that count, in this order."""
        known = self._known
        for i in places:
            if i not in known:
                known[i] = self._task(i)
            task = known[i]
            if task is not None:
                yield task

    def _task(self, i: int) -> TaskFacts | None:
        table, sums = self._table, self._sums
        assert table is not None
        key = sums.keys[i]
        stat, info = table.stat.get(key), table.info.get(key)
        if stat is None or info is None or info.kernel or key.pid in self._ours:
            return None
        cpu: float | None
        read: float | None
        write: float | None
        blocked, cpu, read, write = self._rows[i] if self._rows else self._ratios.of(i)
        if key in sums.no_cpu:
            times = sums.known - sums.no_cpu[key]
            cpu = sums.column(CPU)[i] / times if times else None
        if key in table.denied:
            # It is listed only when it used CPU: what it read stays unknown.
            read = write = None
        elif key in sums.no_io:
            times = sums.known - sums.no_io[key]
            read, write = (sums.column(column)[i] / times if times else None for column in (READ, WRITE))
        return TaskFacts(key, info.name, info.uid, stat.ppid, stat.threads, blocked, cpu, read, write)


def grouped(tasks: Iterable[TaskFacts], table: ProcessTable | None) -> tuple[Group, ...]:
    """The tasks by name and user, most of them first."""
    by: dict[tuple[str, int], list[TaskFacts]] = {}
    for task in tasks:
        by.setdefault((task.name, task.uid), []).append(task)
    alive = _alive(table) if table is not None and by else {}
    groups = []
    for (name, uid), doing in by.items():
        read = [task.read_bytes_per_s for task in doing if task.read_bytes_per_s is not None]
        write = [task.write_bytes_per_s for task in doing if task.write_bytes_per_s is not None]
        groups.append(
            Group(
                name,
                doing[0].key.pid,
                len(doing),
                max(len(doing), alive.get((name, uid), 0)),
                mean([task.blocked_ratio for task in doing]) or 0.0,
                mean([task.cpu_ratio for task in doing]),
                sum(read) if read else None,
                sum(write) if write else None,
            )
        )
    return _in_order(groups)


def _alive(table: ProcessTable) -> Mapping[tuple[str, int], int]:
    """How many processes there are of each name and user."""
    return Counter(map(_WHO, filter(None, map(table.info.get, table.stat))))


def _in_order(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda group: (-group.doing, group.name)))


def blocked_tasks(tasks: Tasks, limits: Thresholds = LIMITS) -> tuple[TaskFacts, ...]:
    """Those blocked long enough that a held finding about them would stay."""
    return tasks.blocked(limits.blocked * limits.leave_level)


def blocked_groups(tasks: Tasks, limits: Thresholds = LIMITS) -> tuple[Group, ...]:
    """The same by name and user, most members first."""
    return tasks.blocked_groups(limits.blocked * limits.leave_level)
