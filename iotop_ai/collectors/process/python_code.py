"""Finds the lines of Python that a process executes, with py-spy.

py-spy reads the process's memory from outside and does not stop the process. It runs only when the user asks for it.
Source: https://github.com/benfred/py-spy (record, --nonblocking, --format raw).
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.linux_calls import memory_file
from iotop_ai.collectors.io.programs import SYSTEM_PATH, find_user_program
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.spawn import run
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.process.stack import PythonCode, StackFrame, parse_folded, with_source
from iotop_ai.model.reading import Status

SAMPLES, SECONDS = 100, 5
_SPARE_S = 10.0
"""The additional time that py-spy gets, in seconds: it first reads the symbols of all libraries of the process."""
_OUTPUT_SIZE = 4 << 20
"""The most bytes that are read of py-spy's output."""
_LONGEST_SOURCE = 4 << 20
"""The size in bytes of the largest source file that is read."""
_SOURCE_TIMEOUT_S = 1.0
_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""The flags that find a folder without opening it."""
_INSTALL = "pip install 'iotop-ai[stack]'"
_SCOPE = "proc/sys/kernel/yama/ptrace_scope"


def py_spy_path() -> str:
    """Return the path of py-spy: next to our own Python, or else in PATH; "" when it is not installed."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy") if sys.executable else ""
    return beside if beside.startswith("/") and os.access(beside, os.X_OK) else find_user_program("py-spy")


def read_python_code(root: Root, pid: int, uid: int | None) -> PythonCode:
    """Sample the process SAMPLES times in SECONDS seconds. uid: the UID of the process's user.

    Raises Unavailable with the reason and the remedy.
    """
    program = py_spy_path()
    if not program:
        raise Unavailable(Status.UNSUPPORTED, "py-spy is not installed", _INSTALL)
    if not root.live:
        raise Unavailable(Status.UNSUPPORTED, "py-spy samples processes of its own /proc only")
    text = _record(root, program, pid, uid)
    code = parse_folded(text, pid, float(SECONDS))
    if not code.threads:
        raise Unavailable(Status.ABSENT, "none of its threads ran Python in that time")
    wanted = dict.fromkeys(line.frame for thread in code.threads for line in thread.lines)
    return with_source(code, [(frame, source_line(pid, uid, frame)) for frame in wanted])


def _record(root: Root, program: str, pid: int, uid: int | None) -> str:
    try:
        with memory_file("py-spy") as file:
            output, rate = file.fileno(), str(SAMPLES // SECONDS)
            argv = [program, "record", "--nonblocking", "--idle", "--threads", "--full-filenames", "--format", "raw"]
            argv += ["--rate", rate, "--duration", str(SECONDS), "--output", f"/proc/self/fd/{output}"]
            result = run(
                [*argv, "--pid", str(pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=SECONDS + _SPARE_S,
                pass_fds=(output,),
                env={"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"},
            )
            if result.returncode:
                raise _failure(root, clean_bytes(result.stderr.replace(b"\n", b" "), 400), pid, uid)
            return os.pread(output, _OUTPUT_SIZE, 0).decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        raise Unavailable(Status.FAILED, f"py-spy did not finish within {SECONDS + _SPARE_S:.0f} s") from None
    except OSError as error:
        raise Unavailable(Status.FAILED, f"py-spy: {error.strerror}") from None


def _failure(root: Root, text: str, pid: int, uid: int | None) -> Unavailable:
    """Return the exception with the reason for py-spy's error and the remedy."""
    if not root.exists(f"proc/{pid}"):
        return Unavailable(Status.ABSENT, "it has ended")
    if "ermission" in text or os.strerror(errno.EPERM) in text:
        scope = root.number_or_none(_SCOPE) or 0
        if os.geteuid() == 0:
            return Unavailable(Status.DENIED, "py-spy needs CAP_SYS_PTRACE", "docker run --cap-add SYS_PTRACE")
        if uid == os.geteuid() and scope:
            reason = f"py-spy needs the right to trace: kernel.yama.ptrace_scope is {scope}"
            return Unavailable(Status.DENIED, reason, "sudo, or sysctl kernel.yama.ptrace_scope=0")
        return Unavailable(Status.DENIED, "py-spy needs CAP_SYS_PTRACE for it", "sudo")
    if "python" in text.lower():
        return Unavailable(Status.UNSUPPORTED, "py-spy does not recognise its Python")
    return Unavailable(Status.FAILED, f"py-spy: {text.removeprefix('Error: ') or 'it failed without a message'}")


def source_line(pid: int, uid: int | None, frame: StackFrame) -> str:
    """Return the text of a source line, from the file as the process sees it; "" when it cannot be read.

    The path comes from the memory of the process and cannot be trusted. The file is therefore read only if it is a
    regular file that belongs to the user of the process or that everyone can read, in folders that the user can search.
    """
    if not frame.file.startswith("/") or frame.line < 1:
        return ""
    try:
        folder = _folder_of(pid, frame.file)
        raw = call_with_timeout(_SOURCE_TIMEOUT_S, folder, lambda: _read_source(pid, uid, frame.file))
    except OSError:
        return ""
    lines = raw.splitlines()
    if frame.line > len(lines):
        return ""
    return clean(clean_bytes(lines[frame.line - 1].replace(b"\t", b" "), 400).strip())


def _folder_of(pid: int, path: str) -> str:
    """Return a name of the file's folder that is unique across mount namespaces."""
    folder = os.readlink(f"/proc/{pid}/root").rstrip("/") + os.path.dirname(path)
    namespace = os.readlink(f"/proc/{pid}/ns/mnt")
    return folder if namespace == os.readlink("/proc/self/ns/mnt") else f"{namespace} {folder}"


def _read_source(pid: int, uid: int | None, path: str) -> bytes:
    folder, name = os.path.split(path)
    folder_fd = os.open(f"/proc/{pid}/root{folder}", _FOLDER_FLAGS)
    try:
        if uid != 0 and not _can_reach(pid, uid, folder_fd):
            return b""
        # O_PATH finds the file without opening it: opening a device may have an effect, such as starting a watchdog.
        path_fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    finally:
        os.close(folder_fd)
    try:
        status = os.fstat(path_fd)
        readable = status.st_uid == uid or status.st_mode & stat.S_IROTH
        if not (stat.S_ISREG(status.st_mode) and readable and status.st_size <= _LONGEST_SOURCE):
            return b""
        fd = os.open(f"/proc/self/fd/{path_fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(path_fd)
    try:
        return os.read(fd, _LONGEST_SOURCE)
    finally:
        os.close(fd)


def _can_reach(pid: int, uid: int | None, folder_fd: int) -> bool:
    """Whether a user can search a folder and all folders above it, up to the root of the process.

    The groups are those of the process. ACLs are not considered.
    """
    groups = _groups_of(pid)
    top = os.stat(f"/proc/{pid}/root")
    fd = os.dup(folder_fd)
    try:
        while _can_search(status := os.fstat(fd), uid, groups):
            parent_fd = os.open("..", _FOLDER_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = parent_fd
            if os.path.samestat(status, top) or os.path.samestat(status, os.fstat(fd)):
                return True
        return False
    finally:
        os.close(fd)


def _can_search(folder: os.stat_result, uid: int | None, groups: set[int]) -> bool:
    """Whether a user can search a folder: the owner's bit counts, else the group's, else the others'."""
    if folder.st_uid == uid:
        return bool(folder.st_mode & stat.S_IXUSR)
    return bool(folder.st_mode & (stat.S_IXGRP if folder.st_gid in groups else stat.S_IXOTH))


def _groups_of(pid: int) -> set[int]:
    """Return the GIDs of a process.

    Source: /proc/PID/status, the line Groups and the last GID of the line Gid, which is the one for files.
    """
    groups: set[int] = set()
    with open(f"/proc/{pid}/status", "rb") as status:
        for line in status:
            if line.startswith(b"Gid:"):
                groups.add(int(line.split()[4]))
            elif line.startswith(b"Groups:"):
                groups.update(map(int, line.split()[1:]))
    return groups
