"""Keeps descriptors of /proc/PID files open and reads them without running Python code for each file."""

from __future__ import annotations

import errno
import os
import resource
from itertools import repeat

from iotop_ai.collectors.io.open_files import raise_open_files_limit
from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.model.process.records import ProcessKey

IO_SIZE = 400
"""The size of the buffer for /proc/PID/io, in bytes.

Seven numbers of 20 digits fit. Python can shrink a bytes object in place only up to 512 bytes, including its header;
with a larger buffer, the contents of 10,000 processes would take twice the memory that they need.
"""
STAT_SIZE = 1024
STAT_USUAL = 472
"""The size of the buffer for a stat line, in bytes.

A line that fills it, because its numbers are huge, is read again with a buffer of ``STAT_SIZE``.
"""
MOST_KEPT_FILES = 16_384
"""The most files that are kept open. Each descriptor occupies 4.3 kB of kernel memory after its first read."""
RESERVED = 500
"""The number of descriptors that are left for the rest of the program."""
UNSEEN = -1
"""A value of ``stat_hash`` that no stat line has, because hash() never returns -1."""
ENDED = frozenset({errno.ESRCH, errno.ENOENT})
FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})
"""The errors that show that a process has ended (ENDED), and that we are not permitted to read its file (FORBIDDEN)."""


class ProcessEntry:
    """A process that /proc lists.

    io, stat: the files of the process that are kept open; None when the file is not kept open. io_raw: the
    content of io at the last read, or the error. stat_hash: the hash of stat at the last read; ``UNSEEN`` to parse the
    next line in any case. The line itself would take most of an entry's memory, and two different lines have the same
    64-bit hash less often than memory fails. asleep: whether the process has not run since its io and stat were last
    read (see ``SleepCheck``). comm: the raw bytes of the process's name. denied: whether we cannot read its io.
    info_may_predate_exec: whether the info may be from before the process's exec, because the process started while the
    monitor was running; the info is then read once more. published: whether a table that was already returned contains
    the process.
    """

    __slots__ = (
        "asleep",
        "comm",
        "denied",
        "ended",
        "info_may_predate_exec",
        "io",
        "io_raw",
        "key",
        "published",
        "stat",
        "stat_hash",
        "uid",
    )

    def __init__(self, key: ProcessKey, comm: bytes, uid: int, stat_raw: bytes, info_may_predate_exec: bool) -> None:
        self.key = key
        self.comm = comm
        self.uid = uid
        self.io: KeptFile | None = None
        self.stat: KeptFile | None = None
        self.io_raw: bytes | OSError = b""
        self.stat_hash = UNSEEN if info_may_predate_exec else hash(stat_raw)
        self.asleep = False
        self.denied = False
        self.ended = False
        self.info_may_predate_exec = info_may_predate_exec
        self.published = False


def read_kept(fds: list[int], size: int) -> list[bytes | OSError]:
    """Return the content of each descriptor, or the error in its place.

    ``list.extend`` over ``map`` reads all files without running Python code for each one, and can go on after an error.
    Errors are stored without their traceback, which would keep the stack frames and tables of the tick in memory.
    """
    out: list[bytes | OSError] = []
    reads = map(os.pread, fds, repeat(size), repeat(0))
    while True:
        try:
            out.extend(reads)
        except OSError as error:
            out.append(error.with_traceback(None))
        else:
            return out


def read_once(root: Root, relative: str, size: int) -> bytes | OSError:
    """Open a file, read it and close it; return the content or the error."""
    try:
        if size <= IO_SIZE:
            return root.read_once(relative, size)
        with root.keep(relative, size) as file:
            # The buffer of the read is larger: copy its content, so that keeping the copy does not keep unused memory.
            return bytes(memoryview(file.read_record()))
    except OSError as error:
        return error.with_traceback(None)


def read_kept_file(file: KeptFile) -> bytes | OSError:
    """Return the content of a file that is kept open, or the error."""
    try:
        return file.read_record()
    except OSError as error:
        return error.with_traceback(None)


def read_stat_once(root: Root, pid: int) -> bytes | OSError:
    """Return the stat line of a process whose stat file is not kept open, or the error."""
    try:
        raw = root.read_once(f"proc/{pid}/stat", STAT_USUAL)
    except OSError as error:
        return error.with_traceback(None)
    return raw if len(raw) < STAT_USUAL else read_once(root, f"proc/{pid}/stat", STAT_SIZE)


def read_io_once(root: Root, pid: int) -> bytes | OSError:
    """Return the io of a process whose io file is not kept open, or the error.

    The error is EACCES if a living process lacks the file because the kernel has no task I/O accounting.
    """
    raw = read_once(root, f"proc/{pid}/io", IO_SIZE)
    if isinstance(raw, OSError) and raw.errno == errno.ENOENT and isinstance(read_stat_once(root, pid), bytes):
        return PermissionError(errno.EACCES, "no task I/O accounting")
    return raw


def open_kept(root: Root, relative: str, size: int) -> KeptFile | OSError:
    """Open a file that is to be kept open; return the file or the error."""
    try:
        return root.keep(relative, size)
    except OSError as error:
        return error.with_traceback(None)


def descriptor_room() -> int:
    """Return how many descriptors may be kept open. Also raises the soft limit of open files."""
    soft = raise_open_files_limit()
    if soft == resource.RLIM_INFINITY:
        return MOST_KEPT_FILES
    return max(0, min(soft - RESERVED, MOST_KEPT_FILES))
