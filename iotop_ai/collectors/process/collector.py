"""Collects all processes in each tick: reads their /proc/PID/io through descriptors that stay open.

After a process has been reaped, its descriptor gives ESRCH even if a new process has the same PID (a zombie can still
be read). The hot path therefore need not check which process a PID belongs to. Only files that changed are parsed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from operator import add

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import TRANSIENT, Root
from iotop_ai.collectors.process.adaptive import (
    IO_COHORTS,
    MIN_PROCESSES,
    AdaptiveSelection,
    EndedIo,
    IoBytes,
    growth_start_ns,
    match_inherited,
)
from iotop_ai.collectors.process.asleep import REREAD_TICKS, SleepCheck
from iotop_ai.collectors.process.delay_accounting import DelayAccounting
from iotop_ai.collectors.process.descriptors import (
    ENDED,
    FORBIDDEN,
    IO_SIZE,
    STAT_SIZE,
    STAT_USUAL,
    UNSEEN,
    ProcessEntry,
    descriptor_room,
    read_kept_file,
    read_once,
)
from iotop_ai.collectors.process.discovery import RECONCILE, PidDiscovery
from iotop_ai.collectors.process.exit_codes import exit_code
from iotop_ai.collectors.process.identity import IdentityReader
from iotop_ai.collectors.process.known_exits import KnownExits
from iotop_ai.collectors.process.parse import (
    PF_KTHREAD,
    ParsedStat,
    interned,
    parse_io,
    parse_stat,
    parse_status,
)
from iotop_ai.collectors.process.sweep import DescriptorBudget, IoSweep, StatSweep, io_weight
from iotop_ai.collectors.process.threads import read_wchans, sample_threads
from iotop_ai.collectors.process.users import Users
from iotop_ai.model.process.change_tracking import TrackedDictBuilder
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable, awake
from iotop_ai.model.reading import Status

COHORTS = 5
"""The number of ticks in which the stat of every idle process is read once."""
ADAPTIVE_COHORTS = IO_COHORTS
"""The number that replaces COHORTS when a tick reads only a part of the io files; a multiple of COHORTS."""
FULL_TICKS = 2
"""The number of first ticks that read every stat, so that the first interval has each process's CPU time."""
CAPTURED_ROOM = 256
"""The most descriptors that are kept for a saved copy of /proc; their number matters only on a live machine."""


class ProcessCollector:
    """Reads every process.

    fd_cap: the most descriptors to keep open; None to keep as many as the system's limits allow.
    adaptive: selects the processes whose io a tick reads; None to read all of them.
    """

    field = "processes"
    every_s = 0.0

    def __init__(
        self,
        root: Root,
        clock: Clock,
        *,
        fd_cap: int | None = None,
        adaptive: AdaptiveSelection | None = None,
        users: Users | None = None,
    ) -> None:
        self._root, self._clock = root, clock
        cap = descriptor_room() if root.live else CAPTURED_ROOM
        self._budget = DescriptorBudget(cap if fd_cap is None else fd_cap)
        self._stats_kept = 0  # the number of stat files that are kept open
        self._io_sweep = IoSweep(root, self._budget)
        self._discovery = PidDiscovery(root)
        self._adaptive = adaptive
        self._partial = False  # whether ticks read only a part of the io files
        self._io_since: dict[ProcessKey, int] = {}  # as in ProcessTable, like _io_stale, _stat_at and _stat_out
        self._ended_io: list[EndedIo] = []  # exited processes whose parents may still inherit their bytes
        self._grown: dict[int, IoBytes] = {}  # by PID, the bytes by which a process grew in this tick
        self._identity = IdentityReader(root, users or Users(root))
        self._clk_tck, self._page_bytes = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        self._delay = DelayAccounting(root)
        self._seq = -1
        self._entries: dict[int, ProcessEntry] = {}
        self._stat_sweep = StatSweep(root, ADAPTIVE_COHORTS)
        self._sleep_check = SleepCheck(root, self._budget)
        self._io: TrackedDictBuilder[ProcessKey, ProcessIo] = TrackedDictBuilder()
        self._stat: TrackedDictBuilder[ProcessKey, ProcessStat] = TrackedDictBuilder(awake)
        self._info: TrackedDictBuilder[ProcessKey, ProcessInfo] = TrackedDictBuilder()
        self._denied: frozenset[ProcessKey] = frozenset()
        self._io_at_ns = 0
        self._io_stale: dict[ProcessKey, int] = {}
        self._stat_at: tuple[int, ...] = (0,) * COHORTS
        self._stat_out: dict[ProcessKey, int] = {}
        self._exited: list[ProcessKey] = []  # the processes of the previous table that have ended since
        self._complete = True
        self._retried_seq = 0  # the tick in which reading denied processes was last tried again
        self._known_exits = KnownExits()

    def read(self) -> ProcessTable:
        """Read the processes once. Raises Unavailable when /proc lists no process, and OSError."""
        self._seq += 1
        self._exited = []
        # The previous table holds these dicts, so only copies of them may be changed.
        for builder in (self._io, self._stat, self._info):
            builder.mark_published()
        self._stat_out, self._io_stale = dict(self._stat_out), dict(self._io_stale)
        admitted = self._admit_new()
        if not self._entries:
            self._root.entries("proc")  # raises OSError if we may not list it, or too many files are open
            raise Unavailable(Status.ABSENT, "no process is listed under /proc", "mount -t proc proc /proc")
        growth = self._read_io(admitted)
        stat_at, adaptive = self._read_stat([*growth, *admitted]), self._adaptive
        delayacct, delayacct_since = self._delay.read(self._stat.now)
        self._identity.users.apply_late_names(self._info)
        keys = [entry.key for entry in sorted(growth, key=growth.__getitem__, reverse=True) if not entry.ended]
        for entry in admitted:
            entry.published = not entry.ended
        return ProcessTable(
            io=self._io.now,
            stat=self._stat.now,
            info=self._info.now,
            denied=self._denied,
            io_at_ns=self._io_at_ns,
            stat_at_ns=stat_at,
            stat_at=self._stat_at,
            stat_out=self._stat_out,
            io_stale=self._io_stale,
            threads=sample_threads(self._root, keys, self._stat.now),
            wchan=read_wchans(self._root, keys, self._stat.now),
            gone=tuple(self._exited),
            complete=self._complete,
            delayacct=delayacct,
            delayacct_since=delayacct_since,
            clk_tck=self._clk_tck,
            page_bytes=self._page_bytes,
            exits=self._exits(),
            **({} if adaptive is None or not self._partial else adaptive.table_fields(self._io.now, self._io_since)),
        )

    def close(self) -> None:
        """Close every descriptor."""
        if self._adaptive is not None:
            self._adaptive.close()
        for entry in self._entries.values():
            entry.ended = True
            self._budget.give_back(entry.io)
            self._budget.give_back(entry.stat)
            entry.io = entry.stat = None
        self._identity.close()
        self._sleep_check.clear()
        self._io_sweep.drop()
        self._entries = {}
        self._stats_kept = 0
        self._stat_sweep.clear()
        self._discovery.close()
        self._known_exits.close()
        self._delay.close()

    def _exits(self) -> dict[ProcessKey, int]:
        """Return the known exit codes of processes that have exited and of zombies."""
        known_exits, entries = self._known_exits, self._entries
        if self._root.live and self._seq == 0:
            known_exits.listen(self._root)
        known_exits.take()
        exits = {key: known_exits.codes[key.pid] for key in self._exited if key.pid in known_exits.codes}
        known_exits.codes = {pid: code for pid, code in known_exits.codes.items() if pid in entries}
        zombies = [pid for pid in known_exits.codes if self._stat.now[entries[pid].key].has_ended()]
        return exits | {entries[pid].key: known_exits.codes[pid] for pid in zombies}

    def _admit_new(self) -> list[ProcessEntry]:
        """Start following the new processes; return them, oldest first."""
        pids = self._discovery.find(self._entries, always=self._many_denied())
        listed = self._discovery.listed
        if self._adaptive is not None and (listed is not None or self._seq == FULL_TICKS):
            # Only the kernel's message reveals the exit of a process that a tick skips.
            self._adaptive.update_allowed(len(self._entries) if self._known_exits.listening else 0)
        if listed is not None:
            vanished = [entry for pid, entry in self._entries.items() if pid not in listed]
            for entry in vanished:
                self._end(entry)
            if vanished:
                self._io_sweep.drop()
        admitted: list[ProcessEntry] = []
        missing: list[int] = []
        hidden = False
        # io and, where every tick reads all processes, schedstat are read more often than stat: they get files first.
        files = 2 if self._adaptive is None else 1
        for remaining, pid in zip(range(len(pids), 0, -1), pids, strict=True):
            room = self._budget.limit - self._budget.in_use - files * (len(admitted) + remaining)
            outcome = self._admit(pid, keep_stat=room > 0)
            hidden |= outcome in FORBIDDEN
            if isinstance(outcome, ProcessEntry):
                admitted.append(outcome)
            elif outcome in ENDED:
                missing.append(pid)
            elif outcome in TRANSIENT:
                self._discovery.probe_again(pid)
        self._discovery.retry_missing(missing)
        for pid, cmdline in self._identity.command_lines.read_later().items():
            entry = self._entries[pid]
            self._info.put(entry.key, interned(self._info.now[entry.key]._replace(cmdline=cmdline)))
            entry.info_may_predate_exec = self._seq > 0
        if listed is not None:
            # If PID 1 is missing, other users' processes are hidden (hidepid=2).
            self._complete = not hidden and (not self._root.live or 1 in listed)
            if self._seq - self._retried_seq >= RECONCILE:
                self._retried_seq = self._seq
                for key in self._denied:
                    self._retry_denied(self._entries[key.pid])
            self._discovery.listed = None  # frees the memory of a large set
        admitted.sort(key=lambda entry: entry.key.start_ticks)
        self._make_room(len(admitted))
        self._deny(self._io_sweep.add(admitted))
        return admitted

    def _make_room(self, count: int) -> None:
        """Close descriptors of other files when fewer than ``count`` are free for io files."""
        if not count or self._budget.in_use + count <= self._budget.limit:
            return
        self._sleep_check.clear()
        lacking = max(0, self._budget.in_use + count - self._budget.limit)
        for entry in [entry for entry in self._entries.values() if entry.stat is not None][:lacking]:
            self._budget.give_back(entry.stat)
            entry.stat = None
            self._stats_kept -= 1

    def _many_denied(self) -> bool:
        """Whether over a tenth of the processes deny their io; listing /proc is then the cheapest way to see exits."""
        return len(self._denied) * 10 > len(self._entries)

    def _admit(self, pid: int, keep_stat: bool) -> ProcessEntry | int:
        """Return a new process's entry, 0 for a thread, or an errno. keep_stat: whether to keep its stat open."""
        path = f"proc/{pid}/stat"
        file = self._budget.keep(self._root, path, STAT_SIZE) if keep_stat else None
        if isinstance(file, OSError):
            return file.errno or errno.EIO
        raw = read_once(self._root, path, STAT_SIZE) if file is None else read_kept_file(file)
        outcome = self._admit_stat(pid, raw)
        if not isinstance(outcome, ProcessEntry):
            self._budget.give_back(file)
        elif file is not None:
            outcome.stat = file
            self._stats_kept += 1
        return outcome

    def _admit_stat(self, pid: int, raw: bytes | OSError) -> ProcessEntry | int:
        """Return the same as ``_admit``. raw: the content of the process's stat file, or the error of its read."""
        if isinstance(raw, OSError):
            return raw.errno or errno.EIO
        try:
            stat = parse_stat(raw)
            tgid, uid = pid, 0
            if not stat.flags & PF_KTHREAD:  # a kernel thread belongs to root and has no further threads
                status = read_once(self._root, f"proc/{pid}/status", 4096)
                if isinstance(status, OSError):
                    return status.errno or errno.EIO
                tgid, uid = parse_status(status)
        except ValueError:  # a saved copy of /proc may lack some files of a process
            return errno.ENOENT
        if tgid != pid:
            return 0
        entry = ProcessEntry(
            ProcessKey(pid, stat.start_ticks), interned(stat.comm), uid, raw, info_may_predate_exec=self._seq > 0
        )
        self._entries[pid] = entry
        self._stat_sweep.add(entry)
        self._stat.put(entry.key, stat.record)
        self._info.put(entry.key, self._identity.read(entry, stat))
        return entry

    def _refresh_info(self, entry: ProcessEntry, stat: ParsedStat) -> None:
        """Read the info again after a possible exec."""
        info = self._identity.read_after_exec(entry, stat)
        if info != self._info.now[entry.key]:
            self._info.put(entry.key, info)
            self._retry_denied(entry)

    def _retry_denied(self, entry: ProcessEntry) -> None:
        """Try again to read the io of a process: after a change of its user, we may be permitted to."""
        if entry.denied and isinstance(read_once(self._root, f"proc/{entry.key.pid}/io", IO_SIZE), bytes):
            entry.denied = False
            self._denied -= {entry.key}
            self._deny(self._io_sweep.add([entry]))

    def _deny(self, entries: Iterable[ProcessEntry]) -> None:
        for entry in (entries := list(entries)):
            entry.denied = True
            self._budget.give_back(entry.io)
            entry.io, entry.io_raw = None, b""
            self._io.drop(entry.key)
            self._io_stale.pop(entry.key, None)
        self._denied |= {entry.key for entry in entries}

    def _end(self, entry: ProcessEntry) -> None:
        if entry.ended:
            return
        entry.ended = True
        self._stats_kept -= entry.stat is not None
        self._budget.give_back(entry.io)
        self._budget.give_back(entry.stat)
        entry.io = entry.stat = None
        self._sleep_check.forget(entry)
        key, pid = entry.key, entry.key.pid
        if self._entries.get(pid) is entry:  # otherwise a new process already has this PID
            del self._entries[pid]
            self._stat_sweep.drop(entry)
        io, stat = self._io.drop(key), self._stat.drop(key)
        if self._partial and io is not None and stat is not None and any(io):
            self._ended_io.append(EndedIo(self._seq, stat.ppid, IoBytes(io.read_bytes, io.write_bytes)))
        self._info.drop(key)
        self._stat_out.pop(key, None)
        self._io_stale.pop(key, None)
        if entry.denied:
            self._denied -= {key}
        if entry.published:
            self._exited.append(key)
        self._discovery.probe_again(pid)  # a new process may already have the same PID

    def _read_io(self, admitted: list[ProcessEntry]) -> dict[ProcessEntry, int]:
        """Read the io of the selected processes, or of all; return how much each one's ``io_weight`` grew."""
        previous_ns, stale, adaptive = self._io_at_ns, self._io_stale, self._adaptive
        self._io_stale, self._io_since, self._grown = {}, {}, {}
        selected = None
        # A parent may be read before it reaps its child, so a child's last counters are kept for one more tick.
        self._ended_io = [ended for ended in self._ended_io if ended.seq >= self._seq - 1]
        if adaptive is not None:
            # Read processes whose exit was reported, to remove them, and their parents, which inherited their bytes.
            pids = (*self._known_exits.codes, *(ended.ppid for ended in self._ended_io))
            others = [self._entries[pid] for pid in pids if pid in self._entries]
            due = self._stat_sweep.due(self._seq % ADAPTIVE_COHORTS, ADAPTIVE_COHORTS) if self._partial else []
            selected = adaptive.select(self._seq, due, (*admitted, *others))
        growth: dict[ProcessEntry, int] = {}
        self._sleep_check.update(self._stat.now)
        growth_bytes = self._store_io(self._io_sweep.run(selected), previous_ns, stale, growth)
        if adaptive is not None and selected is not None:
            # A parent read now may have inherited bytes of a child that just exited, so count that child as exited too.
            self._known_exits.take()
            reported = {entry for pid in self._known_exits.codes if (entry := self._entries.get(pid)) is not None}
            if late := [entry for entry in reported.difference(selected) if not entry.denied]:
                late.sort(key=lambda entry: entry.key.start_ticks)
                more = self._store_io(self._io_sweep.run(late), previous_ns, stale, growth)
                growth_bytes, selected = IoBytes(*map(add, growth_bytes, more)), [*selected, *late]
            seconds = (self._clock.monotonic_ns() - previous_ns) / 1e9
            inherited, self._ended_io = match_inherited(self._ended_io, self._grown, self._entries)
            if not adaptive.balanced(growth_bytes, inherited, seconds):
                count = len(growth)
                self._store_io(self._io_sweep.run(), previous_ns, stale, growth)
                adaptive.record_full_read(len(growth) > count)
                selected = None
        self._io_at_ns = self._clock.monotonic_ns()
        if adaptive is not None:
            adaptive.record_tick(self._seq, self._io_at_ns, selected, growth)
            self._partial = bool(adaptive.io_at)
            self._sleep_check.enable(not self._partial)
        return growth

    def _store_io(
        self,
        changed: list[tuple[ProcessEntry, bytes | OSError]],
        previous_ns: int,
        stale: dict[ProcessKey, int],
        growth: dict[ProcessEntry, int],
    ) -> IoBytes:
        """Store the changed io, add the growth of its weight to ``growth``, and return the bytes for ``balanced``."""
        denied: list[ProcessEntry] = []
        read = written = 0
        any_ended = False
        for entry, raw in changed:
            key = entry.key
            if isinstance(raw, bytes):
                try:
                    old, new = self._io.now.get(key), parse_io(raw)
                except ValueError:  # an empty file in a saved copy of /proc counts as unreadable
                    denied.append(entry)
                    continue
                self._io.put(key, new)
                growth[entry] = growth.get(entry, 0) + io_weight(new) - (io_weight(old) if old is not None else 0)
                if self._partial and self._adaptive is not None:
                    if self._adaptive.grew_only_this_tick(entry):
                        grew = IoBytes(
                            new.read_bytes - (old.read_bytes if old is not None else 0),
                            new.write_bytes - (old.write_bytes if old is not None else 0),
                        )
                        self._grown[key.pid] = grew
                        read, written = read + grew.read, written + grew.written
                    elif (
                        key not in self._io_since
                        and (at := growth_start_ns(self._last_io_ns(key), previous_ns, old, new)) is not None
                    ):
                        self._io_since[key] = at
            elif raw.errno in ENDED:
                any_ended = True
                self._end(entry)
            elif raw.errno in FORBIDDEN:
                denied.append(entry)
            elif key in self._io.now:  # we ran out of memory or descriptors: keep the older record and its time
                self._io_stale[key] = stale.get(key, previous_ns)
        self._deny(denied)
        if any_ended or denied:
            self._io_sweep.drop()
        return IoBytes(read, written)

    def _last_io_ns(self, key: ProcessKey) -> int | None:
        """Return when the process's io was last read; None when every tick reads it."""
        if self._adaptive is None or not self._adaptive.io_at:
            return None
        return self._adaptive.io_out.get(key, self._adaptive.io_at[key.pid % IO_COHORTS])

    def _read_stat(self, wanted: list[ProcessEntry]) -> int:
        """Read the stat of the processes due in this tick and of ``wanted``; return the time of these reads."""
        cohorts = ADAPTIVE_COHORTS if self._partial else COHORTS
        self._stat_at *= max(1, cohorts // len(self._stat_at))
        cohort, full = self._seq % cohorts, self._seq < FULL_TICKS or len(self._stat_at) > cohorts
        turn, turns = (0, 1) if full else (cohort, cohorts)
        due = [entry for entry in self._stat_sweep.due(turn, turns) if full or not self._is_unchanged(entry)]
        # The first tick must be fast. A full reading of so many processes may be followed by partial ones.
        if self._seq > 0 and not (full and len(due) >= MIN_PROCESSES):
            self._sleep_check.probe(due, self._stat.now)
        changes = self._stat_sweep.changed(due)
        others = [entry for entry in wanted if not entry.ended]
        if not self._many_denied():  # denied processes have no io descriptor that would reveal their exit
            others += [self._entries[key.pid] for key in self._denied]
        extra = () if full else dict.fromkeys(entry for entry in others if entry.key.pid % cohorts != cohort)
        results = self._stat_sweep.read(extra)
        at, before = self._clock.monotonic_ns(), self._stat_at[:cohorts]
        self._stat_at = tuple(at if full or i == cohort else old for i, old in enumerate(before))
        # The time of this tick's read applies to all processes that were due, including those that did not change.
        out = [key for key in self._stat_out if full or key.pid % cohorts == cohort]
        older = {key: self._stat_out.pop(key) for key in out}
        for entry, raw in changes:
            if not self._store_result(entry, raw) and not entry.ended:
                earlier = older.get(entry.key, before[entry.key.pid % cohorts])
                self._stat_out[entry.key] = earlier if entry.published else at
        for entry, raw in results:
            if self._store_result(entry, raw) or not (entry.denied or entry.published or entry.ended):
                self._stat_out[entry.key] = at
        self._sleep_check.confirm(self._stat.now, self._stat_out)
        if reaped := self._sleep_check.reaped():
            for entry in reaped:
                self._end(entry)
            self._io_sweep.drop()
        return at

    def _is_unchanged(self, entry: ProcessEntry) -> bool:
        """Whether the stat of an entry that is due need not be read, because its process is asleep."""
        return (
            entry.asleep
            and not entry.info_may_predate_exec
            and (entry.key.pid - self._seq) % REREAD_TICKS != 0
            and self._stat.now[entry.key].ppid in self._entries
        )

    def _store_result(self, entry: ProcessEntry, raw: bytes | OSError) -> bool:
        """Store a stat line; return False for an error. An entry ends if another process has the PID now."""
        if isinstance(raw, bytes) and self._store_stat(entry, raw):
            return True
        if isinstance(raw, bytes) or (entry.denied and raw.errno in ENDED):
            self._end(entry)
            if not entry.denied:
                self._io_sweep.drop()
        return False

    def _store_stat(self, entry: ProcessEntry, raw: bytes) -> bool:
        """Store a stat line; return False when another process has the PID now."""
        if (new_hash := hash(raw)) == entry.stat_hash:
            return True
        parsed = parse_stat(raw)
        if parsed.start_ticks != entry.key.start_ticks:
            return False
        if parsed.record != (before := self._stat.now[entry.key]):
            self._stat.put(entry.key, parsed.record)
            if parsed.record.cminflt != before.cminflt:
                self._sleep_check.reapers.add(entry.key.pid)
            if parsed.record.has_ended() and not entry.denied:
                self._known_exits.codes[entry.key.pid] = exit_code(parsed.exit_status)
        if entry.published and (entry.info_may_predate_exec or parsed.comm != entry.comm):
            entry.comm = parsed.comm
            self._refresh_info(entry, parsed)
        entry.stat_hash = UNSEEN if entry.info_may_predate_exec or len(raw) >= STAT_USUAL else new_hash
        return True
