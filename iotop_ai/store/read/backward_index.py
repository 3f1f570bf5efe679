"""Indexes a plain recording from its end backwards: each keyframe contains the length of the block before it.

So a file of a gigabyte is indexed with one small read per keyframe instead of a read of the whole file. A length is
trusted only if a block really begins at the resulting offset. If lengths are missing or wrong (an older writer, an
edited file), the caller reads the remaining part from the start of the file.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from iotop_ai.store.format.line_head import (
    EVENT,
    HEAD_BYTES,
    HEADER,
    KEY,
    KEY_WITHIN,
    PREVIOUS_LENGTH_WITHIN,
    SNAP,
    has_key,
    previous_length_of,
)
from iotop_ai.store.format.size_limits import check_block_count
from iotop_ai.store.read.line_index import Line

_STEP = 1 << 20
"""The number of bytes that are searched at once."""
_FARTHEST = 32 << 20
"""The maximum number of bytes that are searched for the last keyframe; a block is usually far shorter."""
_LEAD_SIZES = (1 << 10, 1 << 16)
"""The numbers of bytes to read, one after the other, at the start of a block: usually it begins with the keyframe,
sometimes with a header and events."""
_MOST_MISSES = 3
"""The search ends after this many consecutive keyframes without a usable length, such as the first of each session."""
_MOST_SEARCHES = 100
"""The maximum number of searches for a keyframe in one file. Each may read a MiB before and after the keyframe."""


class BlockStart(NamedTuple):
    """The start of a block: its header and event lines, if any, and its keyframe.

    back: the length of the block before it in bytes; None if the keyframe does not contain it
    """

    lines: tuple[Line, ...]
    back: int | None


def block_starts(fd: int, end: int) -> tuple[int, list[BlockStart]]:
    """An offset, and the starts of all blocks between the offset and ``end``.

    The part of the file before the offset is not indexed. Raises InputError for more than MOST_BLOCKS blocks.
    """
    starts: list[BlockStart] = []
    offset, misses, searches = end, 0, 0
    while offset > 0 and misses < _MOST_MISSES and searches < _MOST_SEARCHES:
        start = _last_start(fd, offset)
        if start is None:
            break
        misses += 1
        searches += 1
        while start is not None:
            check_block_count(len(starts) + 1)
            starts.append(start)
            offset = start.lines[0].offset
            start = None if start.back is None or start.back > offset else _start_at(fd, offset - start.back, offset)
            if start is not None:
                misses = 0
    starts.reverse()
    return offset, starts


def _start_at(fd: int, offset: int, end: int) -> BlockStart | None:
    """The start of the block at an offset; None if no block begins there."""
    if offset > 0 and os.pread(fd, 1, offset - 1) != b"\n":
        return None
    for size in _LEAD_SIZES:
        data = os.pread(fd, min(size, end - offset), offset)
        lines: list[Line] = []
        at = 0
        while data.startswith((EVENT, HEADER), at) and (stop := data.find(b"\n", at)) >= 0:
            lines.append(Line(offset + at, offset + stop + 1, data[at : min(stop, at + HEAD_BYTES)]))
            at = stop + 1
        if data.startswith(SNAP, at) and len(data) - at >= PREVIOUS_LENGTH_WITHIN:
            head = data[at : at + PREVIOUS_LENGTH_WITHIN]
            if not has_key(head):
                return None
            # The end of the keyframe's line is not known here, and the index does not need it.
            return BlockStart((*lines, Line(offset + at, offset + at, head)), previous_length_of(head))
        if not data.startswith((EVENT, HEADER, SNAP), at):
            return None
    return None


def _last_start(fd: int, end: int) -> BlockStart | None:
    """The start of the last block before ``end``, which is the end of a line; None if none is near."""
    high = end
    while high > 0 and end - high < _FARTHEST:
        low = max(0, high - _STEP)
        # A keyframe's mark ends at most KEY_WITHIN bytes after the start of its line, which may be before ``low``.
        start = max(0, low - KEY_WITHIN)
        data = os.pread(fd, min(high + len(KEY), end) - start, start)
        at = data.rfind(KEY)
        while at >= 0:
            line = data.rfind(b"\n", max(0, at - KEY_WITHIN), at) + 1
            if (line > 0 or start == 0) and data.startswith(SNAP, line) and at + len(KEY) <= line + KEY_WITHIN:
                lead = _lead_offset(fd, start + line)
                return None if lead is None else _start_at(fd, lead, end)
            at = data.rfind(KEY, 0, at)
        high = low
    return None


def _lead_offset(fd: int, offset: int) -> int | None:
    """The start of the header and event lines directly before a line; None if it is more than _STEP bytes away."""
    start = max(0, offset - _STEP)
    data = os.pread(fd, offset - start, start)
    at = len(data)
    while at > 0:
        before = data.rfind(b"\n", 0, at - 1) + 1
        if before == 0 and start > 0:
            return None
        if not data.startswith((EVENT, HEADER), before):
            break
        at = before
    return start + at
