"""Process groups: processes with the same name, user and job share a row, because 64 equal workers would push other
processes off the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.change_tracking import changed, follows, removed
from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import UNKNOWN_PROCESS_RATES, ProcessInfo, ProcessKey, ProcessRates, ProcessTable
from iotop_ai.present.process.filter import Filter, Subject, parse_filter
from iotop_ai.present.process.group_stats import GroupId
from iotop_ai.present.process.names import listed_name
from iotop_ai.present.process.sort_value import TEXT_SORT_KEYS, io_rate, sort_value, sort_values
from iotop_ai.present.process.tree import branches, parents, with_ancestors
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cache_part, cached_per_frame

_ACTIVE, _IDLE = "process:active:", "process:idle:"
"""The beginning of the row key of an active and of an idle group."""


class Group(NamedTuple):
    """Processes with the same name, user and job.

    name: as in ``listed_name``. job: the pid of their job's first process, as text; "" if they belong to no job.
    rates: the sums of the members' bytes, and the largest cpu and delay among them; each is None when unknown for all
    members. idle: whether no member was seen to do anything. mark: the characters of the tree's branches before the
    name. in_tree: whether the group is a row of a tree; it then has a single process.
    """

    name: str
    user: str
    keys: tuple[ProcessKey, ...]
    rates: ProcessRates
    idle: bool
    mark: str = ""
    in_tree: bool = False
    job: str = ""

    @property
    def group_id(self) -> GroupId:
        """The name, user and job that all members have."""
        return self.name, self.user, self.job

    @property
    def io(self) -> float | None:
        """The bytes read and written per second; None when both are unknown."""
        return io_rate(self.rates)

    @property
    def row_key(self) -> str:
        """The key of the group's row; outside a tree, it stays the same while members come and go."""
        if self.in_tree:
            return f"process:{self.keys[0].pid}"
        job = f":{self.job}" if self.job else ""
        return f"{_IDLE if self.idle else _ACTIVE}{self.user}:{self.name}{job}"

    @property
    def first_only(self) -> Group:
        """The group with only the first of its keys, because its row shows no other key."""
        return self if len(self.keys) == 1 else self._replace(keys=self.keys[:1])

    @property
    def label(self) -> str:
        """The name, with the number of processes if there are several: "train.py x8"."""
        return self.name if len(self.keys) == 1 else f"{self.name} x{len(self.keys)}"


@cached_per_frame
def rates_of(frame: Frame, view: View) -> tuple[Mapping[ProcessKey, ProcessRates] | None, float | None]:
    """(rates of the active processes, None) for the latest interval. While the list shows sums since a base Snapshot
    (``View.base``), (rates since the base, seconds since the base). (None, None) when unknown.

    A rate since the base times these seconds is the exact growth of the counter, however often the counter was read.
    """
    base, now = view.base, frame.snapshot
    if base is None:
        rated = frame.sample.processes
        if rated.value is None or rated.seconds is None:
            return None, None
        return rated.value.rates, None
    if base.host.boot_id != now.host.boot_id or base.processes.at_ns == now.processes.at_ns:
        return None, None
    rated = process_rates(base.processes, now.processes, None)
    if rated.value is None or rated.seconds is None:
        return None, None
    return {key: _rates_over(rates, rated.seconds) for key, rates in rated.value.rates.items()}, rated.seconds


_IO_RATES = frozenset(ProcessRates._fields[:7])
_PER_S = tuple(name for name in ProcessRates._fields if name.endswith("_per_s"))
"""The fields that hold a rate per second. Those in _IO_RATES are derived from /proc/PID/io, the others from stat."""


def _rates_over(rates: ProcessRates, seconds: float) -> ProcessRates:
    """The rates, converted so that they give the same growth over ``seconds``. Each rate covers the interval of its
    process, which may have another length, because many processes are not read in every interval.
    """
    changes = {}
    for name in _PER_S:
        value, own_s = getattr(rates, name), rates.io_s if name in _IO_RATES else rates.stat_s
        if value is not None and own_s is not None:
            changes[name] = value * own_s / seconds
    return rates._replace(**changes)


def _known_values(values: Sequence[float | None]) -> Sequence[float]:
    return [v for v in values if v is not None]


def _largest(values: Sequence[float | None]) -> float | None:
    try:
        return max(values)  # type: ignore[type-var]
    except TypeError:  # some are unknown
        return max(_known_values(values), default=None)


def _sum(values: Sequence[float | None]) -> float | None:
    try:
        return sum(values)  # type: ignore[arg-type]
    except TypeError:  # some are unknown
        known = _known_values(values)
        return sum(known) if known else None


_Combine = Callable[[Sequence[Any]], Any]
_COMBINE: dict[str, _Combine] = {
    "cpu_ratio": _largest,
    "io_delay_ratio": _largest,
    "incl_children": any,
    "main_thread_only": any,
    "threads_looked": lambda counts: min(_known_values(counts), default=None),
    "io_s": _largest,
    "stat_s": _largest,
}
"""How the members' values are combined where the group's value is not their sum."""
_COMBINE_FIELDS: tuple[_Combine, ...] = tuple(_COMBINE.get(name, _sum) for name in ProcessRates._fields)
"""How each field of ProcessRates is combined, in the order of the fields."""


def aggregate(rates: list[ProcessRates]) -> ProcessRates:
    """The rates of a group, from its members' rates."""
    if len(rates) == 1:
        return rates[0]
    columns = zip(_COMBINE_FIELDS, zip(*rates, strict=True), strict=True)
    return ProcessRates._make(combine(values) for combine, values in columns)


def _is_idle(rates: ProcessRates, key: ProcessKey, table: ProcessTable) -> bool:
    """Whether a process with rates counts as idle: its I/O is unreadable, it uses no CPU and is not in state D."""
    if rates.cpu_ratio or key not in table.denied:
        return False
    stat = table.stat.get(key)
    return stat is None or stat.state != "D"


class ProcessList(NamedTuple):
    """The groups of the process list.

    matching: the number of processes that match the filter. active: how many of them are active, if only active ones
    are listed; otherwise None. Without a filter, both are None, except in a tree, which counts all processes that it
    can list. Both are None while the process table is unknown.
    """

    groups: tuple[Group, ...]
    matching: int | None = None
    active: int | None = None


@cached_per_frame
def process_list(frame: Frame, view: View) -> ProcessList:
    """All processes, filtered, grouped and sorted. Idle groups come last; with ``only_active`` they are left out.
    Without a filter, idle kernel threads are listed only while the list has the whole screen.

    In a tree, each process has a row under its parent; the ancestors of a matching process have rows too.
    """
    table = frame.snapshot.processes.value
    if table is None:
        return ProcessList(())
    if view.unredacted is not None:  # a screenshot has the rows of the screen, under their redacted names
        shown = process_list(frame._replace(snapshot=view.unredacted), view._replace(unredacted=None))
        return shown._replace(groups=tuple(g._replace(name=listed_name(table.info[g.keys[0]])) for g in shown.groups))
    own_pid, rates = frame.snapshot.own.pid, rates_of(frame, view)[0]
    wanted = parse_filter(view.pattern) if view.pattern else None
    if wanted is not None and wanted.is_query:
        table, wanted = _matching_table(table, wanted, rates, view.tagged), None
        if view.tree:
            return _tree(frame, view, table.info)
    elif view.tree:
        return _tree(frame, view, {k: i for k, i in table.info.items() if not wanted or wanted.matches(_subject(k, i))})
    job_of = _job_by_process(frame)
    kernel = view.zoom == "process"
    idle = cache_part(view, IdleGroupsCache).groups(table, view.pattern, own_pid, job_of, kernel=kernel)
    if rates is None:
        unknown = [_group(g.group_id, sorted(g.keys), [UNKNOWN_PROCESS_RATES]) for g in idle.groups.values()]
        return ProcessList(() if view.only_active else tuple(ordered(unknown, view)), _count(unknown, view))
    active: dict[GroupId, list[ProcessKey]] = {}
    busy = [key for key, rate in rates.items() if key in idle.position and not _is_idle(rate, key, table)]
    for key in sorted(busy, key=idle.position.__getitem__):
        info = table.info[key]
        if wanted is None or wanted.matches(_subject(key, info)):
            active.setdefault(idle.group_ids[key], []).append(key)
    out = ordered([_active_group(group_id, keys, rates, view.sort) for group_id, keys in active.items()], view)
    if view.only_active:
        every = (*out, *idle.without(active)) if view.pattern else ()
        return ProcessList(tuple(out), _count(every, view), _count(out, view))
    rest = idle.without(active)
    if view.sort in TEXT_SORT_KEYS:
        rest = ordered(list(rest), view)
    return ProcessList((*out, *rest), _count((*out, *rest), view))


def _job_by_process(frame: Frame) -> Mapping[ProcessKey, str]:
    """The job of each process that is part of a job, as in ``Group.job``."""
    table, out = frame.snapshot.jobs.value, dict[ProcessKey, str]()
    for job in () if table is None else table.jobs.values():
        out |= dict.fromkeys(job.members, str(job.key.pid))
    return out


def _count(rows: Sequence[Group], view: View) -> int | None:
    """The number of processes in these groups; None without a filter, because it is then not shown."""
    return sum(len(group.keys) for group in rows) if view.pattern else None


def groups(frame: Frame, view: View) -> tuple[Group, ...]:
    """The groups of the list, in the order of their rows."""
    return process_list(frame, view).groups


@cached_per_frame
def group_at_cursor(frame: Frame, view: View) -> Group | None:
    """The group under the cursor of the process panel; None without one, or while the group has no row. The processes
    of one name, user and job may have an active and an idle row; if the cursor's row is gone, the other one counts.
    """
    if view.focus != "process" or not view.cursor:
        return None
    suffix = view.cursor.removeprefix(_ACTIVE).removeprefix(_IDLE)
    keys = [view.cursor] if suffix == view.cursor else dict.fromkeys((view.cursor, _ACTIVE + suffix, _IDLE + suffix))
    return next((group for key in keys for group in groups(frame, view) if group.row_key == key), None)


def selected_group(frame: Frame, view: View) -> Group | None:
    """The group that the keys act on: the group under the cursor, or the first one if there is no cursor; None if there
    is no such group, or if the process panel is not focused.
    """
    if view.cursor or view.focus != "process":
        return group_at_cursor(frame, view)
    return next(iter(groups(frame, view)), None)


_MATCH_ALL = Filter(lambda _one: True)
"""The filter that matches every process."""


def _subject(key: ProcessKey, info: ProcessInfo) -> Subject:
    """The Subject for a filter that searches only names, users, command lines and pids."""
    return Subject(key, info, None, None, 0)


def ungrouped(frame: Frame, view: View, keys: Collection[ProcessKey]) -> list[Group]:
    """Each of these processes as a separate group, in the order that the user chose."""
    table, rates = frame.snapshot.processes.value, rates_of(frame, view)[0]
    if table is None:
        return []
    out = []
    for key in sorted(keys):
        info = table.info.get(key)
        if info is not None:
            rate = UNKNOWN_PROCESS_RATES if rates is None else rates.get(key, _idle_rates(table, key))
            out.append(Group(listed_name(info), info.user, (key,), rate, False))
    return ordered(out, view)


def _matching_table(
    table: ProcessTable, wanted: Filter, rates: Mapping[ProcessKey, ProcessRates] | None, tagged: frozenset[ProcessKey]
) -> ProcessTable:
    """The table reduced to the processes that a query matches."""

    def subject(key: ProcessKey, info: ProcessInfo) -> Subject:
        rate = None if rates is None else rates.get(key) or _idle_rates(table, key)
        return Subject(key, info, rate, table.stat.get(key), table.page_bytes, key in tagged, table.threads.get(key))

    return table._replace(info={k: info for k, info in table.info.items() if wanted.matches(subject(k, info))})


def _tree(frame: Frame, view: View, matches: Mapping[ProcessKey, ProcessInfo]) -> ProcessList:
    """The matching processes and their ancestors, one row each, with the branches in the order that the user chose."""
    table, rates = frame.snapshot.processes.value, rates_of(frame, view)[0]
    if table is None:
        return ProcessList(())
    active = {key for key in matches if rates and key in rates and not _is_idle(rates[key], key, table)}
    own_pid = frame.snapshot.own.pid
    kernel = view.pattern or view.zoom == "process"
    matching = [k for k, i in matches.items() if k in active or (k.pid != own_pid and (kernel or not i.kernel))]
    listed: Collection[ProcessKey] = active if rates is not None and view.only_active else matching
    parent_of = parents(table)
    out = {}
    for key in with_ancestors(listed, parent_of):
        info, rate = table.info[key], None if rates is None else rates.get(key)
        idle_rates = UNKNOWN_PROCESS_RATES if rates is None else _idle_rates(table, key)
        idle = rate is None or _is_idle(rate, key, table)
        rate = idle_rates if rate is None else rate
        out[key] = Group(listed_name(info), info.user, (key,), rate, idle, in_tree=True)
    if view.sort in TEXT_SORT_KEYS:
        order = sorted(out, key=lambda k: (getattr(out[k], view.sort), out[k].name), reverse=view.reverse)
        measures: dict[ProcessKey, tuple[float, ...]] = {key: (float(-i),) for i, key in enumerate(order)}
    else:
        sign = -1.0 if view.reverse else 1.0
        measures = {
            k: (sign * sort_value(g.rates, view.sort), g.io or 0.0, g.rates.cpu_ratio or 0.0) for k, g in out.items()
        }
    rows = tuple(out[key]._replace(mark=mark) for key, mark in branches(measures, parent_of))
    return ProcessList(rows, len(matching), None if listed is matching else len(listed))


class _IdleGroups:
    """All listed processes, grouped as if all were idle; ``without`` leaves out those that are active now.

    Most processes are idle and few start or end, so the groups are kept and updated. position: each process's place in
    the table. job_of: as in ``Group.job``, by process. kernel: whether kernel threads are listed without a filter too.
    """

    def __init__(
        self, table: ProcessTable, pattern: str, own_pid: int, job_of: Mapping[ProcessKey, str], *, kernel: bool
    ) -> None:
        self.inputs = _inputs(table, pattern, own_pid, kernel)
        self.info: Mapping[ProcessKey, ProcessInfo] = {}
        self.job_of: Mapping[ProcessKey, str] = {}
        self.position: dict[ProcessKey, int] = {}
        self.group_ids: dict[ProcessKey, GroupId] = {}
        self.groups: dict[GroupId, Group] = {}
        self._own_pid, self._next = own_pid, 0
        wanted = parse_filter(pattern) if pattern else None
        # After a query, the table holds only the matching processes.
        every = kernel if wanted is None else wanted.is_query
        self._wanted = _MATCH_ALL if every else wanted
        # A table without the fields that change in each Snapshot, because idle groups need only the stable ones.
        self._table = ProcessTable(
            {}, {}, {}, table.denied, 0, 0, (), {}, {}, {}, {},
            delayacct=table.delayacct, delayacct_since=table.delayacct_since,
        )  # fmt: skip
        self.update(table.info, job_of)

    def update(self, info: Mapping[ProcessKey, ProcessInfo], job_of: Mapping[ProcessKey, str]) -> None:
        """Add new processes, remove ended ones, and regroup those whose name or job changed."""
        dropped: dict[GroupId, set[ProcessKey]] = {}
        added: dict[GroupId, list[ProcessKey]] = {}
        new = changed(info, self.info)
        if job_of != self.job_of:
            with_new_job = {key for key, _ in job_of.items() ^ self.job_of.items()}
            new = (*new, *(key for key in with_new_job.difference(new) if key in info))
        reordered = any(key in self.info for key in new)
        for key in (*removed(info, self.info), *new):
            old = self.info.get(key)
            if old is not None and self._has_row(key, old):
                dropped.setdefault(self.group_ids[key], set()).add(key)
            if key not in info:
                self.position.pop(key, None)
                self.group_ids.pop(key, None)
        for key in new:
            if key not in self.position:
                self.position[key] = self._next
                self._next += 1
            self.group_ids[key] = (listed_name(info[key]), info[key].user, job_of.get(key, ""))
            if self._has_row(key, info[key]):
                added.setdefault(self.group_ids[key], []).append(key)
        for group_id in dict.fromkeys((*dropped, *added)):
            group, leaving = self.groups.get(group_id), dropped.get(group_id, set())
            kept = [key for key in (group.keys if group is not None else ()) if key not in leaving]
            keys = kept + added.get(group_id, [])
            if leaving or reordered:
                keys.sort(key=self.position.__getitem__)
            if keys:
                self.groups[group_id] = self._group(group_id, keys)
            else:
                self.groups.pop(group_id, None)
        if dropped or reordered:
            self.groups = dict(sorted(self.groups.items(), key=lambda item: self.position[item[1].keys[0]]))
        self.info, self.job_of = info, job_of

    def _has_row(self, key: ProcessKey, info: ProcessInfo) -> bool:
        match = not info.kernel if self._wanted is None else self._wanted.matches(_subject(key, info))
        return bool(match) and key.pid != self._own_pid

    def _group(self, group_id: GroupId, keys: Sequence[ProcessKey]) -> Group:
        name, user, job = group_id
        return Group(name, user, tuple(keys), _idle_rates(self._table, keys[0]), True, job=job)

    def without(self, active: Mapping[GroupId, Sequence[ProcessKey]]) -> Sequence[Group]:
        """The groups without the active processes, in the table's order."""
        smaller: dict[GroupId, Group | None] = {}
        reordered = False
        for group_id, keys in active.items():
            group = self.groups.get(group_id)
            if group is not None:
                busy = set(keys)
                idle = [key for key in group.keys if key not in busy]
                smaller[group_id] = self._group(group_id, idle) if idle else None
                reordered = reordered or bool(idle and idle[0] != group.keys[0])
        if not smaller:
            return tuple(self.groups.values())
        out = [group for group_id, whole in self.groups.items() if (group := smaller.get(group_id, whole)) is not None]
        if reordered:
            out.sort(key=lambda g: self.position[g.keys[0]])
        return out


class IdleGroupsCache:
    """The idle groups of the last two tables or filters, so that a recording and the live machine can alternate."""

    def __init__(self) -> None:
        self._newest: list[_IdleGroups] = []

    def groups(
        self, table: ProcessTable, pattern: str, own_pid: int, job_of: Mapping[ProcessKey, str], *, kernel: bool
    ) -> _IdleGroups:
        """The idle groups of this table, updated from the previous table if the changes since then are known."""
        inputs = _inputs(table, pattern, own_pid, kernel)
        for i, idle in enumerate(self._newest):
            if idle.inputs != inputs:
                continue
            if follows(table.info, idle.info):
                idle.update(table.info, job_of)
            elif job_of == idle.job_of and _equal(table.info, idle.info):
                idle.info = table.info
            else:
                continue
            if i:
                self._newest = [idle, *self._newest[:i]]
            return idle
        idle = _IdleGroups(table, pattern, own_pid, job_of, kernel=kernel)
        self._newest = [idle, *self._newest[:1]]
        return idle


def _inputs(table: ProcessTable, pattern: str, own_pid: int, kernel: bool) -> tuple[object, ...]:
    """The inputs of the idle groups besides the processes and their jobs."""
    return pattern, own_pid, kernel, table.denied, bool(table.delayacct), table.delayacct_since


def _equal(new: Mapping[ProcessKey, ProcessInfo], old: Mapping[ProcessKey, ProcessInfo]) -> bool:
    """Whether both tables hold equal records of the same processes, in the same order."""
    return old is new or (len(old) == len(new) and list(old.items()) == list(new.items()))


_ZERO = ProcessRates._make(0.0 if combine in (_sum, _largest) else combine(()) for combine in _COMBINE_FIELDS)
"""The rates of an idle process, which are 0."""
_UNCOUNTED = _ZERO._replace(io_delay_ratio=None)
"""The rates of an idle process for which the kernel does not count IO-wait."""
_HIDDEN = UNKNOWN_PROCESS_RATES._replace(cpu_ratio=0.0)
"""The rates of an idle process whose I/O is not readable."""


def _idle_rates(table: ProcessTable, key: ProcessKey) -> ProcessRates:
    return _HIDDEN if key in table.denied else _ZERO if table.delay_counted(key) else _UNCOUNTED


def _group(group_id: GroupId, keys: Sequence[ProcessKey], rates: list[ProcessRates]) -> Group:
    name, user, job = group_id
    return Group(name, user, tuple(keys), aggregate(rates), False, job=job)


_LEADING_SHARE = 2 / 3
"""A process leads its group if it has more than this share of the group's figure."""


def _active_group(
    group_id: GroupId, keys: list[ProcessKey], rates: Mapping[ProcessKey, ProcessRates], sort: str
) -> Group:
    """The group of these active processes. The process that leads the group comes first; without one, the process with
    the lowest pid, because equal workers would otherwise take turns.
    """
    keys = sorted(keys)
    rows = [rates[key] for key in keys]
    group = _group(group_id, keys, rows)
    if len(keys) > 1:
        values = sort_values(rows, sort)
        most = max(values)
        if most > _LEADING_SHARE * sum(values):
            keys.insert(0, keys.pop(values.index(most)))
            return group._replace(keys=tuple(keys))
    return group


def ordered(rows: list[Group], view: View) -> list[Group]:
    """The groups sorted by the column that the user chose, then by rates, then by name, so that the order is fixed."""
    rows = sorted(rows, key=lambda g: (g.name, g.user))
    if view.sort in TEXT_SORT_KEYS:
        by_user = view.sort == "user"
        return sorted(rows, key=lambda g: (g.user, g.name) if by_user else (g.name, g.user), reverse=view.reverse)
    rows.sort(key=lambda g: (-(g.io or 0.0), -(g.rates.io_delay_ratio or 0.0), -(g.rates.cpu_ratio or 0.0)))
    rows.sort(key=lambda g: sort_value(g.rates, view.sort), reverse=not view.reverse)
    return rows
