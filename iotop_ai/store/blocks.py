"""The blocks of a recording: each begins with a keyframe and can be read alone. Plain files and gzip files alike."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Protocol

from iotop_ai.model.errors import InputError
from iotop_ai.model.record import NamedTuple
from iotop_ai.store.back import begins
from iotop_ai.store.members import PREROLL, STARTS_SESSION, members, pieces, unpack
from iotop_ai.store.members import Member as GzipMember
from iotop_ai.store.scan import EVENT, HEADER, Line, marked_lines
from iotop_ai.store.sink import LONGEST_LINE, whole_length

GZIP_MAGIC = b"\x1f\x8b"
_SNAP = re.compile(rb'\{"k":"snap",("pre":true,)?"m":(\d{1,19}),"t":(-?\d{1,19})[,}]')
_PART = 1 << 20


class Block(NamedTuple):
    """A keyframe with what follows it up to the next.

    session: counts headers that begin one; at_ns, wall_ns: of the keyframe. offset, length: in the file, packed or
    not. pre: of the pre-roll, which builds history and is not shown.
    """

    offset: int
    length: int
    at_ns: int
    wall_ns: int
    session: int
    pre: bool = False


class Blocks(Protocol):
    """The blocks of one open file."""

    found: list[Block]

    def refresh(self) -> bool:
        """Look for what was appended since; whether there is more."""
        ...

    def data(self, block: Block) -> bytes:
        """A block's lines. Raises InputError."""
        ...

    def lines(self, block: Block) -> Iterator[bytes]:
        """A block's lines one by one, without their ends, in bounded memory. Raises InputError."""
        ...

    def place(self, block: Block, number: int) -> str:
        """Where the block's line of this number is, for people."""
        ...

    def fileno(self) -> int:
        """The descriptor."""
        ...

    def close(self) -> None:
        """Give the file back."""
        ...


def open_blocks(path: str) -> PlainBlocks | GzipBlocks:
    """The blocks of a file. Raises InputError when it cannot be read or is no recording; never quotes its content."""
    try:
        # Not blocking: a fifo without a writer would never open.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or 'no file name'}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise InputError("no regular file; a stream is read with -")
        if os.pread(fd, 2, 0) == GZIP_MAGIC:
            return GzipBlocks(fd)
        return PlainBlocks(fd)
    except OSError as error:
        os.close(fd)
        raise InputError(f"{path}: {error.strerror}") from None
    except InputError as error:
        os.close(fd)
        raise InputError(f"{path}: {error}") from None
    except BaseException:
        os.close(fd)
        raise


def split_lines(parts: Iterable[bytes], *, torn: bool = True) -> Iterator[bytes]:
    """The lines of text that comes in parts, without their ends. torn: a last one without an end too.

    Raises InputError at a line of more than LONGEST_LINE; never holds more than that and one part.
    """
    rest: list[bytes] = []
    held = 0
    for part in parts:
        whole, end, tail = part.rpartition(b"\n")
        if end:
            first, *others = whole.split(b"\n")
            yield b"".join((*rest, first))
            yield from others
            rest, held = [], 0
        if tail:
            rest.append(tail)
            held += len(tail)
            if held > LONGEST_LINE:
                raise InputError("a line longer than 16 MiB")
    if rest and torn:
        yield b"".join(rest)


class GzipBlocks:
    """Blocks that are gzip members."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.found: list[Block] = []
        self._members: dict[int, GzipMember] = {}
        session = 0
        for member in members(fd):
            session += member.flags & STARTS_SESSION
            pre = bool(member.flags & PREROLL)
            self.found.append(Block(member.offset, member.length, member.at_ns, member.wall_ns, session, pre))
            self._members[member.offset] = member
        if not self.found:
            raise InputError("no whole part in this file")

    def refresh(self) -> bool:
        """A packed file is finished."""
        return False

    def data(self, block: Block) -> bytes:
        """The lines, unpacked."""
        return unpack(self._fd, self._members[block.offset])

    def lines(self, block: Block) -> Iterator[bytes]:
        """The lines, unpacked one by one."""
        return split_lines(pieces(self._fd, self._members[block.offset]))

    def place(self, block: Block, number: int) -> str:
        """The part and the line in it."""
        return f"part {self.found.index(block) + 1}, line {number}"

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def close(self) -> None:
        """Give the file back; more than once is as once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class PlainBlocks:
    """Blocks of a file of lines, found by their keyframes; a torn last line is left out. The file may still grow."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.found: list[Block] = []
        self._end = 0
        self._session = 0
        # The header and event lines that stand right before the place where the last look ended.
        self._lead = self._lead_sessions = 0
        self._lead_end = -1
        if os.pread(fd, len(HEADER), 0) != HEADER:
            raise InputError("no recording: it does not begin with a header line")
        self.refresh()

    def refresh(self) -> bool:
        """Index what was appended since; True when there is more than before. A file that shrank is read anew."""
        size = os.fstat(self._fd).st_size
        if size < self._end:
            self.found, self._end, self._session, self._lead_end = [], 0, 0, -1
        end = whole_length(self._fd, size)
        if end <= self._end:
            return False
        place, known = begins(self._fd, end) if self._end == 0 else (end, [])
        for line in marked_lines(self._fd, self._end, place):
            self._see(line)
        for begin in known:
            for line in begin.lines:
                self._see(line)
        if self.found:
            last = self.found[-1]
            self.found[-1] = last._replace(length=end - last.offset)
        self._end = end
        return True

    def _see(self, line: Line) -> None:
        """A line that may begin a block: its keyframe, or a header or an event right before that."""
        if line.offset != self._lead_end:
            self._lead, self._lead_sessions = line.offset, 0
        self._lead_end = line.end
        key = _SNAP.match(line.head)
        if key is not None:
            if self.found:
                last = self.found[-1]
                self.found[-1] = last._replace(length=self._lead - last.offset)
            self._session += self._lead_sessions
            begin = self._lead if self.found else 0
            pre = key[1] is not None
            self.found.append(Block(begin, 0, int(key[2]), int(key[3]), self._session, pre))
            self._lead_end = -1
        elif not line.head.startswith(HEADER):
            if not line.head.startswith(EVENT):
                self._lead_end = -1
        elif b'"continues":false' in line.head:
            self._lead_sessions += 1

    def data(self, block: Block) -> bytes:
        """The lines."""
        return os.pread(self._fd, block.length, block.offset)

    def lines(self, block: Block) -> Iterator[bytes]:
        """The lines one by one."""
        return split_lines(self._parts(block.offset, block.offset + block.length))

    def place(self, block: Block, number: int) -> str:
        """The line's number in the file."""
        return f"line {sum(part.count(10) for part in self._parts(0, block.offset)) + number}"

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def _parts(self, start: int, end: int) -> Iterator[bytes]:
        while start < end:
            part = os.pread(self._fd, min(_PART, end - start), start)
            if not part:
                return
            yield part
            start += len(part)

    def close(self) -> None:
        """Give the file back; more than once is as once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
