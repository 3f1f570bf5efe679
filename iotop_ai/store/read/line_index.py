"""The lines by which a plain recording is indexed: headers, events and keyframes, found at the speed of a line search.

The file is read through one small buffer and not mapped: a mapping's pages would count as this process's memory, each
costs a fault, and a file that is truncated meanwhile would kill the process.
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
    """An indexed line. offset, end: file positions, line end included. head: its first bytes, without the line end."""

    offset: int
    end: int
    head: bytes


def marked_lines(fd: int, start: int, end: int, step: int = _BUFFER) -> Iterator[Line]:
    """The header, event and keyframe lines of a part of the file.

    start: a line's start. end: a line's start or the file's end. step: bytes read at once, at least KEY_WITHIN. Ends
    early where the file has become shorter. Raises InputError at a line of more than LONGEST_LINE.
    """
    buffer = bytearray(min(step, max(0, end - start)))
    at = start
    while at < end and (got := os.preadv(fd, [memoryview(buffer)[: end - at]], at)):
        begin = 0
        while (stop := buffer.find(_LINE_END, begin, got)) >= 0:
            if may_begin_block(buffer, begin, stop):
                yield Line(at + begin, at + stop + 1, bytes(buffer[begin : min(stop, begin + HEAD_BYTES)]))
            begin = stop + 1
        if begin == 0:
            line_end = _end_of_line(fd, at, end)
            if line_end is None:
                return
            if may_begin_block(buffer, 0, got):
                yield Line(at, line_end, bytes(buffer[: min(got, HEAD_BYTES)]))
            begin = line_end - at
        at += begin


def _end_of_line(fd: int, start: int, end: int) -> int | None:
    """The end of a line that is longer than the buffer; None where the file ends first."""
    at = start
    while at < end and (part := os.pread(fd, min(_BUFFER, end - at), at)):
        stop = part.find(_LINE_END)
        if (stop if stop >= 0 else len(part)) + at - start > LONGEST_LINE:
            raise InputError("a line longer than 16 MiB")
        if stop >= 0:
            return at + stop + 1
        at += len(part)
    return None
