"""The two sweeps over processes: io of all, stat of some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, pairwise
from operator import attrgetter, ne

from iotop_ai.collectors.process_slot import (
    ENDED,
    FORBIDDEN,
    IO_SIZE,
    STAT_SIZE,
    STAT_USUAL,
    Slot,
    keep,
    read_kept,
    read_once,
    read_stat_once,
)
from iotop_ai.collectors.root import KeptFile, Root

PIECE = 128
"""Files read before their texts are compared. Unchanged ones are then given back while they are still in the cache,
and the next ones come to lie in their place; those of all processes at once would be megabytes."""
SPAN = 16
"""Texts compared at once; which of them differ is asked where one does."""
_RAW = attrgetter("io_raw")
_SEEN = attrgetter("stat_seen")


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
        self._raws: list[bytes | OSError] | None = []
        """The kept slots' io_raw, side by side; None where they are to be collected anew."""
        self._loose: list[Slot] = []

    def add(self, slots: Sequence[Slot]) -> list[Slot]:
        """Take slots in, in order of their start times; the list of those that may not be read.

        Those for which there is no descriptor are opened at each sweep; they come first when one is free again.
        """
        if not slots and (not self._loose or self._room.held >= self._room.most):
            return []
        edge = max(len(self._kept) - 1, 0)
        denied: list[Slot] = []
        loose: list[Slot] = []
        for slot in (*self._loose, *slots):
            file = None if loose else self._room.keep(self._root, f"proc/{slot.key.pid}/io", IO_SIZE)
            if isinstance(file, KeptFile):
                slot.io = file
                self._kept.append(slot)
                self._fds.append(file.fd)
                if self._raws is not None:
                    self._raws.append(slot.io_raw)
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
        changed: list[tuple[Slot, bytes | OSError]]
        loose = self._loose
        if only is None:
            changed = self._of_all()
        else:
            files = [(slot, slot.io) for slot in only if slot.io is not None]
            raws = read_kept([file.fd for _, file in files], IO_SIZE)
            kept = (slot for slot, _ in files)
            changed = [(slot, raw) for slot, raw in zip(kept, raws, strict=True) if raw != slot.io_raw]
            loose = [slot for slot in only if slot.io is None and not (slot.ended or slot.denied)]
            self._raws = None
        for slot in loose:
            raw = read_once(self._root, f"proc/{slot.key.pid}/io", IO_SIZE)
            if raw != slot.io_raw:
                changed.append((slot, raw))
        for slot, raw in changed:
            slot.io_raw = raw
        return changed

    def _of_all(self) -> list[tuple[Slot, bytes | OSError]]:
        """What changed of those with a kept descriptor."""
        if self._raws is None:
            self._raws = list(map(_RAW, self._kept))
        fds, seen = self._fds, self._raws
        changed: list[tuple[Slot, bytes | OSError]] = []
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
        """Take out what ended or is denied."""
        stays = [not (slot.ended or slot.denied) for slot in self._kept]
        self._kept = list(compress(self._kept, stays))
        self._fds = list(compress(self._fds, stays))
        if self._raws is not None:
            self._raws = list(compress(self._raws, stays))
        self._loose = [slot for slot in self._loose if not (slot.ended or slot.denied)]

    def _sort(self) -> None:
        rows = sorted(zip(self._kept, self._fds, strict=True), key=lambda row: row[0].key.start_ticks)
        self._kept = [row[0] for row in rows]
        self._fds = [row[1] for row in rows]
        self._raws = None


class StatSweep:
    """Reads /proc/PID/stat of the slots whose turn it is. parts: in how many parts it divides them, by pid."""

    def __init__(self, root: Root, parts: int) -> None:
        self._root = root
        self._parts: list[dict[int, Slot]] = [{} for _ in range(parts)]
        self._turns: dict[tuple[int, int], tuple[list[Slot], list[int], list[Slot]]] = {}

    def add(self, slot: Slot) -> None:
        """Take one in."""
        self._parts[slot.key.pid % len(self._parts)][slot.key.pid] = slot
        self._turns.clear()

    def drop(self, slot: Slot) -> None:
        """Take one out."""
        del self._parts[slot.key.pid % len(self._parts)][slot.key.pid]
        self._turns.clear()

    def clear(self) -> None:
        """Take all out."""
        self._parts = [{} for _ in self._parts]
        self._turns.clear()

    def moved(self) -> None:
        """Somebody's descriptor came or went."""
        self._turns.clear()

    def of(self, turn: int, turns: int) -> list[Slot]:
        """Whose turn it is, where all get one in ``turns`` of them; a divisor of the parts."""
        return [slot for part in self._parts[turn::turns] for slot in part.values()]

    def news(self, turn: int, turns: int) -> list[tuple[Slot, bytes | OSError]]:
        """The stat of each whose turn it is and whose line is another than the one that was seen."""
        lists = self._turns.get((turn, turns))
        if lists is None:
            due = self.of(turn, turns)
            kept = [slot for slot in due if slot.stat is not None]
            fds = [slot.stat.fd for slot in kept if slot.stat is not None]
            lists = self._turns[turn, turns] = kept, fds, [slot for slot in due if slot.stat is None]
        kept, fds, loose = lists
        out: list[tuple[Slot, bytes | OSError]] = []
        for start in range(0, len(fds), PIECE):
            part, raws = kept[start : start + PIECE], read_kept(fds[start : start + PIECE], STAT_USUAL)
            new = compress(range(len(raws)), map(ne, map(hash, raws), map(_SEEN, part)))
            out += [(part[i], _whole(raws[i], fds[start + i])) for i in new]
        for slot in loose:
            raw = read_stat_once(self._root, slot.key.pid)
            if hash(raw) != slot.stat_seen:
                out.append((slot, raw))
        return out

    def each(self, slots: Iterable[Slot]) -> list[tuple[Slot, bytes | OSError]]:
        """The stat of each slot, whatever it says."""
        out: list[tuple[Slot, bytes | OSError]] = []
        for slot in slots:
            if slot.stat is None:
                out.append((slot, read_stat_once(self._root, slot.key.pid)))
            else:
                fd = slot.stat.fd
                out.append((slot, _whole(read_kept([fd], STAT_USUAL)[0], fd)))
        return out


def _whole(raw: bytes | OSError, fd: int) -> bytes | OSError:
    """A line that was read into ``STAT_USUAL`` bytes, read again where it fills them."""
    return read_kept([fd], STAT_SIZE)[0] if isinstance(raw, bytes) and len(raw) >= STAT_USUAL else raw
