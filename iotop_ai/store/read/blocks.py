"""The blocks of a recording, in a plain file or a gzip file; each has one keyframe and can be read alone."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Iterable, Iterator
from typing import Protocol

from iotop_ai.collectors.io.own_file import open_to_read
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import InputError
from iotop_ai.store.format.line_head import EVENT, HEADER, parse_head, starts_session
from iotop_ai.store.format.size_limits import LONGEST_LINE, MOST_BLOCK_LINES, check_block_count
from iotop_ai.store.read.backward_index import block_starts
from iotop_ai.store.read.gzip_members import PREROLL, STARTS_SESSION, iter_decompressed, members, unpack
from iotop_ai.store.read.gzip_members import Member as GzipMember
from iotop_ai.store.read.line_index import Line, indexed_lines
from iotop_ai.store.write.sink import length_of_complete_lines

GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20


class Block(NamedTuple):
    """A keyframe with the header and event lines directly before it, and the lines up to the next block.

    offset, length: its position in the file (plain or gzip); for a block in memory, ``offset`` is only its number
    at_ns, wall_ns: the times of the keyframe
    session: the number of its session within the file
    pre: whether it belongs to the pre-roll, which builds history and is not shown
    """

    offset: int
    length: int
    at_ns: int
    wall_ns: int
    session: int
    pre: bool = False


class Blocks(Protocol):
    """The interface of the blocks of one open file."""

    index: list[Block]
    cut_bytes: int
    """The bytes after the last complete block of a compressed file; 0 for a plain file, which may still grow."""

    def refresh(self) -> bool:
        """Index the appended part; return whether there was one.

        Raises InputError if the file has no keyframe any more.
        """
        ...

    def data(self, block: Block) -> bytes:
        """The lines of a block. Raises InputError."""
        ...

    def lines(self, block: Block) -> Iterator[bytes]:
        """The lines of a block one by one, without their line ends, in bounded memory. Raises InputError."""
        ...

    def place(self, block: Block, number: int) -> str:
        """The position of the line with this number in the block, for messages."""
        ...

    def fileno(self) -> int:
        """The file descriptor."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class NoKeyframeError(InputError):
    """A file that is missing or has no complete keyframe, such as the live file for a moment during rotation."""


def open_blocks(path: str, *, allow_root: bool = False) -> PlainBlocks | GzipBlocks:
    """The blocks of a file. Raises InputError if it cannot be read or is not a recording.

    The message never quotes the content of the file.

    allow_root: whether root may open a file of any owner
    """
    try:
        fd = open_to_read(path, allow_root=allow_root)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except FileNotFoundError as error:
        raise NoKeyframeError(f"{path}: {error.strerror}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file name"
        if getattr(error, "errno", None) == errno.EMFILE:
            why = (
                f"more open files than the limit of {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} (ulimit -n) allows"
            )
        raise InputError(f"{path}: {why}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise InputError("not a regular file; use - to read a stream")
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


def split_lines(chunks: Iterable[bytes], *, torn: bool = True, most: int | None = None) -> Iterator[bytes]:
    """The lines in chunks of text, without their line ends.

    Raises InputError for a line of more than LONGEST_LINE, and for more than ``most`` lines. Keeps at most one line and
    one chunk in memory.

    torn: whether to yield a last line that does not have a line end
    """
    rest: list[bytes] = []
    rest_bytes = count = 0
    for chunk in chunks:
        whole, end, tail = chunk.rpartition(b"\n")
        if end:
            first, *others = whole.split(b"\n")
            count += 1 + len(others)
            if most is not None and count > most:
                raise InputError(f"more than {most} lines from one keyframe to the next")
            yield b"".join((*rest, first))
            yield from others
            rest, rest_bytes = [], 0
        if tail:
            rest.append(tail)
            rest_bytes += len(tail)
            if rest_bytes > LONGEST_LINE:
                raise InputError("a line longer than 16 MiB")
    if rest and torn:
        yield b"".join(rest)


class GzipBlocks:
    """The blocks of a packed file, which are its gzip members."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.index: list[Block] = []
        self._members: dict[int, GzipMember] = {}
        session = end = 0
        for member in members(fd):
            session += bool(member.flags & STARTS_SESSION)
            pre = bool(member.flags & PREROLL)
            check_block_count(len(self.index) + 1)
            self.index.append(Block(member.offset, member.length, member.at_ns, member.wall_ns, session, pre))
            self._members[member.offset] = member
            end = member.offset + member.length
        self.cut_bytes = max(0, os.fstat(fd).st_size - end)
        if not self.index:
            raise InputError(
                "cut off before the end of its first part; `zcat FILE | iotop-ai diagnose -` reads what is there"
            )

    def refresh(self) -> bool:
        """Return False, because a packed file does not grow."""
        return False

    def data(self, block: Block) -> bytes:
        """The unpacked lines of a block."""
        return unpack(self._fd, self._members[block.offset])

    def lines(self, block: Block) -> Iterator[bytes]:
        """The unpacked lines of a block, one by one."""
        return split_lines(iter_decompressed(self._fd, self._members[block.offset]), most=MOST_BLOCK_LINES)

    def place(self, block: Block, number: int) -> str:
        """The number of the part, and of the line in that part."""
        return f"part {self.index.index(block) + 1}, line {number}"

    def fileno(self) -> int:
        """The file descriptor."""
        return self._fd

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class PlainBlocks:
    """The blocks of a plain file, which may still grow; an incomplete last line is ignored."""

    cut_bytes = 0

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.index: list[Block] = []
        self._end = 0
        self._session = 0
        # The newest header and event lines belong to the next block if its keyframe directly follows them. They begin
        # at ``_lead`` and end at ``_lead_end`` (-1 if there are none); ``_lead_sessions`` of them begin a session.
        self._lead = self._lead_sessions = 0
        self._lead_end = -1
        # While a recorder makes the next file of a rotation, the file is empty or holds a part of its header.
        if not HEADER.startswith(os.pread(fd, len(HEADER), 0)):
            raise InputError("not a recording: it does not begin with a header line")
        self.refresh()

    def refresh(self) -> bool:
        """Index the appended part; return whether there was one.

        A file that became shorter is indexed again from its start. Raises InputError if the file does not contain a
        complete keyframe any more.
        """
        size = os.fstat(self._fd).st_size
        if size >= self._end:
            return self._index_up_to(length_of_complete_lines(self._fd, size))
        self.index, self._end, self._session, self._lead_end = [], 0, 0, -1
        self._index_up_to(length_of_complete_lines(self._fd, size))
        if not self.index:
            raise InputError("it no longer has a complete keyframe")
        return True

    def _index_up_to(self, end: int) -> bool:
        if end <= self._end:
            return False
        offset, starts = block_starts(self._fd, end) if self._end == 0 else (end, [])
        for line in indexed_lines(self._fd, self._end, offset):
            self._add(line)
        for start in starts[:-1]:
            for line in start.lines:
                self._add(line)
        if starts:  # lines are read up to the end, because a header or events there belong to the next block
            for line in indexed_lines(self._fd, starts[-1].lines[0].offset, end):
                self._add(line)
        if self.index:
            last = self.index[-1]
            self.index[-1] = last._replace(length=end - last.offset)
        self._end = end
        return True

    def _add(self, line: Line) -> None:
        """Index a line that may begin a block: a keyframe, or a header or event directly before a keyframe."""
        if line.offset != self._lead_end:
            self._lead, self._lead_sessions = line.offset, 0
        self._lead_end = line.end
        head = parse_head(line.head)
        if head is not None and head.at_ns is not None and head.wall_ns is not None and head.is_snap:
            if self.index:
                last = self.index[-1]
                self.index[-1] = last._replace(length=self._lead - last.offset)
            self._session += self._lead_sessions
            begin = self._lead if self.index else 0
            check_block_count(len(self.index) + 1)
            self.index.append(Block(begin, 0, head.at_ns, head.wall_ns, self._session, head.pre))
            self._lead_end = -1
        elif not line.head.startswith(HEADER):
            if not line.head.startswith(EVENT):
                self._lead_end = -1
        elif starts_session(line.head):
            self._lead_sessions += 1

    def data(self, block: Block) -> bytes:
        """The lines of a block."""
        return os.pread(self._fd, block.length, block.offset)

    def lines(self, block: Block) -> Iterator[bytes]:
        """The lines of a block, one by one."""
        return split_lines(self._chunks(block.offset, block.offset + block.length), most=MOST_BLOCK_LINES)

    def place(self, block: Block, number: int) -> str:
        """The line's number in the file."""
        before = sum(chunk.count(b"\n") for chunk in self._chunks(0, block.offset))
        return f"line {before + number}"

    def fileno(self) -> int:
        """The file descriptor."""
        return self._fd

    def _chunks(self, start: int, end: int) -> Iterator[bytes]:
        while start < end:
            chunk = os.pread(self._fd, min(_CHUNK, end - start), start)
            if not chunk:
                return
            yield chunk
            start += len(chunk)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
