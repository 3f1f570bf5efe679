"""Finds the parts of a rotated recording, and reads the newest file while it grows.

A file can be read only from a keyframe on, which is a Snapshot with all that a reader needs to start.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from iotop_ai.collectors.io.open_files import raise_open_files_limit
from iotop_ai.model.errors import InputError
from iotop_ai.store.format.codec import Decoder, EndLine, Header, Item
from iotop_ai.store.format.part_names import part_pattern
from iotop_ai.store.format.size_limits import LONGEST_LINE, ReaderBudget
from iotop_ai.store.read.blocks import GZIP_MAGIC, NoKeyframeError
from iotop_ai.store.read.file import FileRecording

POLL_S = 0.25
"""The interval, in seconds, at which a growing file is checked."""
GRACE_S = 2.0
"""How long a reader waits for the next file of a rotation, or for the first keyframe in it, in seconds."""
_CHUNK = 1 << 20


def parts_of(path: str) -> list[str]:
    """Return the rotated parts that lie next to a recording and belong to its owner, oldest first.

    [] if the folder was removed. Raises OSError if the folder cannot be listed.

    A full file is renamed from NAME.iotop.jsonl to NAME.20261121T143205.iotop.jsonl, and packed later.
    While NAME.iotop.jsonl is missing, as during a rotation, the parts may have any owner.
    """
    folder, name = os.path.split(path)
    pattern = part_pattern(name)
    parts: dict[tuple[str, int], str] = {}
    owner = _owner(path)
    try:
        names = os.listdir(folder or ".")
    except FileNotFoundError:
        return []
    for other in sorted(names):
        match = pattern.fullmatch(other)
        if match is not None and owner in (None, _owner(os.path.join(folder, other))):
            # While a part is being packed, both files exist. The plain file sorts first, and it is complete.
            parts.setdefault((match[1], int(match[2] or 1)), os.path.join(folder, other))
    return [parts[when] for when in sorted(parts)]


def _owner(path: str) -> int | None:
    """Return the UID of a file's owner; None if the file is missing: retention removed it, or a rotation moves it."""
    try:
        return os.lstat(path).st_uid
    except FileNotFoundError:
        return None


def open_chain(path: str, *, allow_root: bool = False) -> list[FileRecording]:
    """Open the files of a recording: the older parts that it continues, and then the recording itself.

    A recording that begins a session has no older parts. Raises InputError.

    allow_root: as in ``open_blocks``, for all files
    """
    chain = [_open_newest(path, allow_root)]
    try:
        if chain[0].header.continues:
            _open_older(chain, path, allow_root)
    except BaseException as error:
        for part in chain:
            part.close()
        if isinstance(error, OSError):  # the folder cannot be listed
            raise _as_input_error(error, path) from None
        raise
    return chain


def _as_input_error(error: OSError, path: str) -> InputError:
    return InputError(f"{error.filename or path}: {error.strerror}")


def _open_older(chain: list[FileRecording], path: str, allow_root: bool) -> None:
    """Open the parts that the first file of the chain continues, and put them before it. Raises InputError, OSError."""
    raise_open_files_limit()  # a recording of weeks may have more parts than the usual soft limit of 1024
    for older in reversed(parts_of(path)):
        part = _open_part(older, allow_root)
        if part is None:
            return
        if not _is_later(chain[0].header, part):
            part.close()
            continue
        chain.insert(0, part)
        if not part.header.continues:
            return


def _open_newest(path: str, allow_root: bool) -> FileRecording:
    """Open the newest file.

    If it has older parts but no keyframe, wait briefly, because a rotation may be under way. If it stays so, the disk
    was full, or the machine lost power, right after a rotation; the newest part is then the newest file.
    """
    for _ in range(round(GRACE_S / POLL_S)):
        try:
            return FileRecording(path, allow_root=allow_root)
        except NoKeyframeError:
            if not _has_parts(path):
                raise
            time.sleep(POLL_S)
    try:
        return FileRecording(path, allow_root=allow_root)
    except NoKeyframeError:
        newest = _newest_part(path, allow_root) if os.path.exists(path) else None
        if newest is None:
            raise
        return newest


def _newest_part(path: str, allow_root: bool) -> FileRecording | None:
    for name in reversed(parts_of(path)):
        if (part := _open_part(name, allow_root)) is not None:
            return part
    return None


def _has_parts(path: str) -> bool:
    try:
        return bool(parts_of(path))
    except OSError:
        return False


def next_part(path: str, previous: FileRecording, wait: Callable[[float], bool] | None = None) -> FileRecording | None:
    """Open the part after ``previous``: the oldest one that begins later, or else the newest file; None without either.

    Raises InputError, also if the folder cannot be listed.

    wait: sleeps for a number of seconds while the newest file has no keyframe yet, and returns True to stop; None if a
        newest file without a keyframe counts as missing
    """
    try:
        return _find_next(path, previous, wait)
    except OSError as error:  # the folder cannot be listed
        raise _as_input_error(error, path) from None


def _find_next(path: str, previous: FileRecording, wait: Callable[[float], bool] | None) -> FileRecording | None:
    """Return the same as ``next_part``. Raises InputError, and OSError if the folder cannot be listed."""
    while True:
        names = parts_of(path)
        try:
            for name in (*names, path):
                part = _open_part(name, previous.allow_root)
                if part is None:
                    continue
                if _is_later(part.header, previous) and (name != path or names == parts_of(path)):
                    return part
                part.close()
        except NoKeyframeError:
            if name != path:
                raise
            if wait is None or wait(POLL_S):
                return None
        else:
            if names == parts_of(path):
                return None


def _is_later(header: Header, part: FileRecording) -> bool:
    """Whether a file with this header follows a part.

    Within a boot only at_ns is compared, because the wall clock may have been set back.
    """
    newest = part.header_of(len(part.blocks) - 1)
    if header.boot_id == newest.boot_id:
        return header.at_ns > newest.at_ns
    return header.wall_ns > newest.wall_ns


def _open_part(path: str, allow_root: bool) -> FileRecording | None:
    """Open a part, which may have been packed since it was listed; None if retention has removed it."""
    for name in (path, path + ".gz"):
        try:
            return FileRecording(name, allow_root=allow_root)
        except NoKeyframeError:  # it is raised for a missing file too
            if os.path.exists(name):
                raise
    return None


def may_grow(part: FileRecording) -> bool:
    """Whether the file may still grow; a packed file does not."""
    return os.pread(part.fileno(), len(GZIP_MAGIC), 0) != GZIP_MAGIC


class Tail:
    """Reads the lines of an open file from an offset on, and the lines that are appended later.

    Reading ends when nothing has followed the end line for GRACE_S, or when the file is replaced or removed.

    path: the name of the file, by which a replacement is detected
    wait: sleeps for a number of seconds, and returns True to stop
    """

    def __init__(self, fd: int, path: str, offset: int, wait: Callable[[float], bool]) -> None:
        self._fd = fd
        self._path = path
        self._offset = offset
        self._wait = wait
        self._at_end_line = False
        """Whether the newest item is an end line."""

    def items(self, budget: ReaderBudget | None = None, *, own_rules: bool = True) -> Iterator[Item]:
        """Yield the decoded items of all complete lines. budget, own_rules: as in Decoder. Raises InputError."""
        decoder, idle_s = Decoder(budget, own_rules=own_rules), 0.0
        while True:
            has_new_lines = False
            # This is checked before reading, so that all lines written before the replacement are read.
            replaced = self._replaced()
            for line in self._lines():
                has_new_lines = True
                item = decoder.read(line) if line else None
                if item is not None:
                    self._at_end_line = isinstance(item, EndLine)
                    yield item
            if replaced and not has_new_lines:
                return
            idle_s = 0.0 if has_new_lines else idle_s + POLL_S
            if (self._at_end_line and idle_s > GRACE_S) or self._wait(POLL_S):
                return

    def _lines(self) -> Iterator[bytes]:
        """Yield the complete lines up to the current end of the file.

        An incomplete line is read again later, because the writer may remove it.
        """
        size = _CHUNK
        while True:
            chunk = os.pread(self._fd, size, self._offset)
            whole, end, _ = chunk.rpartition(b"\n")
            if end:
                start = self._offset
                for line in whole.split(b"\n"):
                    start += len(line) + 1
                    self._offset = start
                    yield line
                size = _CHUNK
            elif len(chunk) < size:
                return
            elif size > LONGEST_LINE:
                raise InputError(f"{self._path}: a line longer than 16 MiB")
            else:
                size *= 4

    def _replaced(self) -> bool:
        opened = os.fstat(self._fd)
        if opened.st_nlink == 0:
            return True
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino)
