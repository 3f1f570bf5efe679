"""Where lines go: an append-only file that never keeps a part of a line, or a pipe."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat

from iotop_ai.collectors.io.own_file import create, open_to_append
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, IotopError, UsageError
from iotop_ai.store.format.line_head import HEADER
from iotop_ai.store.format.size_limits import LONGEST_LINE

_TAIL_STEP = 1 << 16
_ENDINGS = (".iotop.jsonl", ".jsonl", ".svg")


class Full(Exception):  # noqa: N818 - a state of the disk
    """The disk took only a part, which was cut off again, so nothing of this write is in the file."""


class FileSink:
    """A file that takes one or several lines in each write.

    Opened with O_APPEND and O_NOFOLLOW, mode 0600, under an exclusive flock. Refused with a one-line error: a symbolic
    link, an existing file without ``append``, a file that another user owns or may write, a file that is not a
    recording, a folder that any user may write to.
    """

    recovers = True

    def __init__(self, path: str, *, append: bool = False, first: str = "") -> None:
        self.path = path
        self._first = first or path
        """The path that the user gave, from which the names of files beside it are made."""
        self._torn = False
        """Whether a part of a line may be at the end of the file."""
        try:
            self._fd = open_to_append(path, flags=os.O_RDWR) if append else create(path, flags=os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise _refusal(path, error, "--append adds a session to it") from None
        try:
            self._prepare()
        except BaseException:
            os.close(self._fd)
            raise

    def _prepare(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{clean(self.path)} is being written by another recorder") from None
        status = os.fstat(self._fd)
        self._size, self._inode = status.st_size, (status.st_dev, status.st_ino)
        if self._size:
            if os.pread(self._fd, len(HEADER), 0) != HEADER:
                raise InputError(f"{clean(self.path)} is not a recording; choose another name")
            self._size = whole_length(self._fd, self._size)
            os.ftruncate(self._fd, self._size)

    @classmethod
    def new(cls, path: str) -> FileSink:
        """A new file at ``unused(path)``, also where other programs create files at the same time."""
        while True:
            free = unused(path)
            try:
                return cls(free, first=path)
            except UsageError:  # it was created in between
                if not os.path.lexists(free):
                    raise

    @property
    def size(self) -> int:
        """Bytes of whole lines so far."""
        return self._size

    @property
    def fresh(self) -> bool:
        """Whether the file is empty."""
        return self._size == 0

    def write(self, data: bytes) -> None:
        """Append whole lines. Raises Full when they did not fit, and OSError; a part that was written is cut off.

        Where the disk refuses that too, the part is cut off before the next write.
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

    def beside(self) -> FileSink | None:
        """A new file in the same folder, to go on with. Raises OSError or InputError."""
        return FileSink.new(self._first)

    def is_named(self) -> bool:
        """Whether the path still names this file."""
        try:
            named = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == self._inode

    def sync(self) -> None:
        """Make the kernel write the file out; may block on a slow disk."""
        os.fdatasync(self._fd)

    def free_bytes(self) -> int | None:
        """Bytes that an ordinary user may still write on the filesystem; None when unknown."""
        try:
            status = os.fstatvfs(self._fd)
        except OSError:
            return None
        return status.f_bavail * status.f_frsize

    def device(self) -> tuple[int, int]:
        """(major, minor) of the filesystem, for a warning when that disk is monitored."""
        number = os.fstat(self._fd).st_dev
        return os.major(number), os.minor(number)

    def close(self) -> None:
        """Unlock and close the file; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
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
        """Write all of it; blocks while the reader is slow. Raises BrokenPipeError without a reader."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self.size += len(data)

    def sync(self) -> None:
        """Do nothing: a pipe cannot be synced."""

    def free_bytes(self) -> int | None:
        """Return None: a pipe has no limit."""
        return None

    def beside(self) -> None:
        """Return None: a pipe has no sibling file."""

    def is_named(self) -> bool:
        """Return True: a pipe has no name that could change."""
        return True

    def close(self) -> None:
        """Do nothing: the caller closes the descriptor."""


class TextSink:
    """A plain text file, or standard output for "-", without a buffer.

    An existing file is refused without ``append``; a symbolic link and another user's file always.
    """

    def __init__(self, path: str, *, append: bool = False) -> None:
        self._own = path != "-"
        if not self._own:
            self._fd, self.fresh = 1, True
            return
        try:
            # Not 0666: with a umask of 002 a later append would refuse the file.
            self._fd = open_to_append(path, 0o644) if append else create(path, 0o644, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise _refusal(path, error, "--append adds to it") from None
        self.fresh = os.fstat(self._fd).st_size == 0

    def write(self, text: str) -> None:
        """Write all of it. Raises OSError; of a regular file a part that was written is cut off."""
        data = text.encode()
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError:
            if done:
                with contextlib.suppress(OSError):
                    self._cut(done)
            raise

    def _cut(self, size: int) -> None:
        """Cut off what we wrote last, unless another program has appended since or it is not a regular file."""
        status, end = os.fstat(self._fd), os.lseek(self._fd, 0, os.SEEK_CUR)
        if stat.S_ISREG(status.st_mode) and status.st_size == end:
            os.ftruncate(self._fd, end - size)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._own:
            self._own = False
            os.close(self._fd)


def whole_length(fd: int, size: int) -> int:
    """The length of a file up to its last line end, after which there may be a torn line.

    Raises InputError for a torn line of more than LONGEST_LINE.
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


def _refusal(path: str, error: OSError, remedy: str) -> IotopError:
    if error.errno == errno.ELOOP or os.path.islink(path):
        return InputError(f"{clean(path)} is a symbolic link; name the file itself")
    if isinstance(error, FileExistsError):
        return UsageError(f"{clean(path)} exists; {remedy}")
    return InputError(f"{clean(path)}: {error.strerror}")


def unused(path: str) -> str:
    """The path, with -2, -3 … before its ending where it exists, as when two recordings begin within a second."""
    ending = next((e for e in _ENDINGS if path.endswith(e)), "") or os.path.splitext(path)[1]
    stem, number = path.removesuffix(ending), 1
    while os.path.lexists(path):
        number += 1
        path = f"{stem}-{number}{ending}"
    return path
