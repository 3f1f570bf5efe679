"""The block begins of a plain recording from its end backwards: each keyframe says how long the block before it is.

So a file of a gigabyte is indexed by a look at each of its keyframes instead of a read through all of it. What a
keyframe says is believed only where a block begins in that very place; where it says nothing or what is not so (an
older writer, a file that was edited), the caller reads through what is left.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from iotop_ai.store.scan import EVENT, HEAD, HEADER, KEY, KEY_WITHIN, SNAP, Line

_BACK = re.compile(rb',"key":true,"back":([1-9]\d{0,14}),')
_BACK_WITHIN = KEY_WITHIN + 30
_STEP = 1 << 20
_FARTHEST = 32 << 20
"""How much is looked through for a last keyframe: blocks are far shorter."""
_LEADS = (1 << 10, 1 << 16)
"""Bytes read of what stands before a keyframe: mostly nothing, sometimes a header and events."""
_MISSES = 3
"""How many keyframes in a row may say nothing, as each session's first, or what is not so."""


class Begin(NamedTuple):
    """The lines that begin a block: headers and events, if any, and its keyframe. back: bytes of the block before it,
    None where the keyframe does not say."""

    lines: tuple[Line, ...]
    back: int | None


def begins(fd: int, end: int) -> tuple[int, list[Begin]]:
    """The begins of the blocks of [place, end) and that place; what lies before it has to be read through."""
    found: list[Begin] = []
    place, misses = end, 0
    while place > 0 and misses < _MISSES:
        begin = _last(fd, place)
        if begin is None:
            break
        misses += 1
        while begin is not None:
            found.append(begin)
            place = begin.lines[0].offset
            begin = None if begin.back is None or begin.back > place else _begin(fd, place - begin.back, place)
            if begin is not None:
                misses = 0
    found.reverse()
    return place, found


def _begin(fd: int, offset: int, end: int) -> Begin | None:
    """What begins at an offset; None where that is no block."""
    if offset > 0 and os.pread(fd, 1, offset - 1) != b"\n":
        return None
    for size in _LEADS:
        data = os.pread(fd, min(size, end - offset), offset)
        lines: list[Line] = []
        at = 0
        while data.startswith((EVENT, HEADER), at) and (stop := data.find(b"\n", at)) >= 0:
            lines.append(Line(offset + at, offset + stop + 1, data[at : min(stop, at + HEAD)]))
            at = stop + 1
        if data.startswith(SNAP, at) and len(data) - at >= _BACK_WITHIN:
            return _keyed(lines, data[at : at + _BACK_WITHIN], offset + at)
        if not data.startswith((EVENT, HEADER, SNAP), at):
            return None
    return None


def _keyed(lines: list[Line], head: bytes, offset: int) -> Begin | None:
    if KEY not in head[:KEY_WITHIN]:
        return None
    back = _BACK.search(head)
    return Begin((*lines, Line(offset, offset, head)), None if back is None else int(back[1]))


def _last(fd: int, end: int) -> Begin | None:
    """The begin of the last block before ``end``, where a line ends; None where none is found nearby."""
    high = end
    while high > 0 and end - high < _FARTHEST:
        low = max(0, high - _STEP)
        # With what a keyframe's mark may lie behind its line's begin, and the mark itself beyond the edge.
        start = max(0, low - KEY_WITHIN)
        data = os.pread(fd, min(high + len(KEY), end) - start, start)
        at = data.rfind(KEY)
        while at >= 0:
            line = data.rfind(b"\n", max(0, at - KEY_WITHIN), at) + 1
            if (line > 0 or start == 0) and data.startswith(SNAP, line) and at + len(KEY) <= line + KEY_WITHIN:
                lead = _lead(fd, start + line)
                return None if lead is None else _begin(fd, lead, end)
            at = data.rfind(KEY, 0, at)
        high = low
    return None


def _lead(fd: int, offset: int) -> int | None:
    """Where the header and event lines begin that stand right before a line; None where it cannot be seen from near."""
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
