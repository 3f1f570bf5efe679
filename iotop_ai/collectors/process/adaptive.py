"""Selects the processes whose /proc/PID/io a tick reads, on machines with thousands of processes.

A tick is one reading of the whole machine. It reads the recently active processes and a part of the inactive ones: the
inactive processes are divided by PID into IO_COHORTS cohorts, and each tick reads one cohort. The sum of the bytes that
were read and written can be checked, because the kernel counts each byte twice: for the process (task_io_account_read
and _write) and for the machine, in /proc/vmstat. In vmstat, pgpgin has the reads (block/blk-core.c, submit_bio) and
nr_dirtied has the writes into the page cache (mm/page-writeback.c, folio_account_dirtied); direct writes are in pgpgout
but not in nr_written. When the selected processes account for fewer bytes than the machine counted, the same tick reads
all processes.

The check is weak for direct writes, because the writes of the filesystem's journal look like direct writes. After a
full read that found no other active process, the check of direct writes therefore pauses. A direct write of an
inactive process is then noticed when that process is next read, within IO_COHORTS ticks.

The check needs counters that see every byte. It is off, and every tick reads all processes, with NFS, ZFS and FUSE, in
a container (its /proc/vmstat counts the whole machine), and for a user who cannot read every process's io.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.machine.host import read_container
from iotop_ai.collectors.process.descriptors import ProcessEntry, open_kept
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.machine.filesystem import NETWORK
from iotop_ai.model.process.records import ProcessIo, ProcessKey

MIN_PROCESSES = 4_000
"""The fewest processes for which a tick reads only a part. If there are fewer, reading all of them is cheap enough."""
IO_COHORTS = 20
"""The number of ticks in which the io of every inactive process is read once."""
RECENT_TICKS = 10
"""The number of further ticks in which a process is read after it was active."""
SLACK_BYTES_PER_S = 256 << 10
SLACK_SHARE = 0.03
"""The allowed difference between the machine's bytes and the sum over the processes.

It is SLACK_BYTES_PER_S times the seconds since the previous tick, plus SLACK_SHARE times the machine's bytes. Small
differences are normal, since the two are not read at the same instant.
"""
LONGEST_PAUSE = 8
"""The longest pause of the check of direct writes, in ticks; the tick of the full read counts too.

The check pauses when a full read found no other active process: the kernel's own journal writes and pages under
writeback look like direct writes.
"""
UNCOUNTED_FILESYSTEMS = (*NETWORK, "zfs", "fuse")
"""Prefixes of the filesystem types whose bytes the kernel's counters miss."""
_COUNTED_FUSE = ("fusectl", "fuseblk")
"""Filesystem types that are accepted although they begin with "fuse".

fusectl holds no data, and fuseblk (NTFS) uses a block device, whose bytes are counted.
"""
_MOUNTS_SIZE = 1 << 20
"""The most bytes that are read of the list of mounts."""


class IoBytes(NamedTuple):
    """The bytes that were read, and the bytes that were written or became dirty in the page cache."""

    read: int = 0
    written: int = 0


class EndedIo(NamedTuple):
    """The last counters of a process that has exited.

    seq: the number of the tick that noticed the exit. ppid: the PID of its parent.
    """

    seq: int
    ppid: int
    io: IoBytes


def match_inherited(
    ended: Iterable[EndedIo], growth: Mapping[int, IoBytes], alive: Container[int]
) -> tuple[IoBytes, list[EndedIo]]:
    """Return (bytes that parents inherited from children that exited earlier, exited processes not yet matched).

    When a parent waits for an exited child, the kernel adds the child's bytes to the parent's counters. A child is
    matched to its parent only if the child's bytes fit into the parent's growth. If the parent has exited too, the
    child may match any process. growth: the growth in this tick by PID. alive: the PIDs of all running processes.
    """
    room = dict(growth)
    total, unmatched = IoBytes(), []
    for child in ended:
        inherited = child.io
        for pid in (child.ppid,) if child.ppid in alive else growth:
            free = room.get(pid)
            if free is not None and free.read >= inherited.read and free.written >= inherited.written:
                room[pid] = IoBytes(free.read - inherited.read, free.written - inherited.written)
                total = IoBytes(total.read + inherited.read, total.written + inherited.written)
                break
        else:
            unmatched.append(child)
    return total, unmatched


class _Machine(NamedTuple):
    """Counters of /proc/vmstat in bytes. direct: the bytes that were written without the page cache."""

    read: int
    dirtied: int
    direct: int


def parse_vmstat(raw: bytes, page: int) -> _Machine | None:
    """Parse ``pgpgin 3164\\npgpgout 1022`` (KiB) and ``nr_dirtied 254\\nnr_written 246`` (pages).

    raw: a line end, then the content of the file. Returns None when one of the four lines is missing.
    """
    counts = []
    for name in (b"pgpgin ", b"pgpgout ", b"nr_dirtied ", b"nr_written "):
        at = raw.find(b"\n" + name)
        if at < 0:
            return None
        at += 1 + len(name)
        counts.append(int(raw[at : raw.index(b"\n", at)]))
    pgpgin, pgpgout, dirtied, written = counts
    return _Machine(pgpgin * 1024, dirtied * page, pgpgout * 1024 - written * page)


class AdaptiveSelection:
    """Selects the processes that a tick reads, checks their bytes against the machine's, and records the result.

    The methods for these three steps are ``select``, ``balanced`` and ``record_tick``. min_processes: the fewest
    processes for which a tick reads only a part. uncounted: prefixes of the filesystem types that make every tick read
    all processes, because the kernel's counters miss their bytes.
    io_at: for each cohort of PIDs, the time of its last read. io_out: the time of the last read of each process that
    was read in a tick of another cohort.
    """

    def __init__(
        self, root: Root, *, min_processes: int = MIN_PROCESSES, uncounted: tuple[str, ...] = UNCOUNTED_FILESYSTEMS
    ) -> None:
        self._root = root
        self._min_processes = min_processes
        self._uncounted = uncounted
        self._file: KeptFile | OSError | None = None
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._previous: _Machine | None = None
        """The machine's counters at the previous tick; ``_newest`` has those of this tick."""
        self._newest: _Machine | None = None
        self._allowed = False
        """Whether a tick may read only a part of the processes."""
        self._last_active: dict[ProcessEntry, int] = {}
        """The number of the tick in which each recently active process was last active."""
        self._previously_read: frozenset[ProcessEntry] | None = None
        """The processes that the previous tick read; None for all."""
        self._pause = self._pause_left = 0
        """The length of the newest pause of the check of direct writes, and its remaining ticks."""
        self.io_at: tuple[int, ...] = ()
        self.io_out: dict[ProcessKey, int] = {}

    def update_allowed(self, count: int) -> None:
        """Decide whether ticks can read only a part of ``count`` processes. Call this method from time to time."""
        self._allowed = (
            count >= self._min_processes and self._root.live and os.geteuid() == 0 and self._counters_complete()
        )

    def _counters_complete(self) -> bool:
        if read_container(self._root):
            return False
        try:
            lines = self._root.read("proc/self/mounts", _MOUNTS_SIZE).splitlines()
        except OSError:
            return False
        types = {line.split()[2].decode(errors="replace") for line in lines if len(line.split()) > 2}
        return not any(kind.startswith(self._uncounted) for kind in types if kind not in _COUNTED_FUSE)

    def select(
        self, seq: int, entries: Sequence[ProcessEntry], others: Iterable[ProcessEntry]
    ) -> list[ProcessEntry] | None:
        """Return the processes that this tick reads, oldest first; None to read all.

        entries: the processes of the cohort that is due. others: processes that are read in any case.
        """
        if not self._allowed:
            self._previous, self._previously_read, self.io_at, self.io_out, self._last_active = None, None, (), {}, {}
            return None
        before, self._newest = self._newest, self._read()
        self._previous = before
        if not self.io_at or before is None or self._newest is None:
            return None
        self._last_active = {
            entry: at for entry, at in self._last_active.items() if seq - at <= RECENT_TICKS and not entry.ended
        }
        selected = dict.fromkeys(
            entry for entry in chain(entries, self._last_active, others) if not (entry.ended or entry.denied)
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

    def grew_only_this_tick(self, entry: ProcessEntry) -> bool:
        """Whether the process's growth happened entirely in this tick: it is new, or the previous tick read it too."""
        return self._previously_read is None or entry in self._previously_read or not entry.published

    def balanced(self, growth: IoBytes, inherited: IoBytes, seconds: float) -> bool:
        """Whether the growth of the processes that were read accounts for the machine's growth; False if unknown.

        growth: the growth of these processes. inherited: the part of it that came from exited children. seconds: the
        time since the previous tick.
        """
        if self._previous is None or self._newest is None:
            return False
        read, dirtied, direct = (new - old for new, old in zip(self._newest, self._previous, strict=True))
        known_read, known_written = max(0, growth.read - inherited.read), max(0, growth.written - inherited.written)
        self._pause_left = max(0, self._pause_left - 1)
        return (
            read - known_read <= _slack(read, seconds)
            and dirtied - known_written <= _slack(dirtied, seconds)
            and (self._pause_left > 0 or dirtied + direct - known_written <= _slack(dirtied + direct, seconds))
        )

    def record_full_read(self, found_more: bool) -> None:
        """Record a full read that followed a failed check. found_more: whether the read found more active processes."""
        self._pause = 0 if found_more else min(LONGEST_PAUSE, 2 * self._pause or 2)
        self._pause_left = self._pause

    def record_tick(
        self, seq: int, at_ns: int, selected: Sequence[ProcessEntry] | None, active: Iterable[ProcessEntry]
    ) -> None:
        """Record which processes were read at ``at_ns``, and which of them were active.

        selected: the processes that were read; None for all. active: those whose counters grew.
        """
        if not self._allowed:
            return
        if seq > 0:  # in the first tick, every process is new and would count as active
            self._last_active.update((entry, seq) for entry in active if not entry.ended)
        if selected is None:
            self._previously_read, self.io_at, self.io_out = None, (at_ns,) * IO_COHORTS, {}
            return
        cohort = seq % IO_COHORTS
        unreadable = {entry.key for entry in selected if entry.ended or entry.denied}
        out = {key: at for key, at in self.io_out.items() if key.pid % IO_COHORTS != cohort and key not in unreadable}
        out.update(
            (entry.key, at_ns)
            for entry in selected
            if entry.key.pid % IO_COHORTS != cohort and entry.key not in unreadable
        )
        self._previously_read = frozenset(selected)
        self.io_out = out
        self.io_at = tuple(at_ns if i == cohort else at for i, at in enumerate(self.io_at))

    def table_fields(self, io: Container[ProcessKey], io_since: Mapping[ProcessKey, int]) -> dict[str, Any]:
        """Return the fields of a ProcessTable of which a tick has read only a part. io: the processes with an io."""
        out = {key: at for key, at in self.io_out.items() if key in io}
        return {"adaptive": True, "io_at": self.io_at, "io_out": out, "io_since": io_since}

    def close(self) -> None:
        """Close /proc/vmstat."""
        if isinstance(self._file, KeptFile):
            self._file.close()
        self._file = None


def _slack(growth: int, seconds: float) -> float:
    return SLACK_BYTES_PER_S * seconds + SLACK_SHARE * max(0, growth)


def growth_start_ns(read_ns: int | None, tick_ns: int, old: ProcessIo | None, new: ProcessIo) -> int | None:
    """Return the time at which the growth of a process began, if this time is later than the last read of the process.

    This matters for a process that is not read in every tick. Until the previous tick, the check of the sum would have
    noticed growth above SLACK_BYTES_PER_S. Larger growth therefore began after the previous tick: return ``tick_ns``,
    the time of that tick. Otherwise return None. read_ns: the time of the last read of the process. old, new: the
    counters of that read and of the current read.
    """
    if read_ns is None or old is None or read_ns >= tick_ns:
        return None
    growth = max(new.read_bytes - old.read_bytes, new.write_bytes - old.write_bytes)
    return tick_ns if growth > SLACK_BYTES_PER_S * (tick_ns - read_ns) / 1e9 else None
