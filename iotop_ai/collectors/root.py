"""The only reader of /proc and /sys: the live machine or a captured tree."""

from __future__ import annotations

import errno
import os
from types import TracebackType

from iotop_ai.model.clean import clean_bytes

READ_LIMIT = 1 << 22
"""No kernel file that we read is larger; a longer one is cut, never slurped."""
_ONE_RECORD = 2048


class KeptFile:
    """An open descriptor of a kernel file, read again from its start at each ``read``.

    Raises OSError as the kernel says (ENODEV for a device that went, ESRCH for a process that ended).
    """

    __slots__ = ("_size", "fd")

    def __init__(self, path: str, size: int = 1 << 16) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = size

    def read(self) -> bytes:
        """The whole file as it is now."""
        raw = os.pread(self.fd, self._size, 0)
        # A seq_file may end a read before its end (a record that did not fit), so only an empty read is the end.
        # A short first read of a small file is its end for every kernel file of one record.
        if len(raw) * 2 < self._size and len(raw) < _ONE_RECORD:
            return raw
        while raw and len(raw) < READ_LIMIT:
            more = os.pread(self.fd, self._size, len(raw))
            if not more:
                break
            raw += more
        self._size = max(self._size, min(2 * len(raw), READ_LIMIT))
        return raw

    def close(self) -> None:
        """Give the descriptor back; safe to call twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> KeptFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Root:
    """A directory that holds ``proc``, ``sys`` and ``dev``. Paths are relative: "proc/diskstats"."""

    def __init__(self, path: str = "/") -> None:
        self.path = path if path.endswith("/") else path + "/"

    @property
    def live(self) -> bool:
        """Whether this is the running machine rather than a captured tree."""
        return self.path == "/"

    def join(self, relative: str) -> str:
        """The absolute path of a relative one."""
        return self.path + relative

    def read(self, relative: str, limit: int = READ_LIMIT) -> bytes:
        """The bytes of a file. Raises OSError."""
        with KeptFile(self.path + relative) as file:
            return file.read()[:limit]

    def once(self, relative: str, size: int) -> bytes:
        """What one read of a file gives, at most ``size`` bytes of it. Raises OSError."""
        fd = os.open(self.path + relative, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, 0)
        finally:
            os.close(fd)

    def text(self, relative: str) -> str:
        """One clean, stripped line. Raises OSError."""
        return clean_bytes(self.read(relative, 4096).strip(b" \t\r\n\0"))

    def text_or(self, relative: str, default: str = "") -> str:
        """Like ``text``, but an unreadable or missing file is ``default``."""
        try:
            return self.text(relative)
        except OSError:
            return default

    def lines(self, relative: str) -> list[str]:
        """The clean lines of a file, tabs as blanks; [] when it cannot be read."""
        try:
            return [clean_bytes(line.replace(b"\t", b" ")) for line in self.read(relative).splitlines()]
        except OSError:
            return []

    def number_or_none(self, relative: str) -> int | None:
        """The integer that a file holds; None when it is missing, unreadable or no number."""
        try:
            return int(self.read(relative, 64))
        except (OSError, ValueError):
            return None

    def names(self, relative: str) -> list[str]:
        """The entries of a directory, sorted; [] when it is missing."""
        try:
            return sorted(os.listdir(self.path + relative))
        except OSError:
            return []

    def link(self, relative: str) -> str:
        """The target of a symbolic link as stored; "" when it is none."""
        try:
            return os.readlink(self.path + relative)
        except OSError:
            return ""

    def real(self, relative: str) -> str:
        """The canonical absolute path behind links."""
        return os.path.realpath(self.path + relative)

    def write(self, relative: str, text: str) -> None:
        """Write a kernel file that is there, in one call; only actions/ does. Raises OSError."""
        handle = os.open(self.path + relative, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)

    def exists(self, relative: str) -> bool:
        """Whether the path exists."""
        return os.path.exists(self.path + relative)

    def follow(self, relative: str) -> int:
        """A descriptor at the end of a log, whose reads never wait. Raises OSError."""
        fd = os.open(self.path + relative, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.lseek(fd, 0, os.SEEK_END)
        except OSError as error:
            if error.errno != errno.ESPIPE:
                os.close(fd)
                raise
        return fd

    def keep(self, relative: str, size: int = 1 << 16) -> KeptFile:
        """A kept descriptor of a file. Raises OSError."""
        return KeptFile(self.path + relative, size)
