"""The two sweeps over processes: io of all processes, stat of a part of them."""

from __future__ import annotations

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
    read_kept,
    read_once,
    read_stat_once,
)
from iotop_ai.model.process.records import ProcessIo

PIECE = 128
"""Files read before their contents are compared. Unchanged contents are freed while still in the CPU cache; those of
all processes at once would take megabytes."""
SPAN = 16
"""Contents compared at once; only a group with a difference is compared one by one."""
_RAW = attrgetter("io_raw")
_SEEN = attrgetter("stat_seen")


def io_weight(io: ProcessIo) -> int:
    """Sort key: bytes of storage first, bytes of the page cache among equals."""
    return (io.read_bytes + io.write_bytes) * 1024 + io.rchar + io.wchar


class DescriptorBudget:
    """Counts kept descriptors against a limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.in_use = 0

    def keep(self, root: Root, relative: str, size: int) -> KeptFile | OSError | None:
        """A kept file, the error, or None at the limit."""
        if self.in_use >= self.most:
            return None
        file = open_kept(root, relative, size)
        if isinstance(file, KeptFile):
            self.in_use += 1
        return file

    def give_back(self, file: KeptFile | None) -> None:
        """Close a kept file."""
        if file is not None:
            file.close()
            self.in_use -= 1


class IoSweep:
    """Reads /proc/PID/io of every entry, in order of start time, so parents come before children.

    Otherwise a child reaped between the two reads would count twice: as itself and in its parent.
    """

    def __init__(self, root: Root, budget: DescriptorBudget) -> None:
        self._root = root
        self._budget = budget
        self._kept: list[ProcessEntry] = []
        self._fds: list[int] = []
        self._raws: list[bytes | OSError] | None = []
        """io_raw of the kept entries in order; None: collect it again."""
        self._loose: list[ProcessEntry] = []

    def add(self, entries: Sequence[ProcessEntry]) -> list[ProcessEntry]:
        """Add entries in order of start time; returns the unreadable ones.

        Entries without a descriptor are opened at each sweep and get the next free descriptors.
        """
        if not entries and (not self._loose or self._budget.in_use >= self._budget.most):
            return []
        edge = max(len(self._kept) - 1, 0)
        denied: list[ProcessEntry] = []
        loose: list[ProcessEntry] = []
        for entry in (*self._loose, *entries):
            file = None if loose else self._budget.keep(self._root, f"proc/{entry.key.pid}/io", IO_SIZE)
            if isinstance(file, KeptFile):
                entry.io = file
                self._kept.append(entry)
                self._fds.append(file.fd)
                if self._raws is not None:
                    self._raws.append(entry.io_raw)
            elif isinstance(file, OSError) and file.errno in FORBIDDEN | ENDED:
                # ENOENT of a living process: a kernel without task I/O accounting, or a captured tree without it.
                denied.append(entry)
            else:
                loose.append(entry)
        self._loose = loose
        if any(a.key.start_ticks > b.key.start_ticks for a, b in pairwise(self._kept[edge:])):
            self._sort()
        return denied

    def run(self, only: Sequence[ProcessEntry] | None = None) -> list[tuple[ProcessEntry, bytes | OSError]]:
        """(entry, new content or error) where it differs from the last read. only: entries in order; None for all."""
        changed: list[tuple[ProcessEntry, bytes | OSError]]
        loose = self._loose
        if only is None:
            changed = self._read_all_kept()
        else:
            files = [(entry, entry.io) for entry in only if entry.io is not None]
            raws = read_kept([file.fd for _, file in files], IO_SIZE)
            kept = (entry for entry, _ in files)
            changed = [(entry, raw) for entry, raw in zip(kept, raws, strict=True) if raw != entry.io_raw]
            loose = [entry for entry in only if entry.io is None and not (entry.ended or entry.denied)]
            self._raws = None
        for entry in loose:
            raw = read_once(self._root, f"proc/{entry.key.pid}/io", IO_SIZE)
            if raw != entry.io_raw:
                changed.append((entry, raw))
        for entry, raw in changed:
            entry.io_raw = raw
        return changed

    def _read_all_kept(self) -> list[tuple[ProcessEntry, bytes | OSError]]:
        """Changes of all entries with a kept descriptor."""
        if self._raws is None:
            self._raws = list(map(_RAW, self._kept))
        fds, seen = self._fds, self._raws
        changed: list[tuple[ProcessEntry, bytes | OSError]] = []
        for start in range(0, len(fds), PIECE):
            raws = read_kept(fds[start : start + PIECE], IO_SIZE)
            for at in range(0, len(raws), SPAN):
                some, before = raws[at : at + SPAN], seen[start + at : start + at + SPAN]
                if some != before:
                    for i in compress(range(start + at, start + at + len(some)), map(ne, before, some)):
                        seen[i] = raws[i - start]
                        changed.append((self._kept[i], seen[i]))
        return changed

    def drop(self) -> None:
        """Remove the entries that ended or are denied."""
        stays = [not (entry.ended or entry.denied) for entry in self._kept]
        self._kept = list(compress(self._kept, stays))
        self._fds = list(compress(self._fds, stays))
        if self._raws is not None:
            self._raws = list(compress(self._raws, stays))
        self._loose = [entry for entry in self._loose if not (entry.ended or entry.denied)]

    def _sort(self) -> None:
        rows = sorted(zip(self._kept, self._fds, strict=True), key=lambda row: row[0].key.start_ticks)
        self._kept = [row[0] for row in rows]
        self._fds = [row[1] for row in rows]
        self._raws = None


class StatSweep:
    """Reads /proc/PID/stat of one part of the entries at a time. parts: number of parts, by PID."""

    def __init__(self, root: Root, parts: int) -> None:
        self._root = root
        self._parts: list[dict[int, ProcessEntry]] = [{} for _ in range(parts)]
        self._turns: dict[tuple[int, int], tuple[list[ProcessEntry], list[int], list[ProcessEntry]]] = {}

    def add(self, entry: ProcessEntry) -> None:
        """Add an entry."""
        self._parts[entry.key.pid % len(self._parts)][entry.key.pid] = entry
        self._turns.clear()

    def drop(self, entry: ProcessEntry) -> None:
        """Remove an entry."""
        del self._parts[entry.key.pid % len(self._parts)][entry.key.pid]
        self._turns.clear()

    def clear(self) -> None:
        """Remove all entries."""
        self._parts = [{} for _ in self._parts]
        self._turns.clear()

    def descriptors_changed(self) -> None:
        """Forget the cached lists of descriptors."""
        self._turns.clear()

    def due(self, turn: int, turns: int) -> list[ProcessEntry]:
        """Entries to read in this turn, where all are read in ``turns`` turns; turns divides the number of parts."""
        return [entry for part in self._parts[turn::turns] for entry in part.values()]

    def changed(self, turn: int, turns: int) -> list[tuple[ProcessEntry, bytes | OSError]]:
        """(entry, new stat or error) of the due entries whose stat changed."""
        lists = self._turns.get((turn, turns))
        if lists is None:
            due = self.due(turn, turns)
            kept = [entry for entry in due if entry.stat is not None]
            fds = [entry.stat.fd for entry in kept if entry.stat is not None]
            lists = self._turns[turn, turns] = kept, fds, [entry for entry in due if entry.stat is None]
        kept, fds, loose = lists
        out: list[tuple[ProcessEntry, bytes | OSError]] = []
        for start in range(0, len(fds), PIECE):
            part, raws = kept[start : start + PIECE], read_kept(fds[start : start + PIECE], STAT_USUAL)
            new = compress(range(len(raws)), map(ne, map(hash, raws), map(_SEEN, part)))
            out += [(part[i], _whole(raws[i], fds[start + i])) for i in new]
        for entry in loose:
            raw = read_stat_once(self._root, entry.key.pid)
            if hash(raw) != entry.stat_seen:
                out.append((entry, raw))
        return out

    def read(self, entries: Iterable[ProcessEntry]) -> list[tuple[ProcessEntry, bytes | OSError]]:
        """(entry, stat or error) of each entry."""
        out: list[tuple[ProcessEntry, bytes | OSError]] = []
        for entry in entries:
            if entry.stat is None:
                out.append((entry, read_stat_once(self._root, entry.key.pid)))
            else:
                fd = entry.stat.fd
                out.append((entry, _whole(read_kept([fd], STAT_USUAL)[0], fd)))
        return out


def _whole(raw: bytes | OSError, fd: int) -> bytes | OSError:
    """A line, read again with a larger buffer if it filled ``STAT_USUAL`` bytes."""
    return read_kept([fd], STAT_SIZE)[0] if isinstance(raw, bytes) and len(raw) >= STAT_USUAL else raw
