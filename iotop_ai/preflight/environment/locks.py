"""Finds lock files that a running process holds, because other processes may wait for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.environment.check import Check, State

LOCKS = "proc/locks"
MOST_FILES = 4096
"""The maximum number of descriptors that are read from one process."""


class HeldLock(NamedTuple):
    """A lock file and the process that holds it. name: the name of the process; "" if unknown."""

    path: str
    pid: int
    name: str


def parse_locks(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the inode and the pid of each lock that a process holds.

    Sample lines of /proc/locks (fs/locks.c). The process in a line with "->" waits for the lock in the line above::

        1: FLOCK  ADVISORY  WRITE 812 00:2f:1234 0 EOF
        1: -> FLOCK  ADVISORY  WRITE 815 00:2f:1234 0 EOF
    """
    for line in lines:
        words = line.split()
        if len(words) >= 6 and words[1] in ("FLOCK", "POSIX") and words[4].isdecimal():
            inode = words[5].rpartition(":")[2]
            if inode.isdecimal():
                yield int(inode), int(words[4])


def read_held_locks(root: Root, files: Iterable[tuple[str, int]]) -> tuple[HeldLock, ...]:
    """Return the locks that processes hold on these files (path, inode).

    An inode number alone does not identify a file, because a file on another disk may have the same number. Therefore a
    descriptor of the process must show the path.
    """
    paths: dict[int, list[str]] = {}
    for path, inode in files:
        paths.setdefault(inode, []).append(path)
    if not paths:
        return ()
    out: dict[str, HeldLock] = {}
    for inode, pid in parse_locks(root.lines(LOCKS)):
        new_paths = [path for path in paths.get(inode, ()) if path not in out]
        open_paths: Collection[str] = (root.links(f"proc/{pid}/fd", MOST_FILES) or {}).values() if new_paths else ()
        for path in new_paths:
            if path in open_paths:
                out[path] = HeldLock(clean(path), pid, clean(root.text_or(f"proc/{pid}/comm")))
    return tuple(out.values())


def judge_held_locks(held: Iterable[HeldLock]) -> Iterator[Check]:
    """Yield a warning for one lock in each folder, for at most three folders.

    The process that holds the lock may be at work, or it may hang.
    """
    by_folder = {lock.path.split("/")[-2]: lock for lock in reversed(list(held))}
    for folder, lock in list(by_folder.items())[:3]:
        name = lock.path.rpartition("/")[2]
        text = f"process {lock.pid} ({lock.name or '?'}) holds {name}: other processes wait for this lock"
        remedy = f"ps -o pid,stat,etime,args {lock.pid}; if it hangs: kill {lock.pid}"
        yield Check("python", f"lock in {folder}", State.WARN, text, remedy)
