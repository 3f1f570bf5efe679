"""statvfs of the mounts that matter, each on a thread of its own: a dead server stops nobody else."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable

from iotop_ai.collectors.base import take
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.root import Root
from iotop_ai.model.block import Mount
from iotop_ai.model.filesystem import FilesystemUsage, is_remote
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.typed import Protocol

ASK_NS = 10_000_000_000
PATIENCE_NS = 2_000_000_000
_MEMORY_PATHS = ("/dev/shm", "/tmp")
_IMAGES = frozenset(("squashfs", "iso9660", "erofs", "cramfs", "udf"))

Statvfs = Callable[[str], os.statvfs_result]


class Mounted(Protocol):
    """What is needed of the mounts' collector."""

    mounts: tuple[Mount, ...]


def mounts_to_ask(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """One mount of each filesystem whose fullness matters to somebody.

    Left out: read-only images, tmpfs but for /dev/shm and /tmp, overlays but for a container's root, and further
    mounts of the same filesystem (bind mounts); of several the whole one with the shortest path is asked.
    """
    chosen: dict[tuple[str, str], Mount] = {}
    for mount in sorted(mounts, key=lambda m: (m.root != "/", len(m.path), m.path)):
        if mount.fstype in _IMAGES or (mount.fstype == "overlay" and mount.path != "/"):
            continue
        if mount.fstype in ("tmpfs", "ramfs") and mount.path not in _MEMORY_PATHS:
            continue
        chosen.setdefault((mount.device or mount.path, mount.source), mount)
    return tuple(sorted(chosen.values(), key=lambda m: m.path))


class _Question:
    """One statvfs under way on its own daemon thread. Collector-shaped, so that errors become Readings in one place."""

    field = "filesystems"
    every_s = 0.0

    def __init__(self, path: str, statvfs: Statvfs, clock: Clock) -> None:
        self.asked_ns = clock.monotonic_ns()
        self.answer: Reading[FilesystemUsage] | None = None
        self._path = path
        self._statvfs = statvfs
        self._clock = clock

    def start(self) -> None:
        """Ask."""
        threading.Thread(target=self._ask, name="statvfs", daemon=True).start()

    def _ask(self) -> None:
        self.answer = take(self, self._clock)

    def read(self) -> FilesystemUsage:
        """Wait for the kernel's answer. Raises OSError."""
        s = self._statvfs(self._path)
        block = s.f_frsize or s.f_bsize
        return FilesystemUsage(s.f_blocks * block, s.f_bfree * block, s.f_bavail * block, s.f_files, s.f_ffree)

    def close(self) -> None:
        """Nothing is kept open."""


class _Asked(NamedTuple):
    newest: Reading[FilesystemUsage]
    question: _Question | None
    asked_ns: int | None


class FilesystemCollector:
    """Fullness by mount point, each its own Reading with its own time.

    Every mount is asked each 10 s. One that does not answer within 2 s is ``failed`` with its age and is not asked
    again until that answer comes; a stuck one costs one sleeping thread. ``read`` never waits.
    """

    field = "filesystems"
    every_s = 1.0

    def __init__(self, root: Root, clock: Clock, mounts: Mounted, statvfs: Statvfs = os.statvfs) -> None:
        self._root = root
        self._clock = clock
        self._mounts = mounts
        self._statvfs = statvfs
        self._asked: dict[str, _Asked] = {}
        self._of: tuple[Mount, ...] | None = None
        self._chosen: tuple[Mount, ...] = ()
        self._newest: dict[str, Reading[FilesystemUsage]] = {}

    def read(self) -> dict[str, Reading[FilesystemUsage]]:
        """What is known now, by mount point; pending before a mount's first answer. The same object while nothing
        changed.
        """
        now = self._clock.monotonic_ns()
        asked: dict[str, _Asked] = {}
        if self._mounts.mounts is not self._of:
            self._of, self._chosen = self._mounts.mounts, mounts_to_ask(self._mounts.mounts)
        for mount in self._chosen:
            asked[mount.path] = self._follow(mount, self._asked.get(mount.path, _Asked(Reading(), None, None)), now)
        # A stuck mount that was unmounted lazily leaves with its thread, which ends when the kernel lets it.
        self._asked = asked
        newest = {path: each.newest for path, each in asked.items()}
        if newest != self._newest:
            self._newest = newest
        return self._newest

    def _follow(self, mount: Mount, state: _Asked, now: int) -> _Asked:
        question = state.question
        if question is not None:
            if question.answer is not None:
                return _Asked(question.answer, None, state.asked_ns)
            silent_ns = now - question.asked_ns
            if silent_ns < PATIENCE_NS:
                return state
            reason = f"no answer for {silent_ns / 1e9:.0f} s"
            remedy = f"look at the server of {mount.source}" if is_remote(mount.fstype) else ""
            newest: Reading[FilesystemUsage] = Reading(None, Status.FAILED, reason, remedy, now, silent_ns)
            return state._replace(newest=newest)
        if state.asked_ns is not None and now - state.asked_ns < ASK_NS:
            return state
        question = _Question(self._root.join(mount.path.lstrip("/")), self._statvfs, self._clock)
        question.start()
        return _Asked(state.newest, question, now)

    def close(self) -> None:
        """Nothing to give back: the threads are daemons and hold no descriptor."""
