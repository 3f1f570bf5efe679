"""Processes folded: equal ones are one row, because 64 equal workers bury the answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from iotop_ai.model.followed import changed, follows, gone
from iotop_ai.model.frame import Frame
from iotop_ai.model.process import UNKNOWN_PROCESS_RATES, ProcessInfo, ProcessKey, ProcessRates, ProcessTable
from iotop_ai.model.process_rates import process_rates
from iotop_ai.model.record import NamedTuple
from iotop_ai.present.memo import once_a_frame
from iotop_ai.present.process_tree import branches, parents, with_parents
from iotop_ai.present.query import Filter, Subject, understood
from iotop_ai.present.view import View


class Group(NamedTuple):
    """Processes of one name and user. Bytes are sums of what is known, cpu and delay the largest of its members.

    None: not known of any member. idle: none of them did anything. The row's key is that of the first of ``keys``.
    mark: the lines of a tree before the name.
    """

    name: str
    user: str
    keys: tuple[ProcessKey, ...]
    rates: ProcessRates
    idle: bool
    mark: str = ""

    @property
    def io(self) -> float | None:
        """Bytes read and written per second."""
        read, write = self.rates.read_bytes_per_s, self.rates.write_bytes_per_s
        return None if read is None and write is None else (read or 0.0) + (write or 0.0)

    @property
    def row_key(self) -> str:
        """The key of its row."""
        return f"process:{self.keys[0].pid}"

    @property
    def headed(self) -> Group:
        """With the first of its processes alone, by which it is named: its row hangs on no other."""
        return self if len(self.keys) == 1 else self._replace(keys=self.keys[:1])

    @property
    def label(self) -> str:
        """The name with its count ("train.py x8")."""
        return self.name if len(self.keys) == 1 else f"{self.name} x{len(self.keys)}"


@once_a_frame
def rates_of(frame: Frame, view: View) -> tuple[Mapping[ProcessKey, ProcessRates] | None, float | None]:
    """Rates of the processes that did something: of the newest interval, or since the base with its seconds."""
    base, now = view.base, frame.snapshot
    if base is None:
        rated = frame.sample.processes
        if rated.value is None or rated.seconds is None:
            return None, None
        return rated.value.rates, None
    if base.host.boot_id != now.host.boot_id or base.processes.at_ns == now.processes.at_ns:
        return None, None
    summed = process_rates(base.processes, now.processes, None)
    return (None if summed.value is None else summed.value.rates), summed.seconds


def _known(values: Sequence[float | None]) -> Sequence[float]:
    return [v for v in values if v is not None]


def _largest(values: Sequence[float | None]) -> float | None:
    return max(_known(values), default=None)


def _sum(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None


def together(rates: list[ProcessRates]) -> ProcessRates:
    """The rates of a fold."""
    if len(rates) == 1:
        return rates[0]
    read, write, cancelled, rchar, wchar, reads, writes, cpu, delay, faults, children, main = zip(*rates, strict=True)
    return ProcessRates(
        _sum(read),
        _sum(write),
        _sum(cancelled),
        _sum(rchar),
        _sum(wchar),
        _sum(reads),
        _sum(writes),
        _largest(cpu),
        _largest(delay),
        _sum(faults),
        any(children),
        any(main),
    )


def _is_idle(rates: ProcessRates, key: ProcessKey, table: ProcessTable) -> bool:
    """A process whose io may not be read and that uses no CPU tells nothing: it stands with the idle ones."""
    if rates.cpu_ratio or key not in table.denied:
        return False
    stat = table.stat.get(key)
    return stat is None or stat.state != "D"


@once_a_frame
def groups(frame: Frame, view: View) -> tuple[Group, ...]:
    """All processes folded, filtered and sorted; those that did nothing last, and left out with only_active.

    In a tree each alone, under its parent; what is above one that is meant is there, too.
    """
    table = frame.snapshot.processes.value
    if table is None:
        return ()
    rates = rates_of(frame, view)[0]
    wanted = understood(view.pattern) if view.pattern else None
    if wanted is not None and wanted.query:
        asked = _asked(table, wanted, rates, view.tagged)
        if view.tree:
            return _tree(table, asked.info, rates, view, frame.snapshot.own.pid)
        table, wanted = asked, None
    elif view.tree:
        named = {k: i for k, i in table.info.items() if (wanted.answer(_named(k, i)) if wanted else not i.kernel)}
        return _tree(table, named, rates, view, frame.snapshot.own.pid)
    resting = _resting(table, view.pattern, frame.snapshot.own.pid)
    if rates is None:
        if view.only_active:
            return ()
        found = [_group(g[:2], list(g.keys), [UNKNOWN_PROCESS_RATES]) for g in resting.groups.values()]
        return tuple(ordered(found, view))
    active: dict[tuple[str, str], list[ProcessKey]] = {}
    busy = [key for key, rate in rates.items() if key in resting.place and not _is_idle(rate, key, table)]
    for key in sorted(busy, key=resting.place.__getitem__):
        info = table.info[key]
        if wanted is None or wanted.answer(_named(key, info)):
            active.setdefault((info.name, info.user), []).append(key)
    found = ordered([_group(who, keys, [rates[k] for k in keys]) for who, keys in active.items()], view)
    if view.only_active:
        return tuple(found)
    quiet = resting.without(active)
    if view.sort in ("name", "user"):
        quiet = ordered(list(quiet), view)
    return (*found, *quiet)


EVERY = Filter(lambda _one: True)


def _named(key: ProcessKey, info: ProcessInfo) -> Subject:
    return Subject(key, info, None, None, 0)


def alone(frame: Frame, view: View, keys: Collection[ProcessKey]) -> list[Group]:
    """These processes each by itself, sorted as the viewer's rows are."""
    table, rates = frame.snapshot.processes.value, rates_of(frame, view)[0]
    if table is None:
        return []
    resting = _ZERO._replace(io_delay_ratio=0.0 if table.delayacct else None)
    out = []
    for key in sorted(keys):
        info = table.info.get(key)
        if info is not None:
            rest = _HIDDEN if key in table.denied else resting
            rate = UNKNOWN_PROCESS_RATES if rates is None else rates.get(key, rest)
            out.append(Group(info.name, info.user, (key,), rate, False))
    return ordered(out, view)


def _asked(
    table: ProcessTable, wanted: Filter, rates: Mapping[ProcessKey, ProcessRates] | None, tagged: frozenset[ProcessKey]
) -> ProcessTable:
    """The table with those processes only that a query asks for."""
    resting = _ZERO._replace(io_delay_ratio=0.0 if table.delayacct else None)

    def subject(key: ProcessKey, info: ProcessInfo) -> Subject:
        rate = None if rates is None else rates.get(key, _HIDDEN if key in table.denied else resting)
        return Subject(key, info, rate, table.stat.get(key), table.page_bytes, key in tagged)

    return table._replace(info={k: info for k, info in table.info.items() if wanted.answer(subject(k, info))})


def _tree(
    table: ProcessTable,
    meant: Mapping[ProcessKey, ProcessInfo],
    rates: Mapping[ProcessKey, ProcessRates] | None,
    view: View,
    own: int,
) -> tuple[Group, ...]:
    """Those that are meant and all above them, each a row, the branch that does most first."""
    resting = UNKNOWN_PROCESS_RATES
    if rates is not None:
        resting = _ZERO._replace(io_delay_ratio=0.0 if table.delayacct else None)
        if view.only_active:
            meant = {key: info for key, info in meant.items() if key in rates and not _is_idle(rates[key], key, table)}
    above = parents(table)
    found = {}
    for key in with_parents((key for key in meant if key.pid != own), above):
        info, rate = table.info[key], None if rates is None else rates.get(key)
        rest = _HIDDEN if key in table.denied and rates is not None else resting
        idle = rate is None or _is_idle(rate, key, table)
        found[key] = Group(info.name, info.user, (key,), rest if rate is None else rate, idle)
    if view.sort in ("name", "user"):
        by = sorted(found, key=lambda k: (getattr(found[k], view.sort), found[k].name), reverse=view.reverse)
        measures: dict[ProcessKey, tuple[float, ...]] = {key: (float(-i),) for i, key in enumerate(by)}
    else:
        sign = -1.0 if view.reverse else 1.0
        measures = {k: (sign * _measure(g, view.sort), g.io or 0.0, g.rates.cpu_ratio or 0.0) for k, g in found.items()}
    return tuple(found[key]._replace(mark=mark) for key, mark in branches(measures, above))


class _Resting:
    """All processes folded as if none did anything: what of it is busy is taken out each second.

    There are many of these and few come or go, so the folds are kept. place: each process's place in the table.
    """

    def __init__(self, table: ProcessTable, pattern_: str, own: int) -> None:
        self.told = (pattern_, own, table.denied, bool(table.delayacct))
        self.info: Mapping[ProcessKey, ProcessInfo] = {}
        self.place: dict[ProcessKey, int] = {}
        self._own, self._next = own, 0
        wanted = understood(pattern_) if pattern_ else None
        # Of a query the table holds those that it asks for, and no others.
        self._wanted = EVERY if wanted is not None and wanted.query else wanted
        resting = _ZERO._replace(io_delay_ratio=0.0 if table.delayacct else None)
        self._denied, self._rates = table.denied, (resting, _HIDDEN)
        self.groups: dict[tuple[str, str], Group] = {}
        self.follow(table.info)

    def follow(self, info: Mapping[ProcessKey, ProcessInfo]) -> None:
        """Take in who came, went or changed its name."""
        less: dict[tuple[str, str], set[ProcessKey]] = {}
        more: dict[tuple[str, str], list[ProcessKey]] = {}
        came = changed(info, self.info)
        new_order = any(key in self.info for key in came)
        for key in (*gone(info, self.info), *came):
            old = self.info.get(key)
            if old is not None and self._means(key, old):
                less.setdefault((old.name, old.user), set()).add(key)
            if key not in info:
                self.place.pop(key, None)
        for key in came:
            if key not in self.place:
                self.place[key] = self._next
                self._next += 1
            if self._means(key, info[key]):
                more.setdefault((info[key].name, info[key].user), []).append(key)
        for who in dict.fromkeys((*less, *more)):
            whole, went = self.groups.get(who), less.get(who, set())
            keys = [key for key in (whole.keys if whole is not None else ()) if key not in went] + more.get(who, [])
            if went or new_order:
                keys.sort(key=self.place.__getitem__)
            if keys:
                self.groups[who] = self._fold(who, keys)
            else:
                self.groups.pop(who, None)
        if less or new_order:
            self.groups = dict(sorted(self.groups.items(), key=lambda item: self.place[item[1].keys[0]]))
        self.info = info

    def _means(self, key: ProcessKey, info: ProcessInfo) -> bool:
        """Whether a process stands among the rows."""
        meant = not info.kernel if self._wanted is None else self._wanted.answer(_named(key, info))
        return bool(meant) and key.pid != self._own

    def _fold(self, who: tuple[str, str], keys: Sequence[ProcessKey]) -> Group:
        return Group(*who, tuple(keys), self._rates[keys[0] in self._denied], True)

    def without(self, active: Mapping[tuple[str, str], Sequence[ProcessKey]]) -> Sequence[Group]:
        """The folds of those that rest, in the table's order."""
        other: dict[tuple[str, str], Group | None] = {}
        moved = False
        for who, keys in active.items():
            whole = self.groups.get(who)
            if whole is not None:
                busy = set(keys)
                left = [key for key in whole.keys if key not in busy]
                other[who] = self._fold(who, left) if left else None
                moved = moved or bool(left and left[0] != whole.keys[0])
        if not other:
            return tuple(self.groups.values())
        out = [group for who, whole in self.groups.items() if (group := other.get(who, whole)) is not None]
        if moved:
            out.sort(key=lambda g: self.place[g.keys[0]])
        return out


_FOLDED: list[_Resting] = []


def _resting(table: ProcessTable, pattern_: str, own: int) -> _Resting:
    """The folds of this table: those of the one before while the same processes are there."""
    told = (pattern_, own, table.denied, bool(table.delayacct))
    for i, kept in enumerate(_FOLDED):
        if kept.told != told:
            continue
        if follows(table.info, kept.info):
            kept.follow(table.info)
        elif _same(table.info, kept.info):
            kept.info = table.info
        else:
            continue
        if i:
            _FOLDED[:] = [kept, *_FOLDED[:i]]
        return kept
    made = _Resting(table, pattern_, own)
    _FOLDED[:] = [made, *_FOLDED[:1]]
    return made


def _same(new: Mapping[ProcessKey, ProcessInfo], old: Mapping[ProcessKey, ProcessInfo]) -> bool:
    """Whether these are the same processes with the same names, in the same order."""
    return old is new or (len(old) == len(new) and list(old.items()) == list(new.items()))


_ZERO = ProcessRates(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None, 0.0)
_HIDDEN = UNKNOWN_PROCESS_RATES._replace(cpu_ratio=0.0)
"""What rests and may not be read."""


def _group(who: tuple[str, str], keys: list[ProcessKey], rates: list[ProcessRates]) -> Group:
    return Group(*who, tuple(sorted(keys)), together(rates), False)


def _measure(group: Group, sort: str) -> float:
    r = group.rates
    value = {
        "read": r.read_bytes_per_s,
        "write": r.write_bytes_per_s,
        "delay": r.io_delay_ratio,
        "cpu": r.cpu_ratio,
    }.get(sort, group.io)
    return -1.0 if value is None else value


def ordered(found: list[Group], view: View) -> list[Group]:
    """Sorted by the viewer's column; equal ones by what they do and then by name, so that they keep their places."""
    found = sorted(found, key=lambda g: (g.name, g.user))
    if view.sort in ("name", "user"):
        by_user = view.sort == "user"
        return sorted(found, key=lambda g: (g.user, g.name) if by_user else (g.name, g.user), reverse=view.reverse)
    found.sort(key=lambda g: (-(g.io or 0.0), -(g.rates.io_delay_ratio or 0.0), -(g.rates.cpu_ratio or 0.0)))
    found.sort(key=lambda g: _measure(g, view.sort), reverse=not view.reverse)
    return found
