"""All processes, each tick: an exact sweep of /proc/PID/io over kept descriptors.

A kept descriptor of a process that was reaped gives ESRCH even when its pid is used again (a zombie still reads), so
no identity is checked on the hot path. Idle processes' bytes are the same as before: only what changed is parsed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.process_adaptive import IO_COHORTS, Adaptive, Left, Moved, inherited, since
from iotop_ai.collectors.process_find import RECONCILE, NewPids
from iotop_ai.collectors.process_look import look_at_threads, look_at_wchan
from iotop_ai.collectors.process_parse import (
    PF_KTHREAD,
    parse_cgroup,
    parse_cmdline,
    parse_io,
    parse_stat,
    parse_status,
    same,
)
from iotop_ai.collectors.process_slot import (
    ENDED,
    FORBIDDEN,
    IO_SIZE,
    STAT_SIZE,
    STAT_USUAL,
    UNSEEN,
    Slot,
    descriptor_room,
    keep,
    read_of,
    read_once,
)
from iotop_ai.collectors.process_sweep import IoSweep, Room, StatSweep
from iotop_ai.collectors.root import KeptFile, Root
from iotop_ai.collectors.taskstats import ExitWatch, exit_code
from iotop_ai.collectors.users import Users
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.followed import Ledger
from iotop_ai.model.process import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable, awake
from iotop_ai.model.reading import Status
from iotop_ai.model.typed import Any

COHORTS = 5
"""Ticks in which the stat of every idle process is read once."""
FINE = IO_COHORTS
"""The same where not every io is read in every tick; a multiple of COHORTS."""
FULL_TICKS = 2
"""First ticks that read every stat, so that the first interval knows everybody's CPU."""
CAPTURED_ROOM = 256
"""Descriptors kept in a captured tree, where cost does not matter."""


def weight(io: ProcessIo) -> int:
    """Orders processes by what they moved: bytes of storage first, bytes of the cache among equals."""
    return (io.read_bytes + io.write_bytes) * 1024 + io.rchar + io.wchar


class ProcessCollector:
    """Reads every process. root: the machine; fd_cap: descriptors to keep, None for what the limits allow.

    adaptive: chooses whom to read, None reads all in every tick.
    """

    field = "processes"
    every_s = 0.0

    def __init__(
        self, root: Root, clock: Clock, *, fd_cap: int | None = None, adaptive: Adaptive | None = None
    ) -> None:
        self._root = root
        self._clock = clock
        if fd_cap is None:
            fd_cap = descriptor_room() if root.live else CAPTURED_ROOM
        self._room = Room(fd_cap)
        self._stats_kept = 0
        self._sweep = IoSweep(root, self._room)
        self._new_pids = NewPids(root)
        self._adaptive = adaptive
        self._partly = False
        self._io_since: dict[ProcessKey, int] = {}
        self._left: list[Left] = []
        self._grown: dict[int, Moved] = {}
        self._users = Users(root)
        self._clk_tck = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._delayacct: KeptFile | OSError | None = None
        self._seq = -1
        self._slots: dict[int, Slot] = {}
        self._stats = StatSweep(root, FINE)
        self._io: Ledger[ProcessKey, ProcessIo] = Ledger()
        self._stat: Ledger[ProcessKey, ProcessStat] = Ledger(awake)
        self._info: Ledger[ProcessKey, ProcessInfo] = Ledger()
        self._denied: frozenset[ProcessKey] = frozenset()
        self._io_at = 0
        self._io_stale: dict[ProcessKey, int] = {}
        self._stat_at: tuple[int, ...] = (0,) * COHORTS
        self._stat_out: dict[ProcessKey, int] = {}
        self._gone: list[ProcessKey] = []
        self._complete = True
        self._asked = 0
        self._exit_watch: ExitWatch | None = None
        self._codes: dict[int, int] = {}

    def read(self) -> ProcessTable:
        """One sweep. Raises Unavailable when no process is listed."""
        self._seq += 1
        self._gone = []
        # The dicts of the table before were handed out: what changes is changed in copies.
        for ledger in (self._io, self._stat, self._info):
            ledger.turn()
        self._stat_out, self._io_stale = dict(self._stat_out), dict(self._io_stale)
        fresh = self._find()
        if not self._slots:
            raise Unavailable(Status.ABSENT, "no process is listed under /proc", "mount -t proc proc /proc")
        moved = self._read_io(fresh)
        stat_at = self._read_stat([*moved, *fresh])
        busy = sorted((slot for slot in moved if not slot.ended), key=moved.__getitem__, reverse=True)
        keys = [slot.key for slot in busy]
        for slot in fresh:
            slot.published = not slot.ended
        return ProcessTable(
            io=self._io.now,
            stat=self._stat.now,
            info=self._info.now,
            denied=self._denied,
            io_at_ns=self._io_at,
            stat_at_ns=stat_at,
            stat_at=self._stat_at,
            stat_out=self._stat_out,
            io_stale=self._io_stale,
            threads=look_at_threads(self._root, keys, self._stat.now),
            wchan=look_at_wchan(self._root, keys, self._stat.now),
            gone=tuple(self._gone),
            complete=self._complete,
            delayacct=self._delay_accounting(),
            clk_tck=self._clk_tck,
            page_bytes=self._page_bytes,
            exits=self._exits(),
            **self._when(),
        )

    def _when(self) -> dict[str, Any]:
        """What the table says of times where not every io is read in every tick."""
        if not self._partly or self._adaptive is None:
            return {}
        out = {key: at for key, at in self._adaptive.io_out.items() if key in self._io.now}
        return {"adaptive": True, "io_at": self._adaptive.io_at, "io_out": out, "io_since": self._io_since}

    def close(self) -> None:
        """Give every descriptor back."""
        if self._adaptive is not None:
            self._adaptive.close()
        for slot in self._slots.values():
            slot.ended = True
            self._room.give_back(slot.io)
            self._room.give_back(slot.stat)
            slot.io = slot.stat = None
        self._sweep.drop()
        self._slots = {}
        self._stats_kept = 0
        self._stats.clear()
        self._new_pids.close()
        self._stop_watching()
        if isinstance(self._delayacct, KeptFile):
            self._delayacct.close()
        self._delayacct = None

    def _delay_accounting(self) -> bool | None:
        """Whether kernel.task_delayacct is on; None on a kernel without that switch (before 5.14)."""
        if self._delayacct is None:
            self._delayacct = keep(self._root, "proc/sys/kernel/task_delayacct", 64)
        if isinstance(self._delayacct, OSError):
            return None
        return self._delayacct.read().strip() not in (b"", b"0")

    def _exits(self) -> dict[ProcessKey, int]:
        """Exit codes of those that ended and of zombies, as far as they are known."""
        if self._root.live and self._seq == 0:
            # Those who may not listen are told by zombies alone.
            with contextlib.suppress(Unavailable):
                self._exit_watch = ExitWatch(self._root)
        if self._exit_watch is not None:
            try:
                self._codes.update(self._exit_watch.read())
            except OSError:
                self._stop_watching()
        exits = {key: self._codes[key.pid] for key in self._gone if key.pid in self._codes}
        self._codes = {pid: code for pid, code in self._codes.items() if pid in self._slots}
        for pid in self._codes:
            key = self._slots[pid].key
            if self._stat.now[key].state == "Z":
                exits[key] = self._codes[pid]
        return exits

    def _stop_watching(self) -> None:
        if self._exit_watch is not None:
            self._exit_watch.close()
            self._exit_watch = None

    def _find(self) -> list[Slot]:
        """Admit new processes; those admitted, oldest first."""
        pids = self._new_pids.look(self._slots, always=self._mostly_denied())
        listed = self._new_pids.listed
        if self._adaptive is not None and (listed is not None or self._seq == FULL_TICKS):
            # Who is left alone is known to have ended by the kernel's word only.
            self._adaptive.ask(len(self._slots) if self._exit_watch is not None else 0)
        if listed is not None:
            vanished = [slot for pid, slot in self._slots.items() if pid not in listed]
            for slot in vanished:
                self._end(slot)
            if vanished:
                self._sweep.drop()
        admitted: list[Slot] = []
        missing: list[int] = []
        hidden = False
        for still, pid in zip(range(len(pids), 0, -1), pids, strict=True):
            # The io of each, which every tick reads, comes before anybody's stat, which every fifth does.
            outcome = self._admit(pid, self._room.held + len(admitted) + still < self._room.most)
            if isinstance(outcome, Slot):
                admitted.append(outcome)
            elif outcome in FORBIDDEN:
                hidden = True
            elif outcome in ENDED:
                missing.append(pid)
        self._new_pids.missing(missing)
        if listed is not None:
            # Without the right to see other users' processes, pid 1 is the first one missing (hidepid=2).
            self._complete = not hidden and (not self._root.live or 1 in listed)
            if self._seq - self._asked >= RECONCILE:
                self._asked = self._seq
                for key in self._denied:
                    self._ask_again(self._slots[key.pid])
            self._new_pids.listed = None  # as large as everything else that is known of some of them
        admitted.sort(key=lambda slot: slot.key.start_ticks)
        self._make_room(len(admitted))
        self._deny(self._sweep.add(admitted))
        return admitted

    def _make_room(self, count: int) -> None:
        """Give descriptors of stat back for as many of io, where no other is free."""
        lacking = self._room.held + count - self._room.most
        if not count or lacking <= 0 or not self._stats_kept:
            return
        for slot in [slot for slot in self._slots.values() if slot.stat is not None][:lacking]:
            self._room.give_back(slot.stat)
            slot.stat = None
            self._stats_kept -= 1
        self._stats.moved()

    def _mostly_denied(self) -> bool:
        """Whether so many may not be read that a listing in each tick is the cheapest way to see them end."""
        return len(self._denied) * 10 > len(self._slots)

    def _admit(self, pid: int, keep_stat: bool) -> Slot | int:
        """A Slot for a process; 0 for a thread; the errno when it cannot be read. keep_stat: there is room for it."""
        path = f"proc/{pid}/stat"
        file = self._room.keep(self._root, path, STAT_SIZE) if keep_stat else None
        if isinstance(file, OSError):
            return file.errno or errno.EIO
        outcome = self._admit_by(pid, read_once(self._root, path, STAT_SIZE) if file is None else read_of(file))
        if not isinstance(outcome, Slot):
            self._room.give_back(file)
        elif file is not None:
            outcome.stat = file
            self._stats_kept += 1
        return outcome

    def _admit_by(self, pid: int, raw: bytes | OSError) -> Slot | int:
        """As ``_admit``. raw: what its stat says."""
        if isinstance(raw, OSError):
            return raw.errno or errno.EIO
        try:
            stat = parse_stat(raw)
            tgid, uid = pid, 0
            if not stat.flags & PF_KTHREAD:  # a kernel thread is root's and has no threads
                status = read_once(self._root, f"proc/{pid}/status", 4096)
                if isinstance(status, OSError):
                    return status.errno or errno.EIO
                tgid, uid = parse_status(status)
        except ValueError:  # a captured tree may hold half a process
            return errno.ENOENT
        if tgid != pid:
            return 0
        slot = Slot(ProcessKey(pid, stat.start_ticks), same(stat.comm), uid, raw, young=self._seq > 0)
        self._slots[pid] = slot
        self._stats.add(slot)
        self._stat.put(slot.key, stat.record)
        self._info.put(slot.key, self._who(slot, stat.flags))
        return slot

    def _who(self, slot: Slot, flags: int) -> ProcessInfo:
        """Name, command line, user and cgroup as they are now."""
        here = f"proc/{slot.key.pid}/"
        kernel = bool(flags & PF_KTHREAD)
        cmdline = b"" if kernel else read_once(self._root, here + "cmdline", 1 << 15)
        cgroup = read_once(self._root, here + "cgroup", 4096)
        return same(
            ProcessInfo(
                clean_bytes(slot.comm),
                () if isinstance(cmdline, OSError) else parse_cmdline(cmdline),
                self._users.name(slot.uid),
                slot.uid,
                kernel,
                "" if isinstance(cgroup, OSError) else parse_cgroup(cgroup),
            )
        )

    def _who_again(self, slot: Slot, flags: int) -> None:
        """After exec: another name, other arguments, perhaps another user."""
        slot.young = False
        status = read_once(self._root, f"proc/{slot.key.pid}/status", 4096)
        if isinstance(status, bytes) and status:
            slot.uid = parse_status(status)[1]
        info = self._who(slot, flags)
        if info != self._info.now[slot.key]:
            self._info.put(slot.key, info)
            self._ask_again(slot)

    def _ask_again(self, slot: Slot) -> None:
        """One that was denied may have become readable (it changed its user)."""
        if slot.denied and isinstance(read_once(self._root, f"proc/{slot.key.pid}/io", IO_SIZE), bytes):
            slot.denied = False
            self._denied -= {slot.key}
            self._deny(self._sweep.add([slot]))

    def _deny(self, slots: Iterable[Slot]) -> None:
        slots = list(slots)
        if not slots:
            return
        for slot in slots:
            slot.denied = True
            self._room.give_back(slot.io)
            slot.io, slot.io_raw = None, b""
            self._io.drop(slot.key)
            self._io_stale.pop(slot.key, None)
        self._denied |= {slot.key for slot in slots}

    def _end(self, slot: Slot) -> None:
        slot.ended = True
        self._stats_kept -= slot.stat is not None
        self._room.give_back(slot.io)
        self._room.give_back(slot.stat)
        slot.io = slot.stat = None
        key, pid = slot.key, slot.key.pid
        del self._slots[pid]
        self._stats.drop(slot)
        io, stat = self._io.drop(key), self._stat.drop(key)
        if self._partly and io is not None and stat is not None and (io.read_bytes or io.write_bytes):
            self._left.append(Left(self._seq, stat.ppid, Moved(io.read_bytes, io.write_bytes)))
        self._info.drop(key)
        self._stat_out.pop(key, None)
        self._io_stale.pop(key, None)
        if slot.denied:
            self._denied -= {key}
        if slot.published:
            self._gone.append(key)
        self._new_pids.ended(pid)

    def _read_io(self, fresh: list[Slot]) -> dict[Slot, int]:
        """Read io, of all or where there is reason to; the processes whose io changed with how many bytes that was."""
        before, stale, adaptive = self._io_at, self._io_stale, self._adaptive
        self._io_stale, self._io_since = {}, {}
        chosen = None
        if adaptive is not None:
            # Who is told to have ended is read, so that it is seen to.
            ended = [self._slots[pid] for pid in self._codes if pid in self._slots]
            turn = self._stats.of(self._seq % FINE, FINE) if self._partly else []
            chosen = adaptive.choose(self._seq, turn, (*fresh, *ended))
        moved: dict[Slot, int] = {}
        self._grown = {}
        # A parent may have been read before it reaped: what is left by one that ended waits for one further tick.
        self._left = [left for left in self._left if left.seq >= self._seq - 1]
        done = self._take_io(self._sweep.run(chosen), before, stale, moved)
        if adaptive is not None and chosen is not None:
            seconds = (self._clock.monotonic_ns() - before) / 1e9
            of_children, self._left = inherited(self._left, self._grown, self._slots)
            if not adaptive.balanced(done, of_children, seconds):
                known = len(moved)
                self._take_io(self._sweep.run(), before, stale, moved)
                adaptive.found(len(moved) > known)
                chosen = None
        self._io_at = self._clock.monotonic_ns()
        if adaptive is not None:
            adaptive.note(self._seq, self._io_at, chosen, moved)
            self._partly = bool(adaptive.io_at)
        return moved

    def _take_io(
        self,
        changed: list[tuple[Slot, bytes | OSError]],
        before: int,
        stale: dict[ProcessKey, int],
        moved: dict[Slot, int],
    ) -> Moved:
        """Take what changed in and add it to ``moved``; the bytes that are of this tick."""
        denied: list[Slot] = []
        read = written = 0
        gone = False
        for slot, raw in changed:
            key = slot.key
            if isinstance(raw, bytes):
                try:
                    old, new = self._io.now.get(key), parse_io(raw)
                except ValueError:  # an emptied file of a captured tree: as good as not readable
                    denied.append(slot)
                    continue
                self._io.put(key, new)
                moved[slot] = moved.get(slot, 0) + weight(new) - (weight(old) if old is not None else 0)
                if self._partly and self._adaptive is not None:
                    if self._adaptive.counted(slot):
                        grew = Moved(
                            new.read_bytes - (old.read_bytes if old is not None else 0),
                            new.write_bytes - (old.write_bytes if old is not None else 0),
                        )
                        self._grown[key.pid] = grew
                        read, written = read + grew.read, written + grew.written
                    elif key not in self._io_since and (at := since(self._io_was(key), before, old, new)) is not None:
                        self._io_since[key] = at
            elif raw.errno in ENDED:
                gone = True
                self._end(slot)
            elif raw.errno in FORBIDDEN:
                denied.append(slot)
            elif key in self._io.now:  # out of memory or descriptors: the older record stays, with its time
                self._io_stale[key] = stale.get(key, before)
        self._deny(denied)
        if gone or denied:
            self._sweep.drop()
        return Moved(read, written)

    def _io_was(self, key: ProcessKey) -> int | None:
        """When its io was last read."""
        if self._adaptive is None or not self._adaptive.io_at:
            return None
        return self._adaptive.io_out.get(key, self._adaptive.io_at[key.pid % IO_COHORTS])

    def _read_stat(self, wanted: list[Slot]) -> int:
        """Sweep the stat of this tick's cohort and of ``wanted``; its time."""
        cohorts = FINE if self._partly else COHORTS
        if len(self._stat_at) < cohorts:
            self._stat_at = self._stat_at * (cohorts // len(self._stat_at))
        turn, full = self._seq % cohorts, self._seq < FULL_TICKS or len(self._stat_at) > cohorts
        news = self._stats.news(0, 1) if full else self._stats.news(turn, cohorts)
        others = [slot for slot in wanted if not slot.ended]
        if not self._mostly_denied():  # no descriptor of their io tells that they ended
            others += [self._slots[key.pid] for key in self._denied]
        apart = () if full else dict.fromkeys(slot for slot in others if slot.key.pid % cohorts != turn)
        answers = self._stats.each(apart)
        at, before = self._clock.monotonic_ns(), self._stat_at[:cohorts]
        self._stat_at = tuple(at if full or i == turn else old for i, old in enumerate(before))
        # Who is read in turn has his turn's time again, also when he says the same as before and is not among the news.
        again = [key for key in self._stat_out if full or key.pid % cohorts == turn]
        older = {key: self._stat_out.pop(key) for key in again}
        for slot, raw in news:
            if not self._taken(slot, raw):
                key = slot.key
                if slot.denied:
                    self._end(slot)
                else:
                    self._stat_out[key] = older.get(key, before[key.pid % cohorts]) if slot.published else at
        for slot, raw in answers:
            if self._taken(slot, raw) or not (slot.denied or slot.published):
                self._stat_out[slot.key] = at
            elif slot.denied:
                self._end(slot)
        return at

    def _taken(self, slot: Slot, raw: bytes | OSError) -> bool:
        """Whether it was a line of that process's stat, which is taken in."""
        return isinstance(raw, bytes) and self._take_stat(slot, raw)

    def _take_stat(self, slot: Slot, raw: bytes) -> bool:
        """Take a stat line in; False when it is another process's that has the pid now."""
        if (seen := hash(raw)) == slot.stat_seen:
            return True
        parsed = parse_stat(raw)
        if parsed.start_ticks != slot.key.start_ticks:
            return False
        if parsed.record != self._stat.now[slot.key]:
            self._stat.put(slot.key, parsed.record)
            if parsed.record.state == "Z" and not slot.denied:
                self._codes[slot.key.pid] = exit_code(parsed.exit_status)
        if slot.published and (slot.young or parsed.comm != slot.comm):
            slot.comm = parsed.comm
            self._who_again(slot, parsed.flags)
        slot.stat_seen = UNSEEN if slot.young or len(raw) >= STAT_USUAL else seen
        return True
