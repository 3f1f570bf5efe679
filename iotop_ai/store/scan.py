"""The lines that a plain recording is indexed by: headers, events and keyframes, found at the speed of a line search.

The file goes through one small buffer instead of a mapping: what was looked at would count as our memory, each of its
pages costs a fault, and a mapping kills the process when somebody truncates the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from iotop_ai.model.errors import InputError
from iotop_ai.model.record import NamedTuple
from iotop_ai.store.sink import LONGEST_LINE

HEADER = b'{"k":"hdr"'
EVENT = b'{"k":"ev"'
SNAP = b'{"k":"snap",'
KEY = b',"key":true,'
KEY_WITHIN = 120
"""How far into its line a keyframe says that it is one, in bytes."""
HEAD = 2000
"""Bytes of a line that say what it is, a session's begin included."""
_BUFFER = 1 << 20
_LINE_END = b"\n"


class Line(NamedTuple):
    """A line of interest. offset, end: in the file, its line end included; head: its first bytes, without that."""

    offset: int
    end: int
    head: bytes


def marked_lines(fd: int, start: int, end: int, step: int = _BUFFER) -> Iterator[Line]:
    """The header, event and keyframe lines between two offsets, each of which is a line's begin or the file's end.

    step: bytes read at once, at least KEY_WITHIN. Ends early where the file does by now. Raises InputError at a
    line of more than LONGEST_LINE.
    """
    buffer = bytearray(min(step, max(0, end - start)))
    at = start
    while at < end and (got := os.preadv(fd, [memoryview(buffer)[: end - at]], at)):
        begin = 0
        while (stop := buffer.find(_LINE_END, begin, got)) >= 0:
            if _is_marked(buffer, begin, stop):
                yield Line(at + begin, at + stop + 1, bytes(buffer[begin : min(stop, begin + HEAD)]))
            begin = stop + 1
        if begin == 0:
            behind = _behind(fd, at, end)
            if behind is None:
                return
            if _is_marked(buffer, 0, got):
                yield Line(at, behind, bytes(buffer[: min(got, HEAD)]))
            begin = behind - at
        at += begin


def _is_marked(buffer: bytearray, begin: int, stop: int) -> bool:
    """Whether the line that begins there, and goes on to ``stop`` at least, is a header, an event or a keyframe."""
    if buffer.startswith(SNAP, begin):
        return buffer.find(KEY, begin, min(stop, begin + KEY_WITHIN)) >= 0
    return buffer.startswith((EVENT, HEADER), begin)


def _behind(fd: int, start: int, end: int) -> int | None:
    """Where the line ends that begins at ``start`` and is longer than a buffer; None where the file ends before."""
    at = start
    while at < end and (part := os.pread(fd, min(_BUFFER, end - at), at)):
        stop = part.find(_LINE_END)
        if (stop if stop >= 0 else len(part)) + at - start > LONGEST_LINE:
            raise InputError("a line longer than 16 MiB")
        if stop >= 0:
            return at + stop + 1
        at += len(part)
    return None
