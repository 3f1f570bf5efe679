"""Finds the lines by which a plain recording is indexed: headers, events and keyframes, at the speed of a line search.

The file is read through a small buffer and not mapped. The pages of a mapping would count as memory of this process,
each would cost a fault, and SIGBUS would kill the process if the file were truncated meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import InputError
from iotop_ai.store.format.line_head import HEAD_BYTES, may_begin_block
from iotop_ai.store.format.size_limits import LONGEST_LINE

_BUFFER = 1 << 20
_LINE_END = b"\n"


class Line(NamedTuple):
    """An indexed line.

    offset, end: the positions of its start and its end in the file; the line end is included
    head: its first bytes, without the line end
    """

    offset: int
    end: int
    head: bytes


def indexed_lines(fd: int, start: int, end: int, step: int = _BUFFER) -> Iterator[Line]:
    """The header, event and keyframe lines of a part of the file.

    Raises InputError for a line of more than LONGEST_LINE. The iterator ends early if the file has become shorter.

    start: the position at which the part begins, which is the start of a line
    end: the position at which the part ends, which is the start of a line or the end of the file
    step: the number of bytes to read at once, at least KEY_WITHIN
    """
    buffer = bytearray(min(step, max(0, end - start)))
    at = start
    while at < end and (length := os.preadv(fd, [memoryview(buffer)[: end - at]], at)):
        begin = 0
        while (stop := buffer.find(_LINE_END, begin, length)) >= 0:
            if may_begin_block(buffer, begin, stop):
                yield Line(at + begin, at + stop + 1, bytes(buffer[begin : min(stop, begin + HEAD_BYTES)]))
            begin = stop + 1
        if begin == 0:
            line_end = _end_of_line(fd, at, end)
            if line_end is None:
                return
            if may_begin_block(buffer, 0, length):
                yield Line(at, line_end, bytes(buffer[: min(length, HEAD_BYTES)]))
            begin = line_end - at
        at += begin


def _end_of_line(fd: int, start: int, end: int) -> int | None:
    """The end of a line that is longer than the buffer; None if the file ends before that."""
    at = start
    while at < end and (part := os.pread(fd, min(_BUFFER, end - at), at)):
        stop = part.find(_LINE_END)
        if (stop if stop >= 0 else len(part)) + at - start > LONGEST_LINE:
            raise InputError("a line longer than 16 MiB")
        if stop >= 0:
            return at + stop + 1
        at += len(part)
    return None
