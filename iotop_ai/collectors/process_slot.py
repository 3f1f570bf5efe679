"""Kept descriptors of /proc/PID files, and how they are read at C speed."""

from __future__ import annotations

import errno
import os
import resource
from itertools import repeat

from iotop_ai.collectors.root import KeptFile, Root
from iotop_ai.model.process import ProcessKey

IO_SIZE = 400
"""Seven numbers of 20 digits fit. Python makes bytes of at most 512, with their head, where it can cut them to size
without a hole behind each, which at 10,000 processes is as much memory again."""
STAT_SIZE = 1024
STAT_USUAL = 472
"""More than a stat line takes unless its numbers are huge."""
MOST_KEPT = 16_384
"""Descriptors kept at most: each holds 4.3 kB of kernel memory after its first read."""
FREE = 500
"""Descriptors left to the rest of the program."""
UNSEEN = -1
"""No hash is this number."""
ENDED = frozenset({errno.ESRCH, errno.ENOENT})
FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


class Slot:
    """One process while it is listed.

    io, stat: kept files, None when none is held. io_raw: what io held at the last read. stat_seen: the hash of what
    stat held then; the line itself would be most of what a process takes here, and that two lines of one process
    share one of 2**64 hashes, drawn anew in each run, is less likely than an error of the memory. ``UNSEEN`` while it
    is looked at in any case.
    comm: raw bytes of its name. denied: its io is not ours to read. young: found while running, so that its info may
    be that of before exec and is read once more. published: it stands in a table that was handed out.
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

    ``list.extend`` over ``map`` runs without a Python step per file; after an error it goes on with the next. An error
    is kept without its traceback, which would keep the whole tick's frames alive with the tables in them.
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
            # What was read into more than Python cuts to size is copied, so that keeping it keeps no hole behind it.
            return bytes(memoryview(file.read()))
    except OSError as error:
        return error.with_traceback(None)


def read_of(file: KeptFile) -> bytes | OSError:
    """The content of a kept file or the error."""
    try:
        return file.read()
    except OSError as error:
        return error.with_traceback(None)


def read_stat_once(root: Root, pid: int) -> bytes | OSError:
    """The stat line of a process of which no descriptor is kept, or the error."""
    try:
        raw = root.once(f"proc/{pid}/stat", STAT_USUAL)
    except OSError as error:
        return error.with_traceback(None)
    return raw if len(raw) < STAT_USUAL else read_once(root, f"proc/{pid}/stat", STAT_SIZE)


def keep(root: Root, relative: str, size: int) -> KeptFile | OSError:
    """A kept file or the error."""
    try:
        return root.keep(relative, size)
    except OSError as error:
        return error.with_traceback(None)


def descriptor_room() -> int:
    """How many descriptors may be kept; raises the soft limit to the hard one, which any user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # a sandbox may forbid it: the soft limit is then what there is
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MOST_KEPT
    return max(0, min(soft - FREE, MOST_KEPT))
