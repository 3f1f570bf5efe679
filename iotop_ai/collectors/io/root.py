"""Reads files of /proc and /sys: those of this machine, of a container's host, or of a captured tree."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from itertools import islice
from types import TracebackType

from iotop_ai.model.clean import LONGEST, clean, clean_bytes
from iotop_ai.model.errors import UsageError

READ_LIMIT = 1 << 22
"""The most bytes that are read from a file; a longer file is cut. No kernel file that we read is this long."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""O_NONBLOCK has no effect on a kernel file. A pipe in a captured tree would block the open without this flag."""
_BOOT = "proc/sys/kernel/random/boot_id"
"""The path of the boot ID. Two trees with the same boot ID belong to the same running kernel."""


TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""The errors that say nothing about the file: too many files are open, or the memory is full."""


def is_transient(error: OSError) -> bool:
    """Whether an error says nothing about the file."""
    return error.errno in TRANSIENT


class KeptFile:
    """Keeps a kernel file open; each ``read`` reads the file again from its start.

    size: the number of bytes that one system call asks for; it grows with the file. Raises OSError: ENODEV when the
    device was removed, ESRCH when the process has exited.
    """

    __slots__ = ("_size", "fd")

    def __init__(self, path: str, size: int = 1 << 16) -> None:
        self.fd = os.open(path, _FLAGS)
        self._size = size

    def read(self) -> bytes:
        """Return the whole file as it is now.

        The kernel may return fewer bytes than we ask for although more follow: it does so when the next record, such as
        a mount in mountstats, does not fit into the rest of its one-page buffer. Only an empty read marks the end.
        """
        return self._rest(os.pread(self.fd, self._size, 0))

    def read_record(self) -> bytes:
        """Return the whole content of a file that the kernel writes as one record.

        Such files are /proc/PID/stat, /proc/meminfo and the attributes in /sys. A read that does not fill the buffer
        has returned the whole record, so a second, empty read is not needed.
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
        """Close the descriptor; a second call does nothing."""
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
    """A directory that holds ``proc``, ``sys`` and ``dev``. Its methods take relative paths such as "proc/diskstats".

    proc, sys: folders to use instead of the directory's own ``proc`` and ``sys`` (--procfs, --sysfs); "" for none.
    has_given_trees: whether ``proc`` or ``sys`` is given. foreign: whether the given folders belong to another machine.
    join: a function that makes a relative path absolute.
    """

    def __init__(self, path: str = "/", *, proc: str = "", sys: str = "") -> None:
        self.path = path if path.endswith("/") else path + "/"
        self.has_given_trees = bool(proc or sys)
        self._tops = {"proc": proc or f"{self.path}proc", "sys": sys or f"{self.path}sys"}
        # A tick opens thousands of files, so the default root joins paths with a C function, not in Python.
        self.join: Callable[[str], str] = self._join if self.has_given_trees else self.path.__add__
        self.foreign = self.has_given_trees and self.text_or(_BOOT) != Root().text_or(_BOOT)

    def _join(self, relative: str) -> str:
        top, slash, rest = relative.partition("/")
        return self._tops.get(top, self.path + top) + slash + rest

    @property
    def live(self) -> bool:
        """Whether the trees are this process's own /proc and /sys."""
        return self.path == "/" and not self.has_given_trees

    @property
    def owns_devices(self) -> bool:
        """Whether the devices in /dev belong to the machine that the trees show."""
        return self.live or (self.has_given_trees and not self.foreign)

    @property
    def machine_process(self) -> str:
        """The name, in /proc, of a process that has the machine's mounts and namespaces.

        The name is "self", or "1" with --procfs or --sysfs if the tree contains proc/1/mountinfo.
        """
        return "1" if self.has_given_trees and self.exists("proc/1/mountinfo") else "self"

    @property
    def own_pid(self) -> int:
        """The PID of this process in ``proc``; -1 when ``proc`` does not list this process."""
        if self.live:
            return os.getpid()
        pid = self.link("proc/self")
        return int(pid) if pid.isdecimal() else -1

    def reachable_path(self, path: str) -> str:
        """Translate an absolute path of the machine into the path by which this process can open it.

        With --procfs or --sysfs, the returned path is below the root directory of PID 1.
        """
        return self.join(f"proc/1/root{path}" if self.has_given_trees else path.lstrip("/"))

    def read(self, relative: str, limit: int = READ_LIMIT) -> bytes:
        """Return the bytes of a file, at most the first ``limit``. Raises OSError."""
        with KeptFile(self.join(relative)) as file:
            return file.read()[:limit]

    def _record(self, relative: str, limit: int) -> bytes:
        with self.keep(relative, limit) as file:
            return file.read_record()[:limit]

    def read_once(self, relative: str, size: int, offset: int = 0) -> bytes:
        """Return at most ``size`` bytes at this offset, from one read. Raises OSError."""
        fd = os.open(self.join(relative), _FLAGS)
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)

    def text(self, relative: str, longest: int = LONGEST) -> str:
        """Return the content of a one-line file, without control characters and surrounding blanks. Raises OSError.

        longest: the number of characters to which the content is cut.
        """
        return clean_bytes(self._record(relative, 4096).strip(b" \t\r\n\0"), longest)

    def text_or(self, relative: str, default: str = "", longest: int = LONGEST) -> str:
        """Return the same as ``text``, or ``default`` for a file that is missing or cannot be read."""
        try:
            return self.text(relative, longest)
        except OSError:
            return default

    def lines(self, relative: str, longest: int = LONGEST) -> list[str]:
        """Return the lines of a file without control characters; tabs become blanks.

        [] when the file cannot be read. longest: the number of characters to which each line is cut.
        """
        try:
            return [clean_bytes(line.replace(b"\t", b" "), longest) for line in self.read(relative).splitlines()]
        except OSError:
            return []

    def number_or_none(self, relative: str) -> int | None:
        """Return the integer in a file; None when the file is missing, cannot be read or does not hold a number."""
        try:
            return int(self._record(relative, 64))
        except (OSError, ValueError):
            return None

    def number_read_once(self, relative: str) -> int | None:
        """Return the same as ``number_or_none``, from one read, for a file whose content the device delivers."""
        try:
            return int(self.read_once(relative, 32))
        except (OSError, ValueError):
            return None

    def names(self, relative: str) -> list[str]:
        """Return the sorted names of the entries of a directory; [] when it is missing or cannot be listed."""
        try:
            return sorted(os.listdir(self.join(relative)))
        except OSError:
            return []

    def entries(self, relative: str) -> list[str]:
        """Return the same as ``names``, but [] only for a missing directory.

        Raises PermissionError when the directory cannot be listed, and OSError for an error that says nothing about it.
        """
        try:
            return sorted(os.listdir(self.join(relative)))
        except OSError as error:
            if is_transient(error) or isinstance(error, PermissionError):
                raise
            return []

    def link(self, relative: str) -> str:
        """Return the target of a symbolic link as it is stored; "" when the path is not a link or cannot be read."""
        try:
            return os.readlink(self.join(relative))
        except OSError:
            return ""

    def attribute(self, relative: str, name: str) -> bytes:
        """Return an extended attribute of the file at the path, following links; b"" when it cannot be read."""
        try:
            return os.getxattr(self.join(relative), name)
        except OSError:
            return b""

    def links(self, relative: str, most: int) -> dict[str, str] | None:
        """Return the targets of the symbolic links among the first ``most`` entries of a directory, by the link's name.

        None when the directory is missing or when we cannot list it. A link that is removed meanwhile is left out.
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
        """Return the canonical absolute path, with all links resolved."""
        return os.path.realpath(self.join(relative))

    def write(self, relative: str, text: str) -> None:
        """Write to an existing kernel file in one call. Only actions/ uses this method. Raises OSError."""
        handle = os.open(self.join(relative), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)

    def exists(self, relative: str) -> bool:
        """Whether the path exists."""
        return os.path.exists(self.join(relative))

    def follow(self, relative: str) -> int:
        """Return a non-blocking descriptor that is positioned at the end of a log. Raises OSError."""
        fd = os.open(self.join(relative), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.lseek(fd, 0, os.SEEK_END)
        except OSError as error:
            if error.errno != errno.ESPIPE:
                os.close(fd)
                raise
        return fd

    def keep(self, relative: str, size: int = 1 << 16) -> KeptFile:
        """Open a file and keep it open. Raises OSError."""
        return KeptFile(self.join(relative), size)


def root_from_options(procfs: str, sysfs: str) -> Root:
    """Return the Root for the values of --procfs and --sysfs; "" stands for our own /proc or /sys.

    Trees of the running kernel are used with our own /dev; trees of another machine are used with the ``dev`` that lies
    next to them. Raises UsageError for a directory that does not hold such a tree.
    """
    proc = _tree(procfs, "proc", "procfs", ("stat", "diskstats"))
    sys = _tree(sysfs, "sys", "sysfs", ("block", "class"))
    if not (proc or sys):
        return Root()
    root = Root("/", proc=proc, sys=sys)
    return Root(os.path.dirname(proc or sys), proc=proc or "/proc", sys=sys or "/sys") if root.foreign else root


def _tree(path: str, name: str, flag: str, expected: tuple[str, ...]) -> str:
    """Return the absolute path of a given tree; "" when none is given, or when it is our own.

    expected: the tree must contain at least one of these names.
    """
    if not path:
        return ""
    if not os.path.isdir(path):
        raise UsageError(f"--{flag} {clean(path)}: no such directory; mount the host's /{name} there")
    if not any(os.path.exists(os.path.join(path, entry)) for entry in expected):
        raise UsageError(
            f"--{flag} {clean(path)}: it contains neither {' nor '.join(expected)}; give a mounted /{name}"
        )
    try:
        is_own = os.path.samefile(path, f"/{name}")
    except OSError:
        is_own = False
    return "" if is_own else absolute_path(path)


def absolute_path(path: str) -> str:
    """Return the absolute path, without a slash at its end. Raises FileNotFoundError if the current folder is gone.

    A ".." is kept, because LINK/.. is the folder above the target of the link, not above the link.
    """
    return os.path.join(os.getcwd(), path).rstrip("/") if ".." in path.split("/") else os.path.abspath(path)
