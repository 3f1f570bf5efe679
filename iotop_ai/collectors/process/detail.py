"""Reads all details of one process while its page is open. This may take long, so the caller uses separate threads.

Sources: /proc/PID/task/TID/stat, wchan and syscall, /proc/PID/fd, fdinfo (mnt_id, pos, flags) and mountinfo, as
described in https://docs.kernel.org/filesystems/proc.html; psutil for the rest. psutil's open_files() is not used: it
calls stat() on each open file, and that call would hang if the file's server is dead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from iotop_ai.collectors.base import FunctionCollector, Unavailable, take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.psutil_calls import PsutilProcess
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup import CgroupReader, own_cgroups, own_path
from iotop_ai.collectors.job.cgroup_limits import cpu_quota, io_limits
from iotop_ai.collectors.job.cgroup_paths import unified_folder
from iotop_ai.collectors.job.wait_target import wait_target
from iotop_ai.collectors.machine.mounts import every_mount
from iotop_ai.collectors.process.parse import PF_KTHREAD, parse_stat
from iotop_ai.collectors.process.python_code import read_python_code
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.process.detail import (
    CgroupDetail,
    OpenFile,
    OpenFiles,
    ProcessDetail,
    Sockets,
    ThreadDetail,
    ThreadTable,
)
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.process.stack import PythonCode
from iotop_ai.model.reading import Reading, Status

T = TypeVar("T")
MOST_THREADS = 512
MOST_FILES = 2048
MOST_VARIABLES = 512
_STAT_SIZE = 1024
_DELETED = " (deleted)"
_MODES = {os.O_RDONLY: "r", os.O_WRONLY: "w", os.O_RDWR: "rw"}


class DetailReader:
    """Reads the details of a process. own_uids: the UIDs of the users whose environment may be shown."""

    def __init__(self, root: Root, clock: Clock, own_uids: frozenset[int]) -> None:
        self._root = root
        self._clock = clock
        self._own_uids = own_uids
        self._clk_tck = os.sysconf("SC_CLK_TCK")
        self._memory = ProcessMemory(root)

    def close(self) -> None:
        """End the threads that read the memory of processes."""
        self._memory.close()

    def read(self, key: ProcessKey, uid: int | None) -> ProcessDetail:
        """Read every part of the details. uid: the UID of the process's user; None when it is unknown."""
        detail = self.read_changing(key)
        return detail._replace(
            identity=self._reading("identity", key, lambda: PsutilProcess(self._root, key.pid).identity()),
            environ=self._reading("environ", key, lambda: self._environ(key.pid, uid)),
        )

    def read_changing(self, key: ProcessKey) -> ProcessDetail:
        """Read only the parts that change from second to second; the other parts are marked as pending."""
        files = self._reading("files", key, lambda: self._files(key.pid))
        return ProcessDetail(
            key,
            threads=self._reading("threads", key, lambda: self._threads(key.pid)),
            files=files,
            sockets=self._reading("sockets", key, lambda: self._sockets(key.pid, files.value)),
            cgroup=self._reading("cgroup", key, lambda: self._cgroup(key.pid)),
        )

    def read_code(self, key: ProcessKey, uid: int | None) -> Reading[PythonCode]:
        """Sample the lines of Python that the process executes, which takes a few seconds. uid: its user's UID."""

        def sample() -> PythonCode:
            code = read_python_code(self._root, key.pid, uid)
            if not self._is_alive(key):  # the samples may be those of another process with its PID
                raise Unavailable(Status.ABSENT, "it has ended")
            return code

        return self._reading("code", key, sample)

    def _reading(self, field: str, key: ProcessKey, read: Callable[[], T]) -> Reading[T]:
        def checked() -> T:
            try:
                if not self._is_alive(key):
                    raise Unavailable(Status.ABSENT, "it has ended")
                return read()
            except PermissionError:
                raise Unavailable(Status.DENIED, "it belongs to another user", "sudo shows it") from None
            except (FileNotFoundError, ProcessLookupError):
                raise Unavailable(Status.ABSENT, "it has ended") from None

        return take_reading(FunctionCollector(field, checked), self._clock)

    def _is_alive(self, key: ProcessKey) -> bool:
        """Whether the PID still belongs to this process. Raises OSError."""
        try:
            return parse_stat(self._root.read_once(f"proc/{key.pid}/stat", _STAT_SIZE)).start_ticks == key.start_ticks
        except ValueError:
            return False

    def _environ(self, pid: int, uid: int | None) -> tuple[tuple[str, str], ...]:
        if uid not in self._own_uids:
            raise Unavailable(Status.OFF, "shown for your own processes only")
        if parse_stat(self._root.read_once(f"proc/{pid}/stat", _STAT_SIZE)).flags & PF_KTHREAD:
            return ()  # a kernel thread has no environment; new kernels give ESRCH, as if it had ended
        variables = PsutilProcess(self._root, pid).environ()
        return tuple((clean(name, 256), clean(value)) for name, value in sorted(variables.items())[:MOST_VARIABLES])

    def _threads(self, pid: int) -> ThreadTable:
        tids = sorted(int(name) for name in os.listdir(self._root.join(f"proc/{pid}/task")) if name.isdecimal())
        threads = (self._thread(pid, tid) for tid in tids[:MOST_THREADS])
        return ThreadTable(tuple(thread for thread in threads if thread is not None), len(tids), self._clk_tck)

    def _thread(self, pid: int, tid: int) -> ThreadDetail | None:
        folder = f"proc/{pid}/task/{tid}"
        try:
            parsed = parse_stat(self._root.read_once(f"{folder}/stat", _STAT_SIZE))
        except (OSError, ValueError):
            return None
        record = parsed.record
        wchan = self._root.text_or(f"{folder}/wchan")
        target = wait_target(self._root, self._memory, pid, tid)
        path = self._root.link(f"{folder}/fd/{target.fds[0]}") if len(target.fds) == 1 else ""
        return ThreadDetail(
            tid,
            clean_bytes(parsed.comm, 64),
            record.state,
            "" if wchan == "0" else wchan,
            target.call,
            target.kind,
            clean(path, 4096) if path.startswith("/") else "",
            record.utime_ticks + record.stime_ticks,
        )

    def _files(self, pid: int) -> OpenFiles:
        names = os.listdir(self._root.join(f"proc/{pid}/fd"))
        # A zombie has no descriptors and no mount namespace.
        mounts = self._mounts(pid) if names else {}
        files: dict[tuple[str, str, bool], OpenFile] = {}
        others: dict[str, int] = {}
        read_names = sorted(names, key=lambda name: int(name) if name.isdecimal() else -1)[:MOST_FILES]
        for name in read_names:
            try:
                link = os.readlink(self._root.join(f"proc/{pid}/fd/{name}"))
            except FileNotFoundError:  # the file was closed in the meantime
                continue
            if not link.startswith("/"):
                kind = _kind(link)
                others[kind] = others.get(kind, 0) + 1
                continue
            info = self._fdinfo(f"proc/{pid}/fdinfo/{name}")
            deleted = link.endswith(_DELETED)
            path = clean(link.removesuffix(_DELETED), 4096)
            before = files.get((path, info.mode, deleted))
            if before is None:
                mount = None if info.mount is None else mounts.get(info.mount)
                files[path, info.mode, deleted] = OpenFile(path, info.mode, 1, info.position, mount, deleted)
            else:
                positions = [position for position in (before.position, info.position) if position is not None]
                files[path, info.mode, deleted] = before._replace(
                    fds=before.fds + 1, position=max(positions, default=None)
                )
        ordered = sorted(files.values(), key=lambda entry: (entry.path, entry.mode, entry.deleted))
        return OpenFiles(tuple(ordered), tuple(sorted(others.items())), len(names), len(names) > len(read_names))

    def _fdinfo(self, relative: str) -> _FdInfo:
        try:
            raw = self._root.read_once(relative, 512)
        except OSError:
            return _FdInfo("", None, None)
        return parse_fdinfo(raw)

    def _mounts(self, pid: int) -> Mapping[int, Mount]:
        """Return the mounts of the process's own mount namespace, by mnt_id."""
        out = {}
        for line in self._root.read(f"proc/{pid}/mountinfo").split(b"\n"):
            number = line.split(b" ", 1)[0]
            if number.isdigit() and (mounts := every_mount(line)):
                out[int(number)] = mounts[0]
        return out

    def _sockets(self, pid: int, files: OpenFiles | None) -> Sockets:
        sockets = PsutilProcess(self._root, pid).sockets()
        descriptors = 0 if files is None else dict(files.others).get("socket", 0)
        return Sockets(sockets, max(0, descriptors - sum(socket.alike for socket in sockets)))

    def _cgroup(self, pid: int) -> CgroupDetail:
        reader = CgroupReader(self._root)
        paths, unified = reader.paths(pid), unified_folder(self._root)
        cores, _ = cpu_quota(self._root, paths, unified)
        group = reader.group(own_cgroups(paths))
        return CgroupDetail(own_path(paths) or "/", group, io_limits(self._root, paths, unified), cores)


class _FdInfo(NamedTuple):
    """The content of /proc/PID/fdinfo/N. mode: "r", "w", "rw", or "" when it is unknown. mount: the file's mnt_id."""

    mode: str
    position: int | None
    mount: int | None


def parse_fdinfo(raw: bytes) -> _FdInfo:
    """Parse lines such as ``pos:\\t131072``, ``flags:\\t0100000`` (octal) and ``mnt_id:\\t27``."""
    values = dict(line.split(b":", 1) for line in raw.splitlines() if b":" in line)
    flags, position, mount = (values.get(name, b"").strip() for name in (b"flags", b"pos", b"mnt_id"))
    mode = _MODES.get(int(flags, 8) & os.O_ACCMODE, "") if flags.isdigit() and not set(flags) & set(b"89") else ""
    return _FdInfo(mode, int(position) if position.isdigit() else None, int(mount) if mount.isdigit() else None)


def _kind(link: str) -> str:
    """Return the kind of an open file: "socket" for the link "socket:[81]", "eventfd" for "anon_inode:[eventfd]"."""
    name, _, rest = link.partition(":")
    return clean(rest.strip("[]") if name == "anon_inode" else name, 32)
