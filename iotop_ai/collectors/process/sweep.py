"""Reads the io files of all processes and the stat files of a part of them."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from itertools import compress, pairwise
from operator import attrgetter, ne

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.process.descriptors import (
    ENDED,
    FORBIDDEN,
    IO_SIZE,
    STAT_SIZE,
    STAT_USUAL,
    ProcessEntry,
    open_kept,
    read_io_once,
    read_kept,
    read_stat_once,
)
from iotop_ai.collectors.process.parse import parse_stat
from iotop_ai.model.process.records import ProcessIo

READ_BATCH = 128
"""The number of files that are read before their contents are compared.

Unchanged contents are freed while they are still in the CPU cache. The contents of all processes at once would need
megabytes.
"""
_IO_FD, _IO_RAW = attrgetter("io.fd"), attrgetter("io_raw")
_STAT_FD, _STAT_HASH = attrgetter("stat.fd"), attrgetter("stat_hash")


def io_weight(io: ProcessIo) -> int:
    """Return a sort key, in which a byte of storage counts 1024 times as much as a byte of a read or write call."""
    return (io.read_bytes + io.write_bytes) * 1024 + io.rchar + io.wchar


class DescriptorBudget:
    """Counts the descriptors that are kept open, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0

    def keep(self, root: Root, relative: str, size: int) -> KeptFile | OSError | None:
        """Open a file and keep it open; return the file or the error, or None when the limit is reached."""
        if self.in_use >= self.limit:
            return None
        file = open_kept(root, relative, size)
        if isinstance(file, KeptFile):
            self.in_use += 1
        return file

    def give_back(self, file: KeptFile | None) -> None:
        """Close a file that was kept open."""
        if file is not None:
            file.close()
            self.in_use -= 1


class IoSweep:
    """Reads /proc/PID/io of every entry, ordered by start time, so that parents are read before their children.

    In any other order, a child that is reaped between the two reads would count twice: as itself and in its parent.
    """

    def __init__(self, root: Root, budget: DescriptorBudget) -> None:
        self._root = root
        self._budget = budget
        self._kept: list[ProcessEntry] = []
        self._without_fd: list[ProcessEntry] = []
        """The entries whose file is opened at each read, since no descriptor was free."""

    def add(self, entries: Sequence[ProcessEntry]) -> list[ProcessEntry]:
        """Add entries in the order of their start times; return the entries that cannot be read.

        If no descriptor is free, the entry's file is opened at each read, until a descriptor is free.
        """
        if not entries and (not self._without_fd or self._budget.in_use >= self._budget.limit):
            return []
        last_kept = max(len(self._kept) - 1, 0)
        denied: list[ProcessEntry] = []
        without_fd: list[ProcessEntry] = []
        for entry in (*self._without_fd, *entries):
            file = None if without_fd else self._budget.keep(self._root, f"proc/{entry.key.pid}/io", IO_SIZE)
            if isinstance(file, KeptFile):
                entry.io = file
                self._kept.append(entry)
            elif isinstance(file, OSError) and file.errno in FORBIDDEN | ENDED:
                # A living process gives ENOENT if the kernel, or the saved copy of /proc, has no task I/O accounting.
                denied.append(entry)
            else:
                without_fd.append(entry)
        self._without_fd = without_fd
        if any(a.key.start_ticks > b.key.start_ticks for a, b in pairwise(self._kept[last_kept:])):
            self._kept.sort(key=lambda entry: entry.key.start_ticks)
        return denied

    def run(self, only: Sequence[ProcessEntry] | None = None) -> list[tuple[ProcessEntry, bytes | OSError]]:
        """Return (entry, new content or error) of each entry that differs from its last read.

        only: the entries to read, in the order of their start times; None to read all that are not asleep.
        """
        changed: list[tuple[ProcessEntry, bytes | OSError]] = []
        if only is None:
            entries, without_fd = [entry for entry in self._kept if not entry.asleep], self._without_fd
        else:
            entries = [entry for entry in only if entry.io is not None]
            without_fd = [entry for entry in only if entry.io is None and not (entry.ended or entry.denied)]
        for start in range(0, len(entries), READ_BATCH):
            batch = entries[start : start + READ_BATCH]
            raws = read_kept(list(map(_IO_FD, batch)), IO_SIZE)
            changed += [(batch[i], raws[i]) for i in compress(range(len(raws)), map(ne, raws, map(_IO_RAW, batch)))]
        for entry in without_fd:
            raw = read_io_once(self._root, entry.key.pid)
            if raw != entry.io_raw:
                changed.append((entry, self._verified(entry, raw)))
        for entry, raw in changed:
            entry.io_raw = raw
        return changed

    def _verified(self, entry: ProcessEntry, raw: bytes | OSError) -> bytes | OSError:
        """Return the io of an entry without a descriptor, or an error if it may be of a new process with the same PID.

        The stat is read after the io: a process that has its PID now also had it before.
        """
        if isinstance(raw, OSError):
            return raw
        stat = _read_stat(self._root, entry)
        if isinstance(stat, OSError):
            return stat
        if parse_stat(stat).start_ticks != entry.key.start_ticks:
            return ProcessLookupError(errno.ESRCH, "another process has the PID")
        return raw

    def drop(self) -> None:
        """Remove the entries whose process has ended or cannot be read."""
        self._kept = [entry for entry in self._kept if not (entry.ended or entry.denied)]
        self._without_fd = [entry for entry in self._without_fd if not (entry.ended or entry.denied)]


class StatSweep:
    """Reads /proc/PID/stat of one part of the entries at a time.

    parts: the number of parts; the PID selects the part.
    """

    def __init__(self, root: Root, parts: int) -> None:
        self._root = root
        self._parts: list[dict[int, ProcessEntry]] = [{} for _ in range(parts)]

    def add(self, entry: ProcessEntry) -> None:
        """Add an entry."""
        self._parts[entry.key.pid % len(self._parts)][entry.key.pid] = entry

    def drop(self, entry: ProcessEntry) -> None:
        """Remove an entry."""
        del self._parts[entry.key.pid % len(self._parts)][entry.key.pid]

    def clear(self) -> None:
        """Remove all entries."""
        self._parts = [{} for _ in self._parts]

    def due(self, turn: int, turns: int) -> list[ProcessEntry]:
        """Return the entries to read in tick number ``turn`` of ``turns`` ticks that together read all entries.

        ``turns`` must divide the number of parts.
        """
        return [entry for part in self._parts[turn::turns] for entry in part.values()]

    def changed(self, entries: Iterable[ProcessEntry]) -> list[tuple[ProcessEntry, bytes | OSError]]:
        """Return (entry, new stat or error) of those of these entries whose stat has changed."""
        out: list[tuple[ProcessEntry, bytes | OSError]] = []
        kept: list[ProcessEntry] = []
        for entry in entries:
            if entry.stat is not None:
                kept.append(entry)
            elif hash(raw := read_stat_once(self._root, entry.key.pid)) != entry.stat_hash:
                out.append((entry, raw))
        for start in range(0, len(kept), READ_BATCH):
            batch = kept[start : start + READ_BATCH]
            fds = list(map(_STAT_FD, batch))
            raws = read_kept(fds, STAT_USUAL)
            new = compress(range(len(raws)), map(ne, map(hash, raws), map(_STAT_HASH, batch)))
            out += [(batch[i], _whole_line(raws[i], fds[i])) for i in new]
        return out

    def read(self, entries: Iterable[ProcessEntry]) -> list[tuple[ProcessEntry, bytes | OSError]]:
        """Return (entry, stat or error) of each of these entries."""
        return [(entry, _read_stat(self._root, entry)) for entry in entries]


def _read_stat(root: Root, entry: ProcessEntry) -> bytes | OSError:
    """Return the stat line of an entry, or the error."""
    if entry.stat is None:
        return read_stat_once(root, entry.key.pid)
    fd = entry.stat.fd
    return _whole_line(read_kept([fd], STAT_USUAL)[0], fd)


def _whole_line(raw: bytes | OSError, fd: int) -> bytes | OSError:
    """Return the whole stat line: if it filled ``STAT_USUAL`` bytes, read it again with a larger buffer."""
    return read_kept([fd], STAT_SIZE)[0] if isinstance(raw, bytes) and len(raw) >= STAT_USUAL else raw
