"""What processes did over a window, equal ones together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.diagnosis.window import Window, mean
from iotop_ai.model.process import ProcessKey, ProcessTable
from iotop_ai.model.record import NamedTuple

LOADER_NAMES = ("pt_data_worker", "pt_multiprocess", "pt_thread_data_")
"""Names that PyTorch gives to DataLoader workers (comm, 15 characters)."""
_DELAY_SEEN = 0.05


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
    """Processes of one name and user that do the same. members: those that do; whole: all of that name and user."""

    name: str
    members: tuple[TaskFacts, ...]
    whole: int

    @property
    def doing(self) -> int:
        """How many do it."""
        return len(self.members)

    @property
    def blocked_ratio(self) -> float:
        """Mean share of time in state D."""
        return mean(m.blocked_ratio for m in self.members) or 0.0

    @property
    def cpu_ratio(self) -> float | None:
        """Mean CPU of one member, 1.0 is one core."""
        return mean(m.cpu_ratio for m in self.members)

    @property
    def read_bytes_per_s(self) -> float | None:
        """Bytes that all of them read from storage per second; None when that of no member is known."""
        known = [m.read_bytes_per_s for m in self.members if m.read_bytes_per_s is not None]
        return sum(known) if known else None

    @property
    def write_bytes_per_s(self) -> float | None:
        """Bytes that all of them dirtied per second."""
        known = [m.write_bytes_per_s for m in self.members if m.write_bytes_per_s is not None]
        return sum(known) if known else None


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


class _Sum:
    """What one process did, summed over samples."""

    __slots__ = ("cpu", "delay", "looks", "read", "unknown_cpu", "unknown_io", "write")

    def __init__(self) -> None:
        self.cpu = self.read = self.write = self.delay = 0.0
        self.looks = self.unknown_cpu = self.unknown_io = 0


def _sums(look: Window, only: Collection[ProcessKey] | None) -> tuple[dict[ProcessKey, _Sum], int]:
    """Per process what it did, and the number of samples; a process that is not listed in one did nothing in it.

    only: these processes; None all.
    """
    sums: dict[ProcessKey, _Sum] = {}
    known = 0
    for sample in look.samples:
        if sample.processes.value is None:
            continue
        known += 1
        listed, waits = sample.processes.value.rates, sample.waits
        for key in listed if only is None else only:
            rates = listed.get(key)
            if rates is None:
                continue
            one = sums.get(key)
            if one is None:
                one = sums[key] = _Sum()
            read, write, _, _, _, _, _, cpu, delay, *_ = rates
            if cpu is None:
                one.unknown_cpu += 1
            else:
                one.cpu += cpu
            if read is None or write is None:
                one.unknown_io += 1
            else:
                one.read += read
                one.write += write
            if delay:
                one.delay += delay
        for key in waits if only is None else (key for key in only if key in waits):
            one = sums.get(key)
            if one is None:
                one = sums[key] = _Sum()
            one.looks += 1
    return sums, known


def monitor_pids(table: ProcessTable, own_pid: int, tree: Family | None = None) -> frozenset[int]:
    """This monitor and its helpers with what they start (smartctl); a command that it records is no helper."""
    tree = tree or family(table)
    helpers = {
        pid
        for pid in tree.children.get(own_pid, ())
        if any(part.startswith("iotop_ai.") for part in table.info[tree.keys[pid]].cmdline)
    }
    return frozenset({own_pid}) | tree.below(helpers)


def all_tasks(
    table: ProcessTable | None,
    look: Window,
    own_pid: int,
    *,
    only: frozenset[int] | None = None,
    tree: Family | None = None,
) -> tuple[TaskFacts, ...]:
    """Every process that is alive and did or waited for something in the window, but for this monitor's own.

    only: the pids asked for; None all.
    """
    if table is None:
        return ()
    tree = tree or family(table)
    keys = None if only is None else [tree.keys[pid] for pid in sorted(only) if pid in tree.keys]
    sums, known = _sums(look, keys)
    ours = monitor_pids(table, own_pid, tree)
    out = []
    for key, one in sums.items():
        stat, info = table.stat.get(key), table.info.get(key)
        if stat is None or info is None or info.kernel or key.pid in ours:
            continue
        # A process whose I/O may not be read is listed only when it used CPU: what it read stays unknown.
        ios = 0 if key in table.denied else known - one.unknown_io
        cpus = known - one.unknown_cpu
        delay = one.delay / known
        # Delay accounting is exact but counts block devices only: where it shows nothing, the looks decide.
        blocked = min(1.0, delay) if delay >= _DELAY_SEEN else one.looks / known
        out.append(
            TaskFacts(
                key,
                info.name,
                info.uid,
                stat.ppid,
                stat.threads,
                blocked,
                one.cpu / cpus if cpus > 0 else None,
                one.read / ios if ios > 0 else None,
                one.write / ios if ios > 0 else None,
            )
        )
    return tuple(out)


def grouped(tasks: Iterable[TaskFacts], table: ProcessTable | None) -> tuple[Group, ...]:
    """The tasks by name and user, most members first."""
    by: dict[tuple[str, int], list[TaskFacts]] = {}
    for task in tasks:
        by.setdefault((task.name, task.uid), []).append(task)
    alive: dict[tuple[str, int], int] = {}
    if table is not None and by:
        for key in table.stat:
            info = table.info.get(key)
            if info is not None and (info.name, info.uid) in by:
                alive[info.name, info.uid] = alive.get((info.name, info.uid), 0) + 1
    groups = [Group(name, tuple(m), max(len(m), alive.get((name, uid), 0))) for (name, uid), m in by.items()]
    return tuple(sorted(groups, key=lambda g: (-g.doing, g.name)))


def blocked_tasks(tasks: Iterable[TaskFacts], limits: Thresholds = LIMITS) -> tuple[TaskFacts, ...]:
    """Those blocked long enough that a held finding about them would stay."""
    return tuple(t for t in tasks if t.blocked_ratio >= limits.blocked * limits.leave_level)
