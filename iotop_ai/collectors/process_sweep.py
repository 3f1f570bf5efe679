"""The two sweeps over processes: io of all, stat of some."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import compress, pairwise
from operator import attrgetter, ne

from iotop_ai.collectors.process_slot import (
    ENDED,
    FORBIDDEN,
    IO_SIZE,
    Slot,
    keep,
    read_kept,
    read_once,
    read_stat,
    read_stat_once,
)
from iotop_ai.collectors.root import KeptFile, Root

PIECE = 512
"""Lines of stat that are held at once: those of all processes would be as much as all that is known of them."""
_RAW = attrgetter("io_raw")


class Room:
    """How many descriptors may be kept, and how many are."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def keep(self, root: Root, relative: str, size: int) -> KeptFile | OSError | None:
        """A kept file, the error, or None when there is no room."""
        if self.held >= self.most:
            return None
        file = keep(root, relative, size)
        if isinstance(file, KeptFile):
            self.held += 1
        return file

    def give_back(self, file: KeptFile | None) -> None:
        """Close a kept file."""
        if file is not None:
            file.close()
            self.held -= 1


class IoSweep:
    """Reads /proc/PID/io of every slot in it, parents before children.

    A child starts later than its parent, so the order is that of start times. In the other order a child reaped
    between the two reads would be counted twice: once as itself and once in its parent.
    """

    def __init__(self, root: Root, room: Room) -> None:
        self._root = root
        self._room = room
        self._kept: list[Slot] = []
        self._fds: list[int] = []
        self._loose: list[Slot] = []

    def add(self, slots: Iterable[Slot]) -> list[Slot]:
        """Take slots in, in order of their start times; the list of those that may not be read.

        Those for which there is no descriptor are opened at each sweep; they come first when one is free again.
        """
        edge = max(len(self._kept) - 1, 0)
        denied: list[Slot] = []
        loose: list[Slot] = []
        for slot in (*self._loose, *slots):
            file = None if loose else self._room.keep(self._root, f"proc/{slot.key.pid}/io", IO_SIZE)
            if isinstance(file, KeptFile):
                slot.io = file
                self._kept.append(slot)
                self._fds.append(file.fd)
            elif isinstance(file, OSError) and file.errno in FORBIDDEN | ENDED:
                # ENOENT of a living process: a kernel without task I/O accounting, or a captured tree without it.
                denied.append(slot)
            else:
                loose.append(slot)
        self._loose = loose
        if any(a.key.start_ticks > b.key.start_ticks for a, b in pairwise(self._kept[edge:])):
            self._sort()
        return denied

    def run(self, only: Sequence[Slot] | None = None) -> list[tuple[Slot, bytes | OSError]]:
        """What changed since it was last read: new content, or why there is none.

        only: whom to read, in order of their start times; None all.
        """
        kept, fds, loose = self._kept, self._fds, self._loose
        if only is not None:
            files = [(slot, slot.io) for slot in only if slot.io is not None]
            kept, fds = [slot for slot, _ in files], [file.fd for _, file in files]
            loose = [slot for slot in only if slot.io is None and not (slot.ended or slot.denied)]
        raws = read_kept(fds, IO_SIZE)
        changed = [(kept[i], raws[i]) for i in compress(range(len(raws)), map(ne, map(_RAW, kept), raws))]
        for slot in loose:
            raw = read_once(self._root, f"proc/{slot.key.pid}/io", IO_SIZE)
            if raw != slot.io_raw:
                changed.append((slot, raw))
        for slot, raw in changed:
            slot.io_raw = raw
        return changed

    def drop(self) -> None:
        """Take out what ended or is denied."""
        stays = [not (slot.ended or slot.denied) for slot in self._kept]
        self._kept = list(compress(self._kept, stays))
        self._fds = list(compress(self._fds, stays))
        self._loose = [slot for slot in self._loose if not (slot.ended or slot.denied)]

    def _sort(self) -> None:
        rows = sorted(zip(self._kept, self._fds, strict=True), key=lambda row: row[0].key.start_ticks)
        self._kept = [row[0] for row in rows]
        self._fds = [row[1] for row in rows]


def read_stats(root: Root, slots: Iterable[Slot], always: Container[Slot]) -> list[tuple[Slot, bytes | OSError]]:
    """The stat of each slot that is young, of ``always`` or says something new, those with a kept descriptor first."""
    kept = [slot for slot in slots if slot.stat is not None]
    loose = [slot for slot in slots if slot.stat is None]
    out: list[tuple[Slot, bytes | OSError]] = []

    def sift(part: Sequence[Slot], raws: Iterable[bytes | OSError]) -> None:
        found = zip(part, raws, strict=True)
        out.extend((slot, raw) for slot, raw in found if hash(raw) != slot.stat_seen or slot.young or slot in always)

    for start in range(0, len(kept), PIECE):
        part = kept[start : start + PIECE]
        sift(part, read_stat([slot.stat.fd for slot in part if slot.stat is not None]))
    sift(loose, (read_stat_once(root, slot.key.pid) for slot in loose))
    return out
