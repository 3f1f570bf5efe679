"""Where lines go: an append-only file that is never left half-written, or a pipe."""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, IotopError, UsageError

_TAIL_STEP = 1 << 16
LONGEST_LINE = 16 << 20


class Full(Exception):  # noqa: N818 - a state of the disk, not an error of ours
    """The disk took only a part, which was cut off again: nothing is half-written, nothing was kept."""


class FileSink:
    """One line of a recording, or several, in one write each.

    Opened with O_APPEND and O_NOFOLLOW, mode 0600, under an exclusive flock. Refused with one clear line: a symbolic
    link, an existing file without ``append``, a file that is no recording, a folder that anybody may write to.
    """

    def __init__(self, path: str, *, append: bool = False) -> None:
        self.path = path
        folder = os.path.dirname(os.path.abspath(path))
        _check_folder(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags if append else flags | os.O_EXCL, 0o600)
        except OSError as error:
            raise _refusal(path, error, "--append adds a session to it") from None
        try:
            self._prepare()
        except BaseException:
            os.close(self._fd)
            raise

    def _prepare(self) -> None:
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{clean(self.path)} is no regular file")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{clean(self.path)} is being written by another recorder") from None
        self._size = status.st_size
        if self._size:
            if not os.pread(self._fd, 12, 0).startswith(b'{"k":"hdr"'):
                raise InputError(f"{clean(self.path)} is no recording; choose another name")
            self._size = whole_length(self._fd, self._size)
            os.ftruncate(self._fd, self._size)

    @property
    def size(self) -> int:
        """Bytes of whole lines so far."""
        return self._size

    @property
    def fresh(self) -> bool:
        """Whether the file is empty."""
        return self._size == 0

    def write(self, data: bytes) -> None:
        """Append whole lines. Raises Full when they did not fit; what was written of them is cut off."""
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise Full(error.strerror) from None
            raise
        if written < len(data):
            os.ftruncate(self._fd, self._size)
            raise Full("the disk is full")
        self._size += written

    def sync(self) -> None:
        """Have the kernel write it out; may block on a slow disk."""
        os.fdatasync(self._fd)

    def free_bytes(self) -> int | None:
        """Bytes that an ordinary user may still write on its filesystem; None when it cannot be told."""
        try:
            found = os.fstatvfs(self._fd)
        except OSError:
            return None
        return found.f_bavail * found.f_frsize

    def device(self) -> tuple[int, int]:
        """(major, minor) of the filesystem, to warn when it is the disk that is watched."""
        number = os.fstat(self._fd).st_dev
        return os.major(number), os.minor(number)

    def close(self) -> None:
        """Write out, unlock, close."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class PipeSink:
    """An open descriptor that is no file: a pipe to another program."""

    fresh = True

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.path = "-"
        self.size = 0

    def write(self, data: bytes) -> None:
        """All of it; blocks while the reader is slow. Raises BrokenPipeError when it has gone."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self.size += len(data)

    def sync(self) -> None:
        """A pipe has nothing to sync."""

    def free_bytes(self) -> int | None:
        """A pipe is never full."""
        return None

    def close(self) -> None:
        """The descriptor is its owner's."""


class TextSink:
    """A plain text file, or standard output for "-": each write is there at once.

    An existing file is refused without ``append``; a symbolic link always.
    """

    def __init__(self, path: str, *, append: bool = False) -> None:
        self._own = path != "-"
        if not self._own:
            self._fd, self.fresh = 1, True
            return
        _check_folder(os.path.dirname(os.path.abspath(path)))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags if append else flags | os.O_EXCL, 0o666)
        except OSError as error:
            raise _refusal(path, error, "--append adds to it") from None
        self.fresh = os.fstat(self._fd).st_size == 0

    def write(self, text: str) -> None:
        """All of it. Raises OSError."""
        view = memoryview(text.encode())
        while view:
            view = view[os.write(self._fd, view) :]

    def close(self) -> None:
        """Give the file back; safe to call twice."""
        if self._own:
            self._own = False
            os.close(self._fd)


def whole_length(fd: int, size: int) -> int:
    """The length of a file up to its last line end: what is behind it is a torn line.

    Raises InputError when that is longer than any line of a recording.
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


def _check_folder(folder: str) -> None:
    try:
        mode = os.stat(folder).st_mode
    except OSError as error:
        raise InputError(f"{clean(folder)}: {error.strerror}") from None
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise InputError(f"{clean(folder)}: anybody may write there; choose a folder of your own")
