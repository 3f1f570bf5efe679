"""Which processes' io is read in a tick, where there are thousands: those that moved lately and a part of the rest.

What is left out is checked, not hoped for. The kernel counts the same bytes twice: for the process that asks for them
(task_io_account_read and _write) and for the machine, in /proc/vmstat: pgpgin beside reads (block/blk-core.c,
submit_bio), nr_dirtied beside writes into the page cache (mm/page-writeback.c, folio_account_dirtied); what is written
past the cache is in pgpgout and not in nr_written. When the processes that were read account for less than the
machine did, all are read in the same tick.

It holds where every byte passes these counters: not for NFS, ZFS and FUSE, not in a container, which sees the whole
machine's counters, and not for who may not read every process's io.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain

from iotop_ai.collectors.host import read_container
from iotop_ai.collectors.process_slot import Slot, keep
from iotop_ai.collectors.root import KeptFile, Root
from iotop_ai.model.filesystem import NETWORK
from iotop_ai.model.process import ProcessIo, ProcessKey
from iotop_ai.model.record import NamedTuple

LEAST = 4_000
"""Processes below which all are read each tick: that costs little there."""
IO_COHORTS = 20
"""Ticks in which the io of every process that is left alone is read once."""
LATELY = 10
"""Ticks for which one that moved is read each time."""
SLACK_BYTES_PER_S = 256 << 10
SLACK_SHARE = 0.03
"""What may be unaccounted for: the two sides are not read at the same instant."""
LONGEST_PAUSE = 8
"""Ticks at most in which writes past the cache are not asked about again, after all were read and none had moved: the
kernel's own journal is written so, and pages on their way to the disk look alike."""
REFUSED = (*NETWORK, "zfs", "fuse")
"""Beginnings of the types of file systems whose bytes do not pass these counters."""
_ALLOWED = ("fusectl", "fuseblk")
"""fuseblk (NTFS) goes through a block device."""
_MOUNTS = 1 << 20


class Moved(NamedTuple):
    """Bytes read and dirtied or written."""

    read: int = 0
    written: int = 0


class Left(NamedTuple):
    """The last counters of one that ended, and whom it had as its parent. seq: the tick in which that was seen."""

    seq: int
    ppid: int
    io: Moved


def inherited(ended: Iterable[Left], grown: Mapping[int, Moved], alive: Container[int]) -> tuple[Moved, list[Left]]:
    """What of the growth of those that were read are bytes of their children, done before this tick; who is left over.

    A child's bytes are in its parent's growth only where they fit into it, and each in one growth; of one whose parent
    has ended as well they may be in anybody's. grown: by pid, of this tick. alive: the pids of all.
    """
    room = dict(grown)
    total, rest = Moved(), []
    for left in ended:
        was = left.io
        for pid in (left.ppid,) if left.ppid in alive else grown:
            free = room.get(pid)
            if free is not None and free.read >= was.read and free.written >= was.written:
                room[pid] = Moved(free.read - was.read, free.written - was.written)
                total = Moved(total.read + was.read, total.written + was.written)
                break
        else:
            rest.append(left)
    return total, rest


class _Machine(NamedTuple):
    """Counters of /proc/vmstat in bytes: read, dirtied, written past the cache."""

    read: int
    dirtied: int
    direct: int


def parse_vmstat(raw: bytes, page: int) -> _Machine | None:
    """``pgpgin 3164\\npgpgout 1022`` (KiB), ``nr_dirtied 254\\nnr_written 246`` (pages); None when one is missing."""
    found = []
    for name in (b"pgpgin ", b"pgpgout ", b"nr_dirtied ", b"nr_written "):
        at = raw.find(b"\n" + name)
        if at < 0:
            return None
        at += 1 + len(name)
        found.append(int(raw[at : raw.index(b"\n", at)]))
    came, went, dirtied, written = found
    return _Machine(came * 1024, dirtied * page, went * 1024 - written * page)


class Adaptive:
    """``choose`` says whom to read, ``balanced`` whether they account for all, ``note`` what was read.

    least: processes from which on it is used. refused: beginnings of the types of file systems beside which it is not.
    """

    def __init__(self, root: Root, *, least: int = LEAST, refused: tuple[str, ...] = REFUSED) -> None:
        self._root = root
        self._least = least
        self._refused = refused
        self._file: KeptFile | OSError | None = None
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._machine: _Machine | None = None
        self._newest: _Machine | None = None
        self._allowed = False
        self._moved: dict[Slot, int] = {}
        self._before: frozenset[Slot] | None = None
        self._pause = self._paused = 0
        self.io_at: tuple[int, ...] = ()
        self.io_out: dict[ProcessKey, int] = {}

    def ask(self, count: int) -> None:
        """Whether this machine, with so many processes, is one for it; asked now and then."""
        self._allowed = count >= self._least and self._root.live and os.geteuid() == 0 and self._holds()

    def _holds(self) -> bool:
        if read_container(self._root):
            return False
        try:
            lines = self._root.read("proc/self/mounts", _MOUNTS).splitlines()
        except OSError:
            return False
        types = {line.split()[2].decode(errors="replace") for line in lines if len(line.split()) > 2}
        return not any(kind.startswith(self._refused) for kind in types if kind not in _ALLOWED)

    def choose(self, seq: int, slots: Sequence[Slot], others: Iterable[Slot]) -> list[Slot] | None:
        """Whom to read, in order of their start; None for all. others: those that are read in any case."""
        if not self._allowed:
            self._machine, self._before, self.io_at, self.io_out, self._moved = None, None, (), {}, {}
            return None
        was, self._newest = self._newest, self._read()
        self._machine = was
        if not self.io_at or was is None or self._newest is None:
            return None
        self._moved = {slot: at for slot, at in self._moved.items() if seq - at <= LATELY and not slot.ended}
        chosen = dict.fromkeys(slot for slot in chain(slots, self._moved, others) if not (slot.ended or slot.denied))
        return sorted(chosen, key=lambda slot: slot.key.start_ticks)

    def _read(self) -> _Machine | None:
        if self._file is None:
            self._file = keep(self._root, "proc/vmstat", 1 << 14)
        if isinstance(self._file, OSError):
            return None
        try:
            return parse_vmstat(b"\n" + self._file.read(), self._page)
        except (OSError, ValueError):
            return None

    def counted(self, slot: Slot) -> bool:
        """Whether what it grew by is of this tick: it was read in the tick before, or is new."""
        return self._before is None or slot in self._before or not slot.published

    def balanced(self, moved: Moved, left: Moved, seconds: float) -> bool:
        """Whether the processes that were read account for what the machine did.

        left: what of their growth was inherited, which counts as nobody's work.
        """
        if self._machine is None or self._newest is None:
            return False
        read, dirtied, direct = (now - then for now, then in zip(self._newest, self._machine, strict=True))
        known_read, known_written = max(0, moved.read - left.read), max(0, moved.written - left.written)
        self._paused = max(0, self._paused - 1)
        return (
            read - known_read <= _slack(read, seconds)
            and dirtied - known_written <= _slack(dirtied, seconds)
            and (self._paused > 0 or dirtied + direct - known_written <= _slack(dirtied + direct, seconds))
        )

    def found(self, anybody: bool) -> None:
        """After all were read because of an imbalance: whether somebody else had moved."""
        self._pause = 0 if anybody else min(LONGEST_PAUSE, 2 * self._pause or 2)
        self._paused = self._pause

    def note(self, seq: int, at_ns: int, chosen: Sequence[Slot] | None, moved: Iterable[Slot]) -> None:
        """Who was read at that time, None for all, and who of them had moved."""
        if not self._allowed:
            return
        if seq > 0:  # in the first tick everybody is new
            self._moved.update((slot, seq) for slot in moved if not slot.ended)
        if chosen is None:
            self._before, self.io_at, self.io_out = None, (at_ns,) * IO_COHORTS, {}
            return
        turn = seq % IO_COHORTS
        gone = {slot.key for slot in chosen if slot.ended or slot.denied}
        out = {key: at for key, at in self.io_out.items() if key.pid % IO_COHORTS != turn and key not in gone}
        out.update((slot.key, at_ns) for slot in chosen if slot.key.pid % IO_COHORTS != turn and slot.key not in gone)
        self._before = frozenset(chosen)
        self.io_out = out
        self.io_at = tuple(at_ns if i == turn else at for i, at in enumerate(self.io_at))

    def close(self) -> None:
        """Give the descriptor back."""
        if isinstance(self._file, KeptFile):
            self._file.close()
        self._file = None


def _slack(done: int, seconds: float) -> float:
    return SLACK_BYTES_PER_S * seconds + SLACK_SHARE * max(0, done)


def since(was: int | None, before: int, old: ProcessIo | None, new: ProcessIo) -> int | None:
    """From when on a process that was left alone did what it did, where that is later than its last reading.

    was, before: when it was last read, and the tick before this one. Up to that tick all but the slack was accounted
    for, so that what is more is of this tick.
    """
    if was is None or old is None or was >= before:
        return None
    grown = max(new.read_bytes - old.read_bytes, new.write_bytes - old.write_bytes)
    return before if grown > SLACK_BYTES_PER_S * (before - was) / 1e9 else None
