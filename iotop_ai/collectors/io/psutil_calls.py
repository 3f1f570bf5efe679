"""Calls psutil for details that the user asks for, and for the number of cores where the kernel does not list them."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections import Counter
from collections.abc import Iterator
from typing import Any

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.process.detail import OPEN_FILES, Limit, ProcessIdentity, Socket

_LIMITS = (
    (OPEN_FILES, resource.RLIMIT_NOFILE, ""),
    ("processes", resource.RLIMIT_NPROC, ""),
    ("locked memory", resource.RLIMIT_MEMLOCK, "B"),
    ("address space", resource.RLIMIT_AS, "B"),
    ("file size", resource.RLIMIT_FSIZE, "B"),
    ("core file", resource.RLIMIT_CORE, "B"),
)
"""(the name on the screen, the number of the limit, its unit)."""
_IO_CLASSES = ("none", "realtime", "best", "idle")
_PROTOCOLS = {("AF_INET", "SOCK_STREAM"): "tcp", ("AF_INET6", "SOCK_STREAM"): "tcp6", ("AF_INET", "SOCK_DGRAM"): "udp"}


def physical_cores() -> int | None:
    """Return the number of physical cores; None when it is unknown."""
    import psutil

    cores: int | None = psutil.cpu_count(logical=False)
    return cores


class PsutilProcess:
    """Reads one process through psutil.

    Every call raises OSError when the process has ended; ``environ`` and ``sockets`` also when access is refused.
    root: the tree whose /proc is read. Calls to the kernel that take only the PID (priorities, limits, CPUs) are left
    out when this /proc is not our own, because the PID may belong to another process on this machine.
    """

    def __init__(self, root: Root, pid: int) -> None:
        import psutil

        self._root = root
        self._psutil = psutil
        psutil.PROCFS_PATH = root.join("proc")
        with self._os_errors():
            self._process = psutil.Process(pid)

    def environ(self) -> dict[str, str]:
        """Return the environment with which the program was started; it is not filtered and may contain secrets."""
        with self._os_errors():
            variables: dict[str, str] = self._process.environ()
        return variables

    def identity(self) -> ProcessIdentity:
        """Return the program, working folder, start time, priorities, CPUs and limits of the process.

        A value that we cannot read is "", None or ().
        """
        nice: int | None = None
        io_class, io_level = "", None
        cpus: list[int] = []
        limits: tuple[Limit, ...] = ()
        if self._root.live:
            nice = self._call_or_none(self._process.nice)
            priority = self._call_or_none(self._process.ionice)
            if priority is not None:
                io_class = _IO_CLASSES[int(priority.ioclass)] if int(priority.ioclass) < len(_IO_CLASSES) else ""
                io_level = int(priority.value) if io_class in ("realtime", "best") else None
            cpus = self._call_or_none(self._process.cpu_affinity) or []
            limits = self._limits()
        return ProcessIdentity(
            clean(self._call_or_none(self._process.exe) or "", 4096),
            clean(self._call_or_none(self._process.cwd) or "", 4096),
            self._call_or_none(self._process.create_time),
            nice,
            io_class,
            io_level,
            tuple(cpus),
            limits,
        )

    def sockets(self) -> tuple[Socket, ...]:
        """Return those sockets of the process that are in the tables of our network namespace.

        Equal sockets become one entry.
        """
        with self._os_errors():
            connections = self._process.net_connections(kind="all")
        counts = Counter(_socket(entry) for entry in connections)
        return tuple(entry._replace(alike=alike) for entry, alike in sorted(counts.items()))

    def _call_or_none(self, call: Any) -> Any:
        """Return the result of a call; None when we are not permitted to make it."""
        try:
            with self._os_errors():
                return call()
        except PermissionError:
            return None

    def _limits(self) -> tuple[Limit, ...]:
        out = []
        for name, number, unit in _LIMITS:
            pair = self._call_or_none(lambda number=number: self._process.rlimit(number))
            if pair is None:
                return ()
            soft = None if pair[0] == resource.RLIM_INFINITY else pair[0]
            out.append(Limit(name, soft, unit))
        return tuple(out)

    @contextlib.contextmanager
    def _os_errors(self) -> Iterator[None]:
        """Turn the exceptions of psutil into the OSErrors that they stand for."""
        try:
            yield
        except self._psutil.AccessDenied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
        except self._psutil.NoSuchProcess:  # also raised for a zombie, which has no data
            raise ProcessLookupError(errno.ESRCH, "it has ended") from None


def _socket(connection: Any) -> Socket:
    protocol = _PROTOCOLS.get((connection.family.name, getattr(connection.type, "name", "")), "")
    if connection.family.name == "AF_UNIX":
        return Socket("unix", clean(connection.laddr or ""), "", "")
    state = "" if connection.status == "NONE" else connection.status.lower().replace("_", "-")
    return Socket(protocol or "udp6", _address(connection.laddr), _address(connection.raddr), state)


def _address(pair: Any) -> str:
    """Return an address as text, such as "10.0.0.7:443" or "[fe80::1]:22"; "" when there is no address."""
    if not pair:
        return ""
    host = f"[{pair.ip}]" if ":" in pair.ip else pair.ip
    return clean(f"{host}:{pair.port}")
