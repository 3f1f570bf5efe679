"""Chooses which threads of a job are sampled besides the main threads: the recently active ones, whatever their names.
Also lists the job's child processes.

Each training process has a census twice a second, on the sampling thread. A thread counts as active if it is on a CPU
or blocked at the time of the census, or if it has used CPU time since the previous census.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.job.watched_task import fields_after_name
from iotop_ai.collectors.process.descriptors import STAT_SIZE, open_kept, read_kept
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.process.records import ProcessKey

MOST_LISTED = 128
"""The most threads of one process whose stat file is kept open."""
ACTIVE_NS = 5_000_000_000
"""How long a thread stays chosen after it was last active, in nanoseconds."""
LISTED_EVERY_NS = 1_000_000_000
"""The time between two listings of a process's threads, in nanoseconds."""
MOST_CHILDREN = 64
"""The most descendants of a process that are returned, its children included."""
ROTATED_PER_CENSUS = 4
"""The number of threads whose children are listed in rotation in one census. The next census takes other threads."""
DEEPEST = 3
"""How many generations of children below a process of the job are sampled; ``sh -c "curl … | tar …"`` has two."""
PIN = b"pt_data_pin"
AUTOGRAD = b"pt_autograd"
"""The name of PyTorch's pin-memory thread (PIN), and the beginning of the names of its autograd threads."""


class _Thread:
    __slots__ = ("active_ns", "file", "name", "ticks")

    def __init__(self, file: KeptFile) -> None:
        self.file = file
        self.name = b""
        self.ticks = -1
        self.active_ns = 0
        """The time when the thread was last active; 0 if it has not been active yet."""


class Census(NamedTuple):
    """The threads of a process that matter for sampling, without its main thread.

    threads: the IDs of the recently active threads without the pin-memory thread; the most recently active thread comes
    first. pin: the ID of the pin-memory thread; 0 without such a thread. autograd: the IDs of all autograd threads,
    which run backward passes.
    """

    threads: tuple[int, ...] = ()
    pin: int = 0
    autograd: frozenset[int] = frozenset()


class ThreadCensus:
    """Follows the threads of one process, without its main thread."""

    def __init__(self, root: Root, key: ProcessKey) -> None:
        self._root = root
        self.key = key
        self._threads: dict[int, _Thread] = {}
        self._listed_ns = 0
        self._parents: set[int] = set()
        """The IDs of the threads that had children at the last census."""
        self._turn = 0
        """The position, among the threads, at which the rotation of ``children`` continues."""

    def update(self, now_ns: int) -> Census:
        """Read the state of each thread once; return the census."""
        if now_ns - self._listed_ns >= LISTED_EVERY_NS:
            self._listed_ns = now_ns
            self._list_threads()
        if not self._threads:
            return Census()
        pin, autograd = 0, set()
        raws = read_kept([thread.file.fd for thread in self._threads.values()], STAT_SIZE)
        for (tid, thread), raw in zip(list(self._threads.items()), raws, strict=True):
            fields = fields_after_name(raw)
            if isinstance(raw, OSError) or len(fields) < 13:
                self._threads.pop(tid).file.close()
                continue
            ticks = int(fields[11]) + int(fields[12])
            is_active = fields[0] in (b"R", b"D") or (0 <= thread.ticks < ticks)
            if is_active:
                thread.active_ns = now_ns
            thread.ticks = ticks
            thread.name = raw[raw.find(b"(") + 1 : raw.rfind(b")")]
            if thread.name == PIN:
                pin = tid
            elif thread.name.startswith(AUTOGRAD):
                autograd.add(tid)
        active = [
            (tid, thread)
            for tid, thread in self._threads.items()
            if thread.active_ns and now_ns - thread.active_ns <= ACTIVE_NS
        ]
        active.sort(key=lambda entry: (-entry[1].active_ns, entry[0]))
        return Census(tuple(tid for tid, _ in active if tid != pin), pin, frozenset(autograd))

    def children(self, active: Sequence[int], childless: Set[int] = frozenset()) -> list[int]:
        """Return the PIDs of the children that some of the process's threads started, and of their descendants.

        These threads are the main thread, those in ``active``, those that had children before, and
        ``ROTATED_PER_CENSUS`` others in rotation. The rotation is needed because a thread that waits for its child uses
        almost no CPU time. childless: the PIDs of descendants whose own children are not looked for.
        """
        tids = list(self._threads)
        start = self._turn % len(tids) if tids else 0
        self._turn = start + ROTATED_PER_CENSUS
        others = [*tids[start:], *tids[:start]][:ROTATED_PER_CENSUS]
        started = {tid: _started_by(self._root, self.key.pid, tid) for tid in (*active, *self._parents, *others)}
        self._parents = {tid for tid, pids in started.items() if pids}
        started[self.key.pid] = _started_by(self._root, self.key.pid, self.key.pid)
        return _with_descendants(self._root, [pid for pids in started.values() for pid in pids], childless)

    def close(self) -> None:
        """Close all files."""
        for thread in self._threads.values():
            thread.file.close()
        self._threads = {}

    def _list_threads(self) -> None:
        folder = f"proc/{self.key.pid}/task"
        # With too many threads, keep the oldest and newest: libraries start their pools early, and loaders start late.
        names = self._root.names(folder)
        tids = sorted(int(name) for name in names if name.isdecimal() and int(name) != self.key.pid)
        if len(tids) > MOST_LISTED:
            tids = [*tids[: MOST_LISTED // 2], *tids[-MOST_LISTED // 2 :]]
        for tid in set(self._threads).difference(tids):
            self._threads.pop(tid).file.close()
        for tid in tids:
            if tid not in self._threads:
                file = open_kept(self._root, f"{folder}/{tid}/stat", STAT_SIZE)
                if isinstance(file, KeptFile):
                    self._threads[tid] = _Thread(file)


def children_of(root: Root, pid: int) -> list[int]:
    """Return the PIDs of the processes that the main thread of a process started, and of their descendants.

    Source: /proc/PID/task/TID/children; [] on kernels without CONFIG_PROC_CHILDREN.
    """
    return _with_descendants(root, _started_by(root, pid, pid))


def newest_pid(root: Root) -> bytes | None:
    """Return the PID of the newest process or thread on the machine; None when it is unknown.

    Source: the last field of /proc/loadavg. The kernel takes it from the PID namespace of the reader, so it is unknown
    for a /proc of another namespace.
    """
    if root.has_given_trees:
        return None
    try:
        return root.read_once("proc/loadavg", 128).split()[-1]
    except (OSError, IndexError):
        return None


def _with_descendants(root: Root, pids: list[int], childless: Set[int] = frozenset()) -> list[int]:
    """Return these processes and those that their main threads started, ``DEEPEST`` generations in all.

    childless: as in ``ThreadCensus.children``.
    """
    descendants, level = list(pids), pids
    for _ in range(DEEPEST - 1):
        if not level or len(descendants) >= MOST_CHILDREN:
            break
        level = [child for pid in level if pid not in childless for child in _started_by(root, pid, pid)]
        descendants += level
    return descendants[:MOST_CHILDREN]


def _started_by(root: Root, pid: int, tid: int) -> list[int]:
    """Return the processes that a thread started, with the zombies that it has not reaped."""
    try:
        raw = root.read_once(f"proc/{pid}/task/{tid}/children", 4096)
    except OSError:
        return []
    return [int(word) for word in raw.split() if word.isdigit()]


def start_ticks(root: Root, pid: int) -> int | None:
    """Return the start time of a process in clock ticks, which is part of its key; None when it has ended."""
    try:
        fields = fields_after_name(root.read_once(f"proc/{pid}/stat", STAT_SIZE))
    except OSError:
        return None
    return int(fields[19]) if len(fields) > 19 and fields[19].isdigit() else None
