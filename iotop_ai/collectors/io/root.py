"""The only reader of /proc and /sys: this machine's, the host's mounted into a container, or a captured tree."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from itertools import islice
from types import TracebackType

from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.errors import UsageError

READ_LIMIT = 1 << 22
"""No kernel file that we read is larger; a longer one is cut."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""O_NONBLOCK has no effect on a kernel file, and opening a pipe in a captured tree would block without it."""
_BOOT = "proc/sys/kernel/random/boot_id"
"""Equal boot IDs: two trees belong to the same running kernel."""


class KeptFile:
    """An open descriptor of a kernel file, read again from its start at each ``read``.

    Raises OSError (ENODEV for a removed device, ESRCH for an exited process).
    """

    __slots__ = ("_size", "fd")

    def __init__(self, path: str, size: int = 1 << 16) -> None:
        self.fd = os.open(path, _FLAGS)
        self._size = size

    def read(self) -> bytes:
        """The whole file as it is now.

        The kernel returns less than fits, even from a short file, where the next record (a mount of mountstats) is
        larger than the rest of its own buffer of one page: only an empty read is the end.
        """
        return self._rest(os.pread(self.fd, self._size, 0))

    def read_record(self) -> bytes:
        """The whole of a file that the kernel writes as one record (/proc/PID/stat, meminfo, an attribute in /sys).

        A read that does not fill the buffer is all of it, which saves the empty read.
        """
        raw = os.pread(self.fd, self._size, 0)
        return raw if len(raw) < self._size else self._rest(raw)

    def _rest(self, raw: bytes) -> bytes:
        while raw and len(raw) < READ_LIMIT:
            more = os.pread(self.fd, self._size, len(raw))
            if not more:
                break
            raw += more
        self._size = max(self._size, min(2 * len(raw), READ_LIMIT))
        return raw

    def close(self) -> None:
        """Close the descriptor; safe to call twice."""
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
    """A directory that holds ``proc``, ``sys`` and ``dev``. Paths are relative: "proc/diskstats".

    proc, sys: other folders for these two (--procfs, --sysfs); "" for those in the directory. has_given_trees: at least
    one of them is given. foreign: they belong to another machine. join: makes a relative path absolute.
    """

    def __init__(self, path: str = "/", *, proc: str = "", sys: str = "") -> None:
        self.path = path if path.endswith("/") else path + "/"
        self.has_given_trees = bool(proc or sys)
        self._tops = {"proc": proc or f"{self.path}proc", "sys": sys or f"{self.path}sys"}
        # A tick opens thousands of files: the usual root joins paths without a Python step.
        self.join: Callable[[str], str] = self._join if self.has_given_trees else self.path.__add__
        self.foreign = self.has_given_trees and self.text_or(_BOOT) != Root().text_or(_BOOT)

    def _join(self, relative: str) -> str:
        top, slash, rest = relative.partition("/")
        return self._tops.get(top, self.path + top) + slash + rest

    @property
    def live(self) -> bool:
        """Whether these are this process's own /proc and /sys."""
        return self.path == "/" and not self.has_given_trees

    @property
    def view(self) -> str:
        """The process whose mounts and namespaces are the machine's: "self", or "1" with --procfs or --sysfs."""
        return "1" if self.has_given_trees and self.exists("proc/1/mountinfo") else "self"

    @property
    def own_pid(self) -> int:
        """This process's PID in ``proc``; -1 where it has none."""
        if self.live:
            return os.getpid()
        pid = self.link("proc/self")
        return int(pid) if pid.isdecimal() else -1

    def place(self, path: str) -> str:
        """Where an absolute path of the machine can be opened; with --procfs or --sysfs, under PID 1's root."""
        return self.join(f"proc/1/root{path}" if self.has_given_trees else path.lstrip("/"))

    def read(self, relative: str, limit: int = READ_LIMIT) -> bytes:
        """The bytes of a file. Raises OSError."""
        with KeptFile(self.join(relative)) as file:
            return file.read()[:limit]

    def _record(self, relative: str, limit: int) -> bytes:
        with self.keep(relative, limit) as file:
            return file.read_record()[:limit]

    def once(self, relative: str, size: int, offset: int = 0) -> bytes:
        """The bytes of one read at this offset, at most ``size``. Raises OSError."""
        fd = os.open(self.join(relative), _FLAGS)
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)

    def text(self, relative: str) -> str:
        """One clean, stripped line. Raises OSError."""
        return clean_bytes(self._record(relative, 4096).strip(b" \t\r\n\0"))

    def text_or(self, relative: str, default: str = "") -> str:
        """Like ``text``; ``default`` for an unreadable or missing file."""
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
        """The integer in a file; None when it is missing, unreadable or not a number."""
        try:
            return int(self._record(relative, 64))
        except (OSError, ValueError):
            return None

    def names(self, relative: str) -> list[str]:
        """The entries of a directory, sorted; [] when it is missing."""
        try:
            return sorted(os.listdir(self.join(relative)))
        except OSError:
            return []

    def link(self, relative: str) -> str:
        """The target of a symbolic link as stored; "" for anything else."""
        try:
            return os.readlink(self.join(relative))
        except OSError:
            return ""

    def attribute(self, relative: str, name: str) -> bytes:
        """An extended attribute of the file that a path leads to; b"" when it cannot be read."""
        try:
            return os.getxattr(self.join(relative), name)
        except OSError:
            return b""

    def links(self, relative: str, most: int) -> dict[str, str] | None:
        """Targets of the symbolic links in a directory by name, of its first ``most`` entries; None if not permitted.

        None also for a missing directory. A link that is removed meanwhile is left out.
        """
        out = {}
        try:
            folder = os.open(self.join(relative), _FLAGS | os.O_DIRECTORY)
        except OSError:
            return None
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, most):
                    with contextlib.suppress(OSError):
                        out[entry.name] = os.readlink(entry.name, dir_fd=folder)
        except OSError:
            return None
        finally:
            os.close(folder)
        return out

    def real(self, relative: str) -> str:
        """The canonical absolute path, links resolved."""
        return os.path.realpath(self.join(relative))

    def write(self, relative: str, text: str) -> None:
        """Write an existing kernel file in one call; used by actions/ only. Raises OSError."""
        handle = os.open(self.join(relative), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)

    def exists(self, relative: str) -> bool:
        """Whether the path exists."""
        return os.path.exists(self.join(relative))

    def follow(self, relative: str) -> int:
        """A non-blocking descriptor at the end of a log. Raises OSError."""
        fd = os.open(self.join(relative), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.lseek(fd, 0, os.SEEK_END)
        except OSError as error:
            if error.errno != errno.ESPIPE:
                os.close(fd)
                raise
        return fd

    def keep(self, relative: str, size: int = 1 << 16) -> KeptFile:
        """A kept descriptor of a file. Raises OSError."""
        return KeptFile(self.join(relative), size)


def root_from_options(procfs: str, sysfs: str) -> Root:
    """The Root for the user's --procfs and --sysfs, "" for our own. Raises UsageError for another kind of directory.

    A tree of this kernel uses our own /dev, another machine's the ``dev`` next to it.
    """
    proc = _tree(procfs, "proc", "procfs", ("stat", "diskstats"))
    sys = _tree(sysfs, "sys", "sysfs", ("block", "class"))
    if not (proc or sys):
        return Root()
    root = Root("/", proc=proc, sys=sys)
    return Root(os.path.dirname(proc or sys), proc=proc or "/proc", sys=sys or "/sys") if root.foreign else root


def _tree(path: str, own: str, flag: str, marks: tuple[str, ...]) -> str:
    """The absolute path of a tree; "" for our own."""
    if not path:
        return ""
    if not os.path.isdir(path):
        raise UsageError(f"--{flag} {clean(path)}: no such directory; mount the host's /{own} there")
    if not any(os.path.exists(os.path.join(path, mark)) for mark in marks):
        raise UsageError(f"--{flag} {clean(path)}: neither {' nor '.join(marks)} is in it; name a mounted /{own}")
    try:
        same = os.path.samefile(path, f"/{own}")
    except OSError:
        same = False
    return "" if same else os.path.abspath(path)
