"""Subtracts the I/O of a child from that of the process that inherited it.

At wait() the kernel adds the whole I/O of the child to the /proc/PID/io of its parent, and at the same time the child's
minflt + cminflt to the parent's cminflt (kernel/exit.c, wait_task_zombie). Without this module, the bytes of the child
would appear a second time, in one burst, as those of the parent. The growth of cminflt shows which process inherited.
It need not be the parent: if the parent ignores SIGCHLD, nothing is added, and the I/O of an orphan goes to its
subreaper or to init. Here a debt is the I/O of a process that has vanished, and its heir is the process that inherited
that I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.process.change_tracking import changed, removed
from iotop_ai.model.process.records import Debt, ProcessIo, ProcessKey, ProcessSample, ProcessTable

MOST_ANCESTORS = 64
"""The largest number of ancestors to follow. Only a damaged table has a longer chain or a cycle."""


class Settlement(NamedTuple):
    """The part of each process's growth that came from its children."""

    taken: Mapping[ProcessKey, ProcessIo]
    """The I/O to subtract from each process's growth since ``before``."""
    marked: frozenset[ProcessKey]
    """Processes that inherited I/O whose amount is not known exactly."""
    debts: tuple[Debt, ...]
    """The new debts without an heir. They are tried once more, with the next table (see ProcessSample)."""
    cminflt_before: Mapping[ProcessKey, int]
    """For each process that may still inherit one of these debts, the cminflt from which its growth counts."""


class _Heirs:
    """The processes that may be heirs, with the part of their growth that is not yet assigned to a debt.

    These are the processes in both tables whose cminflt grew.

    earlier: for each process that may inherit a waiting debt, the older cminflt from which its growth counts
    """

    def __init__(self, before: ProcessTable, after: ProcessTable, earlier: Mapping[ProcessKey, int]) -> None:
        self._before = before
        self._after = after
        self.unclaimed_faults: dict[ProcessKey, int] = {}
        """The growth of each process's cminflt that is not yet assigned to a debt."""
        self.claimed_faults: dict[ProcessKey, int] = {}
        """The growth of each process's cminflt that is assigned to debts."""
        for key in dict.fromkeys((*changed(after.stat, before.stat), *earlier)):
            old, new = before.stat.get(key), after.stat.get(key)
            if old is not None and new is not None:
                growth = new.cminflt - earlier.get(key, old.cminflt)
                if growth > 0:
                    self.unclaimed_faults[key] = growth

    @cached_property
    def unclaimed_io(self) -> dict[ProcessKey, list[int]]:
        """The growth of each process's I/O counters that is not yet assigned to a debt."""
        out = {}
        for key in self.unclaimed_faults:
            old, new = self._before.io.get(key), self._after.io.get(key)
            if old is not None and new is not None:
                out[key] = [b - a for a, b in zip(old, new, strict=True)]
        return out

    def fits(self, key: ProcessKey, debt: Debt) -> bool:
        """Whether the unclaimed growth of this process can contain the whole debt."""
        unclaimed = self.unclaimed_io.get(key)
        return (
            unclaimed is not None
            and self.unclaimed_faults[key] >= debt.faults
            and all(free >= owed for free, owed in zip(unclaimed, debt.io, strict=True))
        )

    def equals(self, key: ProcessKey, debt: Debt) -> bool:
        """Whether the unclaimed growth of this process equals the debt, as when a parent did nothing but wait."""
        return self.unclaimed_faults.get(key) == debt.faults and self.unclaimed_io.get(key) == list(debt.io)

    def claim(self, key: ProcessKey, debt: Debt) -> None:
        """Subtract the debt from the process's unclaimed I/O and faults."""
        self.unclaimed_io[key] = [free - owed for free, owed in zip(self.unclaimed_io[key], debt.io, strict=True)]
        self.claim_faults(key, debt.faults)

    def claim_faults(self, key: ProcessKey, faults: int) -> None:
        """Subtract faults from the process's unclaimed faults, for a debt whose I/O is unknown or already claimed."""
        self.unclaimed_faults[key] -= faults
        self.claimed_faults[key] = self.claimed_faults.get(key, 0) + faults

    def taken(self) -> dict[ProcessKey, ProcessIo]:
        """For each process, the I/O that debts have claimed."""
        out = {}
        for key in self.claimed_faults.keys() & self.unclaimed_io.keys():
            old, new = self._before.io[key], self._after.io[key]
            out[key] = ProcessIo(*(b - a - free for a, b, free in zip(old, new, self.unclaimed_io[key], strict=True)))
        return out

    def cminflt_before(self, earlier: Mapping[ProcessKey, int]) -> dict[ProcessKey, int]:
        """For each process with unclaimed faults, the cminflt from which its growth counts with the next table.

        Claims first use up the growth that precedes ``before``; what is left of it no longer counts.
        """
        out = {}
        for key, left in self.unclaimed_faults.items():
            now, old = self._after.stat[key].cminflt, self._before.stat[key].cminflt
            earlier_growth = old - earlier.get(key, old)
            base = old + max(0, self.claimed_faults.get(key, 0) - earlier_growth)
            if left > 0 and base < now:
                out[key] = base
        return out


_last_call: list[tuple[ProcessTable, ProcessTable, tuple[Debt, ...], Mapping[ProcessKey, int], Settlement]] = []
"""The arguments and the result of the last call of ``settle``, which are kept because the rates and the job times of a
tick need the same result."""


def settle(before: ProcessTable, after: ProcessTable, last: ProcessSample | None) -> Settlement:
    """The settlement between two tables, cached for a second call with the same arguments.

    last: the ProcessSample that ends at ``before``
    """
    waiting = last.debts if last is not None else ()
    earlier = last.cminflt_before if last is not None else {}
    for old, new, debts, cminflt, settlement in tuple(_last_call):
        if old is before and new is after and debts == waiting and cminflt == earlier:
            return settlement
    settlement = _find_settlement(before, after, waiting, earlier)
    _last_call[:] = [(before, after, waiting, earlier, settlement)]
    return settlement


def _find_settlement(
    before: ProcessTable, after: ProcessTable, waiting: tuple[Debt, ...], earlier: Mapping[ProcessKey, int]
) -> Settlement:
    """Find the heirs of the processes that vanished between two tables.

    There are three passes over the debts, each from the oldest process to the youngest. The first pass assigns a debt
    to the nearest ancestor whose growth equals it; the second, to the nearest ancestor whose growth covers it in all
    seven I/O fields and in faults; the third, if an ancestor is unknown, to the only process that covers it. (In a
    single pass, a debt without an heir would take the bytes of a younger child: on random process trees, this doubled
    the number of bytes that were counted twice.)

    A debt that fits no process, or whose nearest living ancestor was not read again, waits for one more table: its heir
    may have been read before the wait(). The heir's growth of cminflt then covers both intervals, because stat is read
    after io: cminflt may already include a wait() that the io does not. The heir of a process whose I/O is not exactly
    known is ``marked``.
    """
    vanished = sorted(removed(after.stat, before.stat))
    heirs = _Heirs(before, after, earlier)
    if not vanished and not waiting:
        return Settlement({}, frozenset(), (), heirs.cminflt_before(earlier))
    debts: list[Debt] = list(waiting)
    inexact: list[Debt] = []  # the I/O of these processes is unknown, or was not read again for ``before``
    for key in vanished:
        stat, io = before.stat[key], before.io.get(key)
        debt = Debt(key, stat.ppid, io or ProcessIo(*[0] * 7), stat.minflt + stat.cminflt)
        if io is None or before.io_time(key) != before.io_at_ns:
            inexact.append(debt)
        if io is not None:
            debts.append(debt)
    debts.sort(key=lambda debt: (debt.key.start_ticks, debt.key.pid))
    # If no cminflt grew, no process inherited anything, so the ancestors are not needed.
    parents = _Parents(before, after, vanished, waiting) if heirs.unclaimed_faults and (debts or inexact) else None
    marked: set[ProcessKey] = set()
    inexact_keys = {debt.key for debt in inexact}
    for find_heir in (_equal_ancestor, _covering_ancestor, _only_other_heir):
        left = []
        for debt in debts:
            # Some ancestors of a waiting debt may no longer be known, because they vanished earlier.
            heir = None if find_heir is _only_other_heir and debt in waiting else find_heir(debt, heirs, parents)
            if heir is None:
                left.append(debt)
                continue
            heirs.claim(heir, debt)
            if debt.key in inexact_keys:
                marked.add(heir)
        debts = left
    debts = [debt for debt in debts if debt not in waiting and any(debt.io)]
    for debt in inexact:
        if debt.key not in before.io:
            heir = next(
                (k for k in _possible_heirs(debt, parents) if heirs.unclaimed_faults.get(k, -1) >= debt.faults), None
            )
            if heir is not None:
                heirs.claim_faults(heir, debt.faults)
                marked.add(heir)
    return Settlement(heirs.taken(), frozenset(marked), tuple(debts), heirs.cminflt_before(earlier))


def _equal_ancestor(debt: Debt, heirs: _Heirs, parents: _Parents | None) -> ProcessKey | None:
    return next((key for key in _ancestors(debt, parents) if heirs.equals(key, debt)), None)


def _covering_ancestor(debt: Debt, heirs: _Heirs, parents: _Parents | None) -> ProcessKey | None:
    return next((key for key in _possible_heirs(debt, parents) if heirs.fits(key, debt)), None)


def _only_other_heir(debt: Debt, heirs: _Heirs, parents: _Parents | None) -> ProcessKey | None:
    # Only an ancestor inherits. If all ancestors are known and none fits, the parent ignores SIGCHLD, and a process
    # whose growth fits did that I/O itself. Otherwise the heir may be an unknown ancestor, which started earlier.
    if _knows_all_ancestors(debt, parents) or _is_heir_unread(debt, parents):
        return None
    fitting = [key for key in heirs.unclaimed_io if key.start_ticks <= debt.key.start_ticks and heirs.fits(key, debt)]
    return fitting[0] if len(fitting) == 1 else None


class _Parents:
    """The processes by pid, each with its ppid: living ones, those that just vanished, and those of waiting debts."""

    def __init__(
        self, before: ProcessTable, after: ProcessTable, gone: Iterable[ProcessKey], waiting: Iterable[Debt]
    ) -> None:
        self._before, self._after = before, after
        self._alive = dict(zip(map(_PID, after.stat), after.stat, strict=True))
        self._gone: dict[int, list[tuple[ProcessKey, int]]] = {}
        for key, ppid in {
            **{debt.key: debt.ppid for debt in waiting},
            **{k: before.stat[k].ppid for k in gone},
        }.items():
            self._gone.setdefault(key.pid, []).append((key, ppid))

    def is_listed(self, key: ProcessKey) -> bool:
        """Whether the newer table has the process."""
        return key in self._after.stat

    def was_read(self, key: ProcessKey) -> bool:
        """Whether the io of the process was read since the older table; also if it cannot be read."""
        return key not in self._after.io or self._after.io_time(key) != self._before.io_time(key)

    def get(self, pid: int) -> list[tuple[ProcessKey, int]]:
        """The processes that have or had this pid, as (key, ppid)."""
        key = self._alive.get(pid)
        gone = self._gone.get(pid, [])
        return gone if key is None else [*gone, (key, self._after.stat[key].ppid)]


_PID = itemgetter(ProcessKey._fields.index("pid"))


def _ancestors(debt: Debt, parents: _Parents | None) -> Iterator[ProcessKey]:
    """The ancestors, nearest first. Of several processes with one pid, the youngest that is older than its child."""
    if parents is None:
        return
    child, ppid = debt.key, debt.ppid
    for _ in range(MOST_ANCESTORS):
        owners = [owner for owner in parents.get(ppid) if owner[0].start_ticks <= child.start_ticks]
        if not owners:
            return
        child, ppid = max(owners, key=lambda owner: owner[0].start_ticks)
        yield child


def _possible_heirs(debt: Debt, parents: _Parents | None) -> Iterable[ProcessKey]:
    """The ancestors that may have inherited, nearest first; () if the nearest one was not read yet."""
    return () if _is_heir_unread(debt, parents) else _ancestors(debt, parents)


def _is_heir_unread(debt: Debt, parents: _Parents | None) -> bool:
    """Whether the nearest living ancestor was not read between the two tables.

    It may have inherited since it was read. An older ancestor that grew by more would only seem to be the heir.
    """
    if parents is None:
        return False
    nearest = next((key for key in _ancestors(debt, parents) if parents.is_listed(key)), None)
    return nearest is not None and not parents.was_read(nearest)


def _knows_all_ancestors(debt: Debt, parents: _Parents | None) -> bool:
    """Whether all ancestors are known, up to a process without a parent."""
    ancestors = list(_ancestors(debt, parents))
    return parents is not None and bool(ancestors) and (ancestors[-1], 0) in parents.get(ancestors[-1].pid)
