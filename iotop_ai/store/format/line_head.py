"""The head of a line: its kind and, for a snap line, its times and flags ("pre", "gap", "key").

    {"k":"snap","pre":true,"m":86400000000000,"t":1795250000000000000,"gap":true,"key":true,"back":20481,…

Writers build heads with this module, as text. Readers pass the bytes of a file, and find blocks, times and flags
without decoding the line.
"""

from __future__ import annotations

import re
from typing import Any

from iotop_ai.lazy.namedtuple import NamedTuple


class Kind:
    """The kinds of lines: the values of the field ``k``."""

    HEADER = "hdr"
    SNAPSHOT = "snap"
    EVENT = "ev"
    VERDICT = "verdict"
    TOTALS = "tally"
    END = "end"


HEADER = f'{{"k":"{Kind.HEADER}"'.encode()
EVENT = f'{{"k":"{Kind.EVENT}"'.encode()
SNAP = f'{{"k":"{Kind.SNAPSHOT}",'.encode()
TOTALS = f'{{"k":"{Kind.TOTALS}",'.encode()
KEY = b',"key":true,'
GAP = b',"gap":true,'
KEY_WITHIN = 120
"""The "key" field of a keyframe ends within this many bytes of the line's start."""
PREVIOUS_LENGTH_WITHIN = KEY_WITHIN + 30
"""The ``back`` field of a keyframe ends within this many bytes of the line's start."""
HEAD_BYTES = 2000
"""The head of a line, including the ``continues`` field of a header, ends within this many bytes."""

_SNAP_TEXT, _KEY_TEXT, _PRE_TEXT = SNAP.decode(), KEY.decode(), '"pre":true,'
ADDED_BYTES = len(_PRE_TEXT) + len('"back":,') + 15
"""The most bytes that ``with_pre`` and ``with_previous_length`` add to a line; ``back`` has at most 15 digits."""
_HEAD = re.compile(rb'\{"k":"([a-z]+)",("pre":true,)?(?:"m":(\d{1,19}),"t":(-?\d{1,19})[,}])?')
_HEADER_TIMES = re.compile(rb',"t":(-?\d{1,19}),"m":\d')
_PREVIOUS_LENGTH = re.compile(rb',"key":true,"back":([1-9]\d{0,14}),')


class LineHead(NamedTuple):
    """The first fields of a line, read without decoding the rest.

    kind: the value of ``k``
    at_ns, wall_ns: the values of ``m`` and ``t``; None if they do not directly follow the kind
    pre: whether the line is pre-roll, which is from the minute before the recording and is not shown
    """

    kind: str
    at_ns: int | None
    wall_ns: int | None
    pre: bool

    @property
    def is_snap(self) -> bool:
        """Whether the line contains a Snapshot."""
        return self.kind == Kind.SNAPSHOT


def snap_fields(at_ns: int, wall_ns: int, *, gap: bool, key: bool) -> dict[str, Any]:
    """The first fields of a snap line. Readers rely on their order."""
    fields: dict[str, Any] = {"k": Kind.SNAPSHOT, "m": at_ns, "t": wall_ns}
    if gap:
        fields["gap"] = True
    if key:
        fields["key"] = True
    return fields


def parse_head(line: bytes) -> LineHead | None:
    """The head of a line; None if the line does not begin with a kind."""
    match = _HEAD.match(line)
    if match is None:
        return None
    kind, pre, at_ns, wall_ns = match.groups()
    if at_ns is None:
        return LineHead(kind.decode(), None, None, pre is not None)
    return LineHead(kind.decode(), int(at_ns), int(wall_ns), pre is not None)


def is_snap(line: str) -> bool:
    """Whether the line contains a Snapshot."""
    return line.startswith(_SNAP_TEXT)


def is_keyframe(line: str) -> bool:
    """Whether the line is a keyframe."""
    return line.startswith(_SNAP_TEXT) and line.find(_KEY_TEXT, 0, KEY_WITHIN) >= 0


def has_key(line: bytes | bytearray, begin: int = 0, stop: int | None = None) -> bool:
    """Whether the snap line at ``begin`` is a keyframe; ``stop`` is the end of the available part of the line."""
    end = begin + KEY_WITHIN
    return line.find(KEY, begin, end if stop is None else min(stop, end)) >= 0


def has_gap(line: bytes) -> bool:
    """Whether Snapshots before this snap line were dropped."""
    return line.find(GAP, 0, KEY_WITHIN) >= 0


def may_begin_block(data: bytes | bytearray, begin: int, stop: int) -> bool:
    """Whether the line at ``begin`` is a header, an event or a keyframe; ``stop`` is the end of its available part."""
    if data.startswith(SNAP, begin):
        return has_key(data, begin, stop)
    return data.startswith((EVENT, HEADER), begin)


def starts_session(line: bytes) -> bool:
    """Whether the header line begins a session."""
    return b'"continues":false' in line


def header_wall_ns(head: bytes) -> int | None:
    """The wall time in the head of a header line; None if there is none."""
    match = _HEADER_TIMES.search(head)
    return None if match is None else int(match[1])


def with_pre(line: str) -> str:
    """The snap line, marked as pre-roll."""
    if line.startswith(_PRE_TEXT, len(_SNAP_TEXT)):
        return line
    return line.replace(_SNAP_TEXT, _SNAP_TEXT + _PRE_TEXT, 1)


def with_previous_length(line: str, previous_bytes: int) -> str:
    """The line of a keyframe with ``back``, the length in bytes of the block before it."""
    return line.replace(_KEY_TEXT, f'{_KEY_TEXT}"back":{previous_bytes},', 1)


def previous_length_of(head: bytes) -> int | None:
    """The length in bytes of the block before a keyframe (``back``); None if the keyframe does not contain it."""
    match = _PREVIOUS_LENGTH.search(head)
    return None if match is None else int(match[1])
