"""Process groups: processes of one name and user share a row, because 64 equal workers would hide the other rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.change_tracking import changed, follows, gone
from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import UNKNOWN_PROCESS_RATES, ProcessInfo, ProcessKey, ProcessRates, ProcessTable
from iotop_ai.present.process.filter import Filter, Subject, parse_filter
from iotop_ai.present.process.group_stats import Owner
from iotop_ai.present.process.tree import branches, parents, with_parents
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cache_part, cached_per_frame

_ACTIVE, _IDLE = "process:active:", "process:idle:"


class Group(NamedTuple):
    """Processes of one name and user.

    rates: bytes are sums of the known values, cpu and delay are a member's largest; None when unknown for all of them.
    idle: no member did anything. mark: the tree lines before the name. in_tree: a tree's row, which has one process.
    """

    name: str
    user: str
    keys: tuple[ProcessKey, ...]
    rates: ProcessRates
    idle: bool
    mark: str = ""
    in_tree: bool = False

    @property
    def io(self) -> float | None:
        """Bytes read and written per second."""
        read, write = self.rates.read_bytes_per_s, self.rates.write_bytes_per_s
        return None if read is None and write is None else (read or 0.0) + (write or 0.0)

    @property
    def row_key(self) -> str:
        """The key of its row. Outside a tree it names no process, since the active members change from tick to tick."""
        if self.in_tree:
            return f"process:{self.keys[0].pid}"
        return f"{_IDLE if self.idle else _ACTIVE}{self.user}:{self.name}"

    @property
    def headed(self) -> Group:
        """The group with only its first process, on which its row depends."""
        return self if len(self.keys) == 1 else self._replace(keys=self.keys[:1])

    @property
    def label(self) -> str:
        """The name with its count ("train.py x8")."""
        return self.name if len(self.keys) == 1 else f"{self.name} x{len(self.keys)}"


@cached_per_frame
def rates_of(frame: Frame, view: View) -> tuple[Mapping[ProcessKey, ProcessRates] | None, float | None]:
    """Rates of the active processes: those of the newest interval, or since the base with its seconds.

    A rate since the base, multiplied by these seconds, is the exact growth of the counter, however often it was read.
    """
    base, now = view.base, frame.snapshot
    if base is None:
        rated = frame.sample.processes
        if rated.value is None or rated.seconds is None:
            return None, None
        return rated.value.rates, None
    if base.host.boot_id != now.host.boot_id or base.processes.at_ns == now.processes.at_ns:
        return None, None
    summed = process_rates(base.processes, now.processes, None)
    if summed.value is None or summed.seconds is None:
        return None, None
    return {key: _rates_over(rates, summed.seconds) for key, rates in summed.value.rates.items()}, summed.seconds


_IO_RATES = frozenset(ProcessRates._fields[:7])
_PER_S = tuple(name for name in ProcessRates._fields if name.endswith("_per_s"))
"""The rates that sum up over time; those not of io are of stat."""


def _rates_over(rates: ProcessRates, seconds: float) -> ProcessRates:
    """The same growth as rates over ``seconds``, not over a process's own interval: many are not read at every tick."""
    changes = {}
    for name in _PER_S:
        value, own_s = getattr(rates, name), rates.io_s if name in _IO_RATES else rates.stat_s
        if value is not None and own_s is not None:
            changes[name] = value * own_s / seconds
    return rates._replace(**changes)


def _known(values: Sequence[float | None]) -> Sequence[float]:
    return [v for v in values if v is not None]


def _largest(values: Sequence[float | None]) -> float | None:
    return max(_known(values), default=None)


def _sum(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None


_Fold = Callable[[Sequence[Any]], Any]
_FOLDS: dict[str, _Fold] = {
    "cpu_ratio": _largest,
    "io_delay_ratio": _largest,
    "incl_children": any,
    "main_thread_only": any,
    "threads_looked": lambda counts: min(_known(counts), default=None),
    "io_s": _largest,
    "stat_s": _largest,
}
"""How the members' values are combined where the group's value is not their sum."""
_IN_ORDER: tuple[_Fold, ...] = tuple(_FOLDS.get(name, _sum) for name in ProcessRates._fields)


def aggregate(rates: list[ProcessRates]) -> ProcessRates:
    """The rates of a group."""
    if len(rates) == 1:
        return rates[0]
    return ProcessRates._make(fold(values) for fold, values in zip(_IN_ORDER, zip(*rates, strict=True), strict=True))


def _is_idle(rates: ProcessRates, key: ProcessKey, table: ProcessTable) -> bool:
    """Whether a process counts as idle: its I/O is unreadable, it uses no CPU, and it is not in state D."""
    if rates.cpu_ratio or key not in table.denied:
        return False
    stat = table.stat.get(key)
    return stat is None or stat.state != "D"


class ProcessList(NamedTuple):
    """The groups of the list.

    matching: with a filter, how many processes match it. active: with only active rows, how many of them are active.
    Each is None where it is not counted or not known.
    """

    groups: tuple[Group, ...]
    matching: int | None = None
    active: int | None = None


@cached_per_frame
def process_list(frame: Frame, view: View) -> ProcessList:
    """All processes grouped, filtered and sorted; the idle ones last, and left out with only_active.

    In a tree each process has its own row under its parent; the ancestors of a match are rows, too.
    """
    table = frame.snapshot.processes.value
    if table is None:
        return ProcessList(())
    own_pid = frame.snapshot.own.pid
    rates = rates_of(frame, view)[0]
    wanted = parse_filter(view.pattern) if view.pattern else None
    if wanted is not None and wanted.query:
        table, wanted = _queried(table, wanted, rates, view.tagged), None
        if view.tree:
            return _tree(frame, view, table.info)
    elif view.tree:
        matching = {k: i for k, i in table.info.items() if (wanted.answer(_named(k, i)) if wanted else not i.kernel)}
        return _tree(frame, view, matching)
    idle = cache_part(view, IdleGroupsCache).groups(table, view.pattern, own_pid)
    if rates is None:
        unknown = [_group(g[:2], list(g.keys), [UNKNOWN_PROCESS_RATES]) for g in idle.groups.values()]
        return ProcessList(() if view.only_active else tuple(ordered(unknown, view)), _count(unknown, view))
    active: dict[Owner, list[ProcessKey]] = {}
    busy = [key for key, rate in rates.items() if key in idle.position and not _is_idle(rate, key, table)]
    for key in sorted(busy, key=idle.position.__getitem__):
        info = table.info[key]
        if wanted is None or wanted.answer(_named(key, info)):
            active.setdefault((info.name, info.user), []).append(key)
    out = ordered([_group(owner, keys, [rates[k] for k in keys]) for owner, keys in active.items()], view)
    if view.only_active:
        every = (*out, *idle.without(active)) if view.pattern else ()
        return ProcessList(tuple(out), _count(every, view), _count(out, view))
    rest = idle.without(active)
    if view.sort in ("name", "user"):
        rest = ordered(list(rest), view)
    return ProcessList((*out, *rest), _count((*out, *rest), view))


def _count(rows: Sequence[Group], view: View) -> int | None:
    """The processes of these groups; None without a filter, where their number is not shown."""
    return sum(len(group.keys) for group in rows) if view.pattern else None


def groups(frame: Frame, view: View) -> tuple[Group, ...]:
    """The groups of the list, from the first row on."""
    return process_list(frame, view).groups


@cached_per_frame
def group_at_cursor(frame: Frame, view: View) -> Group | None:
    """The group that the user marked; None without a mark, or while the group has no row.

    A name may have an active and an idle row. While the marked row is missing, the other one is marked.
    """
    if view.focus != "process" or not view.cursor:
        return None
    owner = view.cursor.removeprefix(_ACTIVE).removeprefix(_IDLE)
    keys = [view.cursor] if owner == view.cursor else dict.fromkeys((view.cursor, _ACTIVE + owner, _IDLE + owner))
    return next((group for key in keys for group in groups(frame, view) if group.row_key == key), None)


def selected_group(frame: Frame, view: View) -> Group | None:
    """The group under the cursor; the first one while the user has marked none."""
    if view.cursor:
        return group_at_cursor(frame, view)
    return next(iter(groups(frame, view)), None)


EVERY = Filter(lambda _one: True)


def _named(key: ProcessKey, info: ProcessInfo) -> Subject:
    return Subject(key, info, None, None, 0)


def ungrouped(frame: Frame, view: View, keys: Collection[ProcessKey]) -> list[Group]:
    """Each of these processes as a group of its own, in the order that the viewer chose."""
    table, rates = frame.snapshot.processes.value, rates_of(frame, view)[0]
    if table is None:
        return []
    out = []
    for key in sorted(keys):
        info = table.info.get(key)
        if info is not None:
            idle_rates = _idle_rates(table, key)
            rate = UNKNOWN_PROCESS_RATES if rates is None else rates.get(key, idle_rates)
            out.append(Group(info.name, info.user, (key,), rate, False))
    return ordered(out, view)


def _queried(
    table: ProcessTable, wanted: Filter, rates: Mapping[ProcessKey, ProcessRates] | None, tagged: frozenset[ProcessKey]
) -> ProcessTable:
    """The table with only the processes that a query matches."""

    def subject(key: ProcessKey, info: ProcessInfo) -> Subject:
        rate = None if rates is None else rates.get(key) or _idle_rates(table, key)
        return Subject(key, info, rate, table.stat.get(key), table.page_bytes, key in tagged)

    return table._replace(info={k: info for k, info in table.info.items() if wanted.answer(subject(k, info))})


def _tree(frame: Frame, view: View, matches: Mapping[ProcessKey, ProcessInfo]) -> ProcessList:
    """The matching processes and all their ancestors, a row for each; the busiest branch is first."""
    table, rates = frame.snapshot.processes.value, rates_of(frame, view)[0]
    if table is None:
        return ProcessList(())
    listed = matching = [key for key in matches if key.pid != frame.snapshot.own.pid]
    if rates is not None and view.only_active:
        listed = [key for key in matching if key in rates and not _is_idle(rates[key], key, table)]
    parent_of = parents(table)
    out = {}
    for key in with_parents(listed, parent_of):
        info, rate = table.info[key], None if rates is None else rates.get(key)
        idle_rates = UNKNOWN_PROCESS_RATES if rates is None else _idle_rates(table, key)
        idle = rate is None or _is_idle(rate, key, table)
        out[key] = Group(info.name, info.user, (key,), idle_rates if rate is None else rate, idle, in_tree=True)
    if view.sort in ("name", "user"):
        by = sorted(out, key=lambda k: (getattr(out[k], view.sort), out[k].name), reverse=view.reverse)
        measures: dict[ProcessKey, tuple[float, ...]] = {key: (float(-i),) for i, key in enumerate(by)}
    else:
        sign = -1.0 if view.reverse else 1.0
        measures = {k: (sign * _measure(g, view.sort), g.io or 0.0, g.rates.cpu_ratio or 0.0) for k, g in out.items()}
    rows = tuple(out[key]._replace(mark=mark) for key, mark in branches(measures, parent_of))
    return ProcessList(rows, len(matching), None if listed is matching else len(listed))


class _IdleGroups:
    """All processes grouped as if none did anything; ``without`` leaves out the busy ones of a tick.

    Many processes are idle and few come or go, so the groups are kept. position: each process's place in the table.
    """

    def __init__(self, table: ProcessTable, pattern: str, own_pid: int) -> None:
        self.inputs = _inputs(table, pattern, own_pid)
        self.info: Mapping[ProcessKey, ProcessInfo] = {}
        self.position: dict[ProcessKey, int] = {}
        self.groups: dict[Owner, Group] = {}
        self._own_pid, self._next = own_pid, 0
        wanted = parse_filter(pattern) if pattern else None
        # The table of a query holds its matches only.
        self._wanted = EVERY if wanted is not None and wanted.query else wanted
        # Without the fields that change from tick to tick: idle groups read only the table's stable fields.
        self._table = ProcessTable(
            {}, {}, {}, table.denied, 0, 0, (), {}, {}, {}, {},
            delayacct=table.delayacct, delayacct_since=table.delayacct_since,
        )  # fmt: skip
        self.update(table.info)

    def update(self, info: Mapping[ProcessKey, ProcessInfo]) -> None:
        """Add new processes, remove ended ones, and move those with a new name."""
        removed: dict[Owner, set[ProcessKey]] = {}
        added: dict[Owner, list[ProcessKey]] = {}
        new = changed(info, self.info)
        reordered = any(key in self.info for key in new)
        for key in (*gone(info, self.info), *new):
            old = self.info.get(key)
            if old is not None and self._has_row(key, old):
                removed.setdefault((old.name, old.user), set()).add(key)
            if key not in info:
                self.position.pop(key, None)
        for key in new:
            if key not in self.position:
                self.position[key] = self._next
                self._next += 1
            if self._has_row(key, info[key]):
                added.setdefault((info[key].name, info[key].user), []).append(key)
        for owner in dict.fromkeys((*removed, *added)):
            group, less = self.groups.get(owner), removed.get(owner, set())
            keys = [key for key in (group.keys if group is not None else ()) if key not in less] + added.get(owner, [])
            if less or reordered:
                keys.sort(key=self.position.__getitem__)
            if keys:
                self.groups[owner] = self._group(owner, keys)
            else:
                self.groups.pop(owner, None)
        if removed or reordered:
            self.groups = dict(sorted(self.groups.items(), key=lambda item: self.position[item[1].keys[0]]))
        self.info = info

    def _has_row(self, key: ProcessKey, info: ProcessInfo) -> bool:
        match = not info.kernel if self._wanted is None else self._wanted.answer(_named(key, info))
        return bool(match) and key.pid != self._own_pid

    def _group(self, owner: Owner, keys: Sequence[ProcessKey]) -> Group:
        return Group(*owner, tuple(keys), _idle_rates(self._table, keys[0]), True)

    def without(self, active: Mapping[Owner, Sequence[ProcessKey]]) -> Sequence[Group]:
        """The groups without the active processes, in the table's order."""
        smaller: dict[Owner, Group | None] = {}
        moved = False
        for owner, keys in active.items():
            group = self.groups.get(owner)
            if group is not None:
                busy = set(keys)
                idle = [key for key in group.keys if key not in busy]
                smaller[owner] = self._group(owner, idle) if idle else None
                moved = moved or bool(idle and idle[0] != group.keys[0])
        if not smaller:
            return tuple(self.groups.values())
        out = [group for owner, whole in self.groups.items() if (group := smaller.get(owner, whole)) is not None]
        if moved:
            out.sort(key=lambda g: self.position[g.keys[0]])
        return out


class IdleGroupsCache:
    """The idle groups of the two newest filters, so that a recording's and the live picture can alternate."""

    def __init__(self) -> None:
        self._newest: list[_IdleGroups] = []

    def groups(self, table: ProcessTable, pattern: str, own_pid: int) -> _IdleGroups:
        """The idle groups of this table; updated from the previous table where the changes are known."""
        inputs = _inputs(table, pattern, own_pid)
        for i, idle in enumerate(self._newest):
            if idle.inputs != inputs:
                continue
            if follows(table.info, idle.info):
                idle.update(table.info)
            elif _same(table.info, idle.info):
                idle.info = table.info
            else:
                continue
            if i:
                self._newest = [idle, *self._newest[:i]]
            return idle
        idle = _IdleGroups(table, pattern, own_pid)
        self._newest = [idle, *self._newest[:1]]
        return idle


def _inputs(table: ProcessTable, pattern: str, own_pid: int) -> tuple[object, ...]:
    """The inputs of the idle groups besides the processes."""
    return pattern, own_pid, table.denied, bool(table.delayacct), table.delayacct_since


def _same(new: Mapping[ProcessKey, ProcessInfo], old: Mapping[ProcessKey, ProcessInfo]) -> bool:
    """Whether these are the same processes with the same names, in the same order."""
    return old is new or (len(old) == len(new) and list(old.items()) == list(new.items()))


_ZERO = ProcessRates._make(0.0 if fold in (_sum, _largest) else fold(()) for fold in _IN_ORDER)
"""An idle process: 0 in each figure."""
_UNCOUNTED = _ZERO._replace(io_delay_ratio=None)
"""An idle process whose waits the kernel does not count."""
_HIDDEN = UNKNOWN_PROCESS_RATES._replace(cpu_ratio=0.0)
"""An idle process whose I/O is not readable."""


def _idle_rates(table: ProcessTable, key: ProcessKey) -> ProcessRates:
    return _HIDDEN if key in table.denied else _ZERO if table.delay_counted(key) else _UNCOUNTED


def _group(owner: Owner, keys: list[ProcessKey], rates: list[ProcessRates]) -> Group:
    return Group(*owner, tuple(sorted(keys)), aggregate(rates), False)


def _measure(group: Group, sort: str) -> float:
    r = group.rates
    value = {
        "read": r.read_bytes_per_s,
        "write": r.write_bytes_per_s,
        "delay": r.io_delay_ratio,
        "cpu": r.cpu_ratio,
    }.get(sort, group.io)
    return -1.0 if value is None else value


def ordered(rows: list[Group], view: View) -> list[Group]:
    """The groups sorted by the viewer's column, then by rates, then by name, so that equal groups keep their order."""
    rows = sorted(rows, key=lambda g: (g.name, g.user))
    if view.sort in ("name", "user"):
        by_user = view.sort == "user"
        return sorted(rows, key=lambda g: (g.user, g.name) if by_user else (g.name, g.user), reverse=view.reverse)
    rows.sort(key=lambda g: (-(g.io or 0.0), -(g.rates.io_delay_ratio or 0.0), -(g.rates.cpu_ratio or 0.0)))
    rows.sort(key=lambda g: _measure(g, view.sort), reverse=not view.reverse)
    return rows
