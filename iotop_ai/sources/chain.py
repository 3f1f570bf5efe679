"""The files that a recording was rotated into, and the last of them while it grows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from iotop_ai.model.errors import InputError
from iotop_ai.store.blocks import GZIP_MAGIC
from iotop_ai.store.codec import LONGEST_LINE, Closed, Decoder, Item
from iotop_ai.store.file import FileRecording

LOOK_S = 0.25
GRACE_S = 2.0
"""How long after a file's end line a rotation may take to put the next file in its place."""
_PIECE = 1 << 20
_NAME = re.compile(r"(.*?)((?:\.iotop)?\.jsonl)(?:\.gz)?")
_PART = r"\.(\d{8}T\d{6}(?:[.-]\d+)?)"


def parts_of(path: str) -> list[str]:
    """The rotated parts beside a recording, oldest first, without it.

    A full file is renamed from NAME.iotop.jsonl to NAME.20261121T143205.iotop.jsonl and packed a little later.
    """
    folder, name = os.path.split(path)
    found = _NAME.fullmatch(name)
    if found is None:
        return []
    part = re.compile(re.escape(found[1]) + _PART + re.escape(found[2]) + r"(\.gz)?")
    parts: dict[str, str] = {}
    for other in sorted(os.listdir(folder or ".")):
        match = part.fullmatch(other)
        if match is not None:
            # While a part is being packed both are there; the unpacked one sorts first and is whole.
            parts.setdefault(match[1], os.path.join(folder, other))
    return [parts[when] for when in sorted(parts)]


def open_chain(path: str) -> list[FileRecording]:
    """A recording behind the older parts that it goes on from; only itself when it begins a session.

    Raises InputError.
    """
    chain = [FileRecording(path)]
    for older in reversed(parts_of(path) if chain[0].header.continues else []):
        part = _opened(older)
        if part is None or part.header.wall_ns > chain[0].header.wall_ns:
            break
        chain.insert(0, part)
        if not part.header.continues:
            break
    return chain


def next_part(path: str, done: FileRecording) -> FileRecording | None:
    """What was begun when ``done`` was full: the oldest part with a later header, the live file last; None: nothing."""
    for name in (*parts_of(path), path):
        part = _opened(name)
        if part is not None:
            if part.header.wall_ns > done.header.wall_ns:
                return part
            part.close()
    return None


def _opened(path: str) -> FileRecording | None:
    """The part, also when it was packed this moment; None when retention has taken it away."""
    for name in (path, path + ".gz"):
        if os.path.exists(name):
            return FileRecording(name)
    return None


def may_grow(part: FileRecording) -> bool:
    """Whether it is a plain file; a packed one is finished."""
    return os.pread(part.fileno(), len(GZIP_MAGIC), 0) != GZIP_MAGIC


class Tail:
    """The lines of an open file from an offset on, and what is appended, until it is closed, replaced or removed.

    path: its name, by which it is seen to be replaced. wait: sleeps that many seconds, True when it is to stop.
    """

    def __init__(self, fd: int, path: str, offset: int, wait: Callable[[float], bool]) -> None:
        self._fd = fd
        self._path = path
        self._at = offset
        self._wait = wait
        self._closed = False

    def items(self) -> Iterator[Item]:
        """Everything whole, decoded. Raises InputError."""
        decoder, idle_s = Decoder(), 0.0
        while True:
            found = False
            # Before the look for lines: what was written until it was replaced is then seen.
            replaced = self._replaced()
            for line in self._lines():
                found = True
                item = decoder.read(line) if line else None
                if item is not None:
                    self._closed = isinstance(item, Closed)
                    yield item
            if replaced and not found:
                return
            idle_s = 0.0 if found else idle_s + LOOK_S
            if (self._closed and idle_s > GRACE_S) or self._wait(LOOK_S):
                return

    def _lines(self) -> Iterator[bytes]:
        """Whole lines up to the end for now. What is torn is read again: its writer may cut it off."""
        size = _PIECE
        while True:
            piece = os.pread(self._fd, size, self._at)
            whole, end, _ = piece.rpartition(b"\n")
            if end:
                start = self._at
                for line in whole.split(b"\n"):
                    start += len(line) + 1
                    self._at = start
                    yield line
                size = _PIECE
            elif len(piece) < size:
                return
            elif size > LONGEST_LINE:
                raise InputError(f"{self._path}: a line longer than 16 MiB")
            else:
                size *= 4

    def _replaced(self) -> bool:
        own = os.fstat(self._fd)
        if own.st_nlink == 0:
            return True
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) != (own.st_dev, own.st_ino)
