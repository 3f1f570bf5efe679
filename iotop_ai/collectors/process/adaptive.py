"""Selects the processes whose io a tick reads, where there are thousands: recently active ones and a part of the rest.

The sum is checked. The kernel counts each byte twice: for the process (task_io_account_read and _write) and for the
machine, in /proc/vmstat: pgpgin with reads (block/blk-core.c, submit_bio), nr_dirtied with writes into the page cache
(mm/page-writeback.c, folio_account_dirtied); direct writes are in pgpgout and not in nr_written. When the selected
processes account for fewer bytes than the machine, the same tick reads all processes.

The check is weak for direct writes: the file system's journal looks like them, so their check pauses after a full read
that found nothing. Direct writes of an inactive process are then seen in its turn, within IO_COHORTS ticks.

The check needs every byte in these counters, so it is off with NFS, ZFS and FUSE, in a container (its /proc/vmstat
counts the whole machine) and for a user that may not read every process's io.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.machine.host import read_container
from iotop_ai.collectors.process.descriptors import ProcessEntry, open_kept
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.machine.filesystem import NETWORK
from iotop_ai.model.process.records import ProcessIo, ProcessKey

LEAST = 4_000
"""With fewer processes, each tick reads all, which is cheap."""
IO_COHORTS = 20
"""Ticks in which the io of every inactive process is read once."""
LATELY = 10
"""An active process is read in each of this many next ticks."""
SLACK_BYTES_PER_S = 256 << 10
SLACK_SHARE = 0.03
"""Allowed difference: the two sides are not read at the same instant."""
LONGEST_PAUSE = 8
"""Longest pause, in ticks, of the check of direct writes after a full read found no other active process: the kernel's
own journal and pages under writeback look like direct writes."""
REFUSED = (*NETWORK, "zfs", "fuse")
"""Prefixes of file system types whose bytes these counters miss."""
_ALLOWED = ("fusectl", "fuseblk")
"""fuseblk (NTFS) goes through a block device."""
_MOUNTS = 1 << 20


class IoBytes(NamedTuple):
    """Bytes read and dirtied or written."""

    read: int = 0
    written: int = 0


class EndedIo(NamedTuple):
    """The last counters of an exited process and its parent. seq: the tick that saw the exit."""

    seq: int
    ppid: int
    io: IoBytes


def match_inherited(
    ended: Iterable[EndedIo], grown: Mapping[int, IoBytes], alive: Container[int]
) -> tuple[IoBytes, list[EndedIo]]:
    """(bytes inherited from children that exited before this tick, exited processes not yet matched).

    The kernel adds a child's bytes to the parent that waits for it. A child matches its parent only where its bytes fit
    into the parent's growth; if the parent has exited too, any process may match. grown: this tick's growth by PID.
    alive: all PIDs.
    """
    room = dict(grown)
    total, rest = IoBytes(), []
    for child in ended:
        was = child.io
        for pid in (child.ppid,) if child.ppid in alive else grown:
            free = room.get(pid)
            if free is not None and free.read >= was.read and free.written >= was.written:
                room[pid] = IoBytes(free.read - was.read, free.written - was.written)
                total = IoBytes(total.read + was.read, total.written + was.written)
                break
        else:
            rest.append(child)
    return total, rest


class _Machine(NamedTuple):
    """Counters of /proc/vmstat in bytes; direct: written past the page cache."""

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


class AdaptiveSelection:
    """``select`` picks the processes to read, ``balanced`` checks their sum, ``note`` records the result.

    least: fewest processes for an adaptive sweep. refused: prefixes of file system types that forbid one.
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
        self._moved: dict[ProcessEntry, int] = {}
        self._before: frozenset[ProcessEntry] | None = None
        self._pause = self._paused = 0
        self.io_at: tuple[int, ...] = ()
        self.io_out: dict[ProcessKey, int] = {}

    def update_allowed(self, count: int) -> None:
        """Decide whether the sweep may be adaptive with ``count`` processes; called now and then."""
        self._allowed = count >= self._least and self._root.live and os.geteuid() == 0 and self._counters_complete()

    def _counters_complete(self) -> bool:
        if read_container(self._root):
            return False
        try:
            lines = self._root.read("proc/self/mounts", _MOUNTS).splitlines()
        except OSError:
            return False
        types = {line.split()[2].decode(errors="replace") for line in lines if len(line.split()) > 2}
        return not any(kind.startswith(self._refused) for kind in types if kind not in _ALLOWED)

    def select(
        self, seq: int, entries: Sequence[ProcessEntry], others: Iterable[ProcessEntry]
    ) -> list[ProcessEntry] | None:
        """Processes to read, oldest first; None for all. others: processes to read in any case."""
        if not self._allowed:
            self._machine, self._before, self.io_at, self.io_out, self._moved = None, None, (), {}, {}
            return None
        was, self._newest = self._newest, self._read()
        self._machine = was
        if not self.io_at or was is None or self._newest is None:
            return None
        self._moved = {entry: at for entry, at in self._moved.items() if seq - at <= LATELY and not entry.ended}
        selected = dict.fromkeys(
            entry for entry in chain(entries, self._moved, others) if not (entry.ended or entry.denied)
        )
        return sorted(selected, key=lambda entry: entry.key.start_ticks)

    def _read(self) -> _Machine | None:
        if self._file is None:
            self._file = open_kept(self._root, "proc/vmstat", 1 << 14)
        if isinstance(self._file, OSError):
            return None
        try:
            return parse_vmstat(b"\n" + self._file.read(), self._page)
        except (OSError, ValueError):
            return None

    def grew_this_tick(self, entry: ProcessEntry) -> bool:
        """Whether all of its growth happened in this tick: it is new, or the previous tick read it."""
        return self._before is None or entry in self._before or not entry.published

    def balanced(self, moved: IoBytes, inherited: IoBytes, seconds: float) -> bool:
        """Whether the growth of the processes that were read accounts for the machine's.

        inherited: part of their growth that exited children did earlier.
        """
        if self._machine is None or self._newest is None:
            return False
        read, dirtied, direct = (now - then for now, then in zip(self._newest, self._machine, strict=True))
        known_read, known_written = max(0, moved.read - inherited.read), max(0, moved.written - inherited.written)
        self._paused = max(0, self._paused - 1)
        return (
            read - known_read <= _slack(read, seconds)
            and dirtied - known_written <= _slack(dirtied, seconds)
            and (self._paused > 0 or dirtied + direct - known_written <= _slack(dirtied + direct, seconds))
        )

    def note_full_read(self, found_more: bool) -> None:
        """Record a full read after an imbalance. found_more: it found further active processes."""
        self._pause = 0 if found_more else min(LONGEST_PAUSE, 2 * self._pause or 2)
        self._paused = self._pause

    def note(
        self, seq: int, at_ns: int, selected: Sequence[ProcessEntry] | None, moved: Iterable[ProcessEntry]
    ) -> None:
        """Record the processes read at this time, None for all, and the active ones among them."""
        if not self._allowed:
            return
        if seq > 0:  # in the first tick each process is new
            self._moved.update((entry, seq) for entry in moved if not entry.ended)
        if selected is None:
            self._before, self.io_at, self.io_out = None, (at_ns,) * IO_COHORTS, {}
            return
        turn = seq % IO_COHORTS
        exited = {entry.key for entry in selected if entry.ended or entry.denied}
        out = {key: at for key, at in self.io_out.items() if key.pid % IO_COHORTS != turn and key not in exited}
        out.update(
            (entry.key, at_ns) for entry in selected if entry.key.pid % IO_COHORTS != turn and entry.key not in exited
        )
        self._before = frozenset(selected)
        self.io_out = out
        self.io_at = tuple(at_ns if i == turn else at for i, at in enumerate(self.io_at))

    def close(self) -> None:
        """Close the kept file."""
        if isinstance(self._file, KeptFile):
            self._file.close()
        self._file = None


def _slack(done: int, seconds: float) -> float:
    return SLACK_BYTES_PER_S * seconds + SLACK_SHARE * max(0, done)


def moved_since(was: int | None, before: int, old: ProcessIo | None, new: ProcessIo) -> int | None:
    """Start time of a skipped process's growth if it is later than its last read, else None.

    was, before: times of its last read and of the previous tick. Until the previous tick the check let only the slack
    go unseen, so larger growth happened in this tick.
    """
    if was is None or old is None or was >= before:
        return None
    grown = max(new.read_bytes - old.read_bytes, new.write_bytes - old.write_bytes)
    return before if grown > SLACK_BYTES_PER_S * (before - was) / 1e9 else None
