"""Kept descriptors of /proc/PID files, read without a Python step per file."""

from __future__ import annotations

import errno
import os
import resource
from itertools import repeat

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.model.process.records import ProcessKey

IO_SIZE = 400
"""Seven numbers of 20 digits fit. Python's allocator can shrink bytes objects of at most 512 bytes, header included;
larger ones would waste as much memory again at 10,000 processes."""
STAT_SIZE = 1024
STAT_USUAL = 472
"""A stat line is longer only with huge numbers."""
MOST_KEPT = 16_384
"""Descriptors kept at most: each holds 4.3 kB of kernel memory after its first read."""
FREE = 500
"""Descriptors left to the rest of the program."""
UNSEEN = -1
"""hash() never returns -1."""
ENDED = frozenset({errno.ESRCH, errno.ENOENT})
FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


class ProcessEntry:
    """A process that /proc lists.

    io, stat: kept files; None when none is held.
    io_raw: content of io at the last read, or the error.
    stat_seen: hash of stat at the last read; ``UNSEEN``: parse the next line in any case. Keeping the line itself would
    take most of an entry's memory; two different lines of a process share a 64-bit hash less often than memory fails.
    comm: raw bytes of the name.
    denied: its io may not be read.
    young: found while running, so its info may be from before its exec and is read once more.
    published: a published table holds it.
    """

    __slots__ = ("comm", "denied", "ended", "io", "io_raw", "key", "published", "stat", "stat_seen", "uid", "young")

    def __init__(self, key: ProcessKey, comm: bytes, uid: int, stat_raw: bytes, young: bool) -> None:
        self.key = key
        self.comm = comm
        self.uid = uid
        self.io: KeptFile | None = None
        self.stat: KeptFile | None = None
        self.io_raw: bytes | OSError = b""
        self.stat_seen = UNSEEN if young else hash(stat_raw)
        self.denied = False
        self.ended = False
        self.young = young
        self.published = False


def read_kept(fds: list[int], size: int) -> list[bytes | OSError]:
    """The content of each descriptor, or the error in its place.

    ``list.extend`` over ``map`` runs without a Python step per file and resumes after an error. Errors are stored
    without their traceback, which would keep the tick's stack frames and tables alive.
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
    """Open, read, close: the content or the error."""
    try:
        if size <= IO_SIZE:
            return root.once(relative, size)
        with root.keep(relative, size) as file:
            # Copy a larger buffer, so that keeping its content does not keep unused memory.
            return bytes(memoryview(file.read_record()))
    except OSError as error:
        return error.with_traceback(None)


def read_kept_file(file: KeptFile) -> bytes | OSError:
    """The content of a kept file or the error."""
    try:
        return file.read_record()
    except OSError as error:
        return error.with_traceback(None)


def read_stat_once(root: Root, pid: int) -> bytes | OSError:
    """The stat line of a process without a kept descriptor, or the error."""
    try:
        raw = root.once(f"proc/{pid}/stat", STAT_USUAL)
    except OSError as error:
        return error.with_traceback(None)
    return raw if len(raw) < STAT_USUAL else read_once(root, f"proc/{pid}/stat", STAT_SIZE)


def open_kept(root: Root, relative: str, size: int) -> KeptFile | OSError:
    """Open a file to be kept; returns it, or the error."""
    try:
        return root.keep(relative, size)
    except OSError as error:
        return error.with_traceback(None)


def descriptor_room() -> int:
    """How many descriptors may be kept. Raises the soft limit to the hard limit, which any user may do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # a sandbox may forbid it
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MOST_KEPT
    return max(0, min(soft - FREE, MOST_KEPT))
