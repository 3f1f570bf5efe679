"""The files and pipes that lines are written to; a file never keeps an incomplete line."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Protocol

from iotop_ai.collectors.io.own_file import create, open_to_append, try_lock, unlock_and_close
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, IotopError, UsageError
from iotop_ai.store.format.line_head import HEAD_BYTES, HEADER, header_wall_ns
from iotop_ai.store.format.size_limits import LONGEST_LINE

_TAIL_STEP = 1 << 16
_ENDINGS = (".iotop.jsonl", ".jsonl", ".svg")


class Full(Exception):  # noqa: N818 - a state of the disk
    """The disk did not accept a whole write. The part that was written is cut off again."""


class Sink(Protocol):
    """A file or pipe that a recorder writes to."""

    path: str
    recovers: bool
    """Whether a write may be tried again, which makes sense for a file but not for a pipe."""

    @property
    def size(self) -> int:
        """The number of bytes written so far."""
        ...

    def write(self, data: bytes) -> None:
        """Append complete lines. Raises Full and OSError."""
        ...

    def sync(self) -> None:
        """Make the kernel write the data to the disk."""
        ...

    def free_bytes(self) -> int | None:
        """The number of bytes that may still be written; None if there is no limit or it is unknown."""
        ...

    def replacement(self) -> Sink | None:
        """A new file in the same folder; None for a pipe. Raises OSError or IotopError."""
        ...

    def is_named(self) -> bool:
        """Whether the path still names the file."""
        ...

    def is_deleted(self) -> bool:
        """Whether the file has no name any more."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class FileSink:
    """A recording to which one or several lines are appended in each write.

    The file is opened with O_APPEND and O_NOFOLLOW, mode 0600, under an exclusive flock if the filesystem has locks;
    Lustre may have none. It is refused with a one-line error if it is a symbolic link, exists although ``append`` is
    false, is owned or can be written by another user, has a second hard link, is not a recording, is being written by
    another recorder, or is in a folder where any user can replace any file.
    """

    recovers = True

    def __init__(self, path: str, *, append: bool = False, requested_path: str = "") -> None:
        self.path = path
        self._requested_path = _absolute(requested_path or path)
        """The path that the user gave, from which the names of further files in the same folder are made.

        It is absolute: after a new mount of the filesystem, a relative path would lead into the old one.
        """
        self._torn = False
        """Whether there may be an incomplete line at the end of the file."""
        self.begun_wall_ns: int | None = None
        """The wall time of the file's first header when the file was opened; None for a new file."""
        try:
            self._fd = open_to_append(path, flags=os.O_RDWR) if append else create(path, flags=os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise _refusal(path, error, "--append adds a session to it") from None
        try:
            self._prepare()
        except BaseException:
            unlock_and_close(self._fd)
            raise

    def _prepare(self) -> None:
        if not try_lock(self._fd):
            raise InputError(f"{clean(self.path)} is being written by another recorder")
        status = os.fstat(self._fd)
        self._size, self._inode = status.st_size, (status.st_dev, status.st_ino)
        if self._size:
            head = os.pread(self._fd, HEAD_BYTES, 0)
            if not head.startswith(HEADER):
                raise InputError(f"{clean(self.path)} is not a recording; choose another name")
            self._size = length_of_complete_lines(self._fd, self._size)
            self.begun_wall_ns = header_wall_ns(head) if self._size else None
            os.ftruncate(self._fd, self._size)

    @classmethod
    def new(cls, path: str) -> FileSink:
        """A new file at ``unused_path(path)``; safe even if other programs create files at the same time."""
        while True:
            free = unused_path(path)
            try:
                return cls(free, requested_path=path)
            except UsageError:  # the file was created after ``unused_path`` returned
                if not os.path.lexists(free):
                    raise

    @property
    def size(self) -> int:
        """The number of bytes in complete lines so far."""
        return self._size

    @property
    def fresh(self) -> bool:
        """Whether the file is empty."""
        return self._size == 0

    def write(self, data: bytes) -> None:
        """Append complete lines. Raises Full if they did not fit, and OSError for other errors.

        A part that was written is cut off again. If the disk refuses that too, it is cut off before the next write.
        """
        self._cut()
        self._torn = True
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            self._cut_quietly()
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise Full(error.strerror) from None
            raise
        if written < len(data):
            self._cut_quietly()
            raise Full("the disk is full")
        self._torn = False
        self._size += written

    def _cut(self) -> None:
        if self._torn:
            os.ftruncate(self._fd, self._size)
            self._torn = False

    def _cut_quietly(self) -> None:
        with contextlib.suppress(OSError):
            self._cut()

    def replacement(self) -> FileSink | None:
        """A new file in the same folder, with which the recording can continue. Raises OSError or IotopError."""
        return FileSink.new(self._requested_path)

    def is_named(self) -> bool:
        """Whether the path still names this file."""
        try:
            named = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == self._inode

    def is_deleted(self) -> bool:
        """Whether the file has no name any more, so that its content is lost when it is closed.

        An NFS client renames an open file to .nfs… instead of deleting it, and deletes it when it is closed. A file
        that another client or the server deleted is stale.
        """
        try:
            if os.fstat(self._fd).st_nlink == 0:
                return True
            return os.path.basename(os.readlink(f"/proc/self/fd/{self._fd}")).startswith(".nfs")
        except OSError as error:
            return error.errno == errno.ESTALE

    def sync(self) -> None:
        """Make the kernel write the file to the disk; may block if the disk is slow."""
        os.fdatasync(self._fd)

    def free_bytes(self) -> int | None:
        """The bytes that an ordinary user may still write to the filesystem; None if unknown."""
        try:
            status = os.fstatvfs(self._fd)
        except OSError:
            return None
        return status.f_bavail * status.f_frsize

    def device(self) -> tuple[int, int]:
        """The (major, minor) of the filesystem, for a warning if the monitored disk is the one written to."""
        number = os.fstat(self._fd).st_dev
        return os.major(number), os.minor(number)

    def close(self) -> None:
        """Unlock and close the file; may be called twice."""
        if self._fd >= 0:
            unlock_and_close(self._fd)
            self._fd = -1


class PipeSink:
    """An open pipe to another program."""

    fresh = True
    recovers = False

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.path = "-"
        self.size = 0

    def write(self, data: bytes) -> None:
        """Write all data; blocks while the reader is slow. Raises BrokenPipeError if there is no reader."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self.size += len(data)

    def sync(self) -> None:
        """Do nothing, because a pipe cannot be synced."""

    def free_bytes(self) -> int | None:
        """Return None, because a pipe does not have a limit."""
        return None

    def replacement(self) -> None:
        """Return None, because a new file cannot replace a pipe."""

    def is_named(self) -> bool:
        """Return True, because a pipe does not have a name that could change."""
        return True

    def is_deleted(self) -> bool:
        """Return False, because a pipe does not have a name."""
        return False

    def close(self) -> None:
        """Do nothing, because the caller closes the descriptor."""


class TextSink:
    """A plain text file, or standard output for "-", which is written without a buffer.

    An existing file is refused unless ``append`` is true. A symbolic link and another user's file are always refused.
    If the last line of an existing file is incomplete, it is ended first.
    """

    def __init__(self, path: str, *, append: bool = False) -> None:
        self._owns_fd = path != "-"
        if not self._owns_fd:
            self._fd, self.fresh = 1, True
            return
        try:
            # Not 0666, because with a umask of 002 a later append would refuse the file.
            self._fd = (
                open_to_append(path, 0o644, os.O_RDWR) if append else create(path, 0o644, os.O_RDWR | os.O_APPEND)
            )
        except OSError as error:
            raise _refusal(path, error, "--append adds to it") from None
        try:
            size = os.fstat(self._fd).st_size
            self.fresh = size == 0
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                self.write("\n")
        except OSError as error:
            os.close(self._fd)
            raise _refusal(path, error, "") from None

    def write(self, text: str) -> None:
        """Write all text. Raises OSError; a part that was already written to a regular file is cut off again."""
        data = text.encode()
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            if written:
                with contextlib.suppress(OSError):
                    self._cut(written)
            raise

    def _cut(self, size: int) -> None:
        """Cut off the last write, unless another program has appended since or it is not a regular file."""
        status, end = os.fstat(self._fd), os.lseek(self._fd, 0, os.SEEK_CUR)
        if stat.S_ISREG(status.st_mode) and status.st_size == end:
            os.ftruncate(self._fd, end - size)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._owns_fd:
            self._owns_fd = False
            os.close(self._fd)


def length_of_complete_lines(fd: int, size: int) -> int:
    """The length of a file up to the end of its last complete line.

    Raises InputError if an incomplete line of more than LONGEST_LINE follows.
    """
    end = size
    while end > 0:
        if size - end > LONGEST_LINE:
            raise InputError("a line longer than 16 MiB")
        start = max(0, end - _TAIL_STEP)
        at = os.pread(fd, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def _absolute(path: str) -> str:
    try:
        return os.path.join(os.getcwd(), path)
    except OSError:  # the current folder was removed
        return path


def _refusal(path: str, error: OSError, remedy: str) -> IotopError:
    if error.errno == errno.ELOOP or os.path.islink(path):
        return InputError(f"{clean(path)} is a symbolic link; give the path of the file itself")
    if isinstance(error, FileExistsError):
        return UsageError(f"{clean(path)} exists; {remedy}")
    return InputError(f"{clean(path)}: {error.strerror}")


def unused_path(path: str) -> str:
    """The path, or if the file exists, the path with -2, -3 … before its ending.

    The file exists, for example, when two recordings begin within the same second.
    """
    ending = next((e for e in _ENDINGS if path.endswith(e)), "") or os.path.splitext(path)[1]
    stem, number = path.removesuffix(ending), 1
    while os.path.lexists(path):
        number += 1
        path = f"{stem}-{number}{ending}"
    return path
