"""Queries statvfs for the relevant mounts, each on its own thread, so that a dead server blocks only its own query."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from iotop_ai.collectors.base import Unavailable, take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.counter import known_int
from iotop_ai.model.machine.filesystem import FilesystemUsage, is_remote
from iotop_ai.model.reading import Reading, Status

QUERY_EVERY_NS = 10_000_000_000
"""The time between two queries of a mount, in nanoseconds."""
ANSWER_LIMIT_NS = 2_000_000_000
"""How long a mount may take to answer, in nanoseconds, before its Reading is failed."""
_MEMORY_PATHS = ("/dev/shm", "/tmp")
"""The mount points at which a filesystem in memory is queried."""
_IMAGES = frozenset(("squashfs", "iso9660", "erofs", "cramfs", "udf"))
"""The types of read-only images."""

Statvfs = Callable[[str], os.statvfs_result]


class MountSource(Protocol):
    """The part of MountsCollector that this module uses."""

    mounts: tuple[Mount, ...]
    real_paths: Mapping[str, str]


def mounts_to_query(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Return one mount of each filesystem whose free space matters.

    Read-only images, tmpfs and ramfs except /dev/shm and /tmp, overlays except the root of a container, and further
    mounts of the same filesystem (bind mounts) are left out. Of several mounts, a mount of the whole filesystem is
    preferred, and then the shortest path.
    """
    selected: dict[tuple[str, str], Mount] = {}
    for mount in sorted(mounts, key=lambda m: (m.root != "/", len(m.path), m.path)):
        if mount.fstype in _IMAGES or (mount.fstype == "overlay" and mount.path != "/"):
            continue
        if mount.fstype in ("tmpfs", "ramfs") and mount.path not in _MEMORY_PATHS:
            continue
        selected.setdefault((mount.device or mount.path, mount.source), mount)
    return tuple(sorted(selected.values(), key=lambda m: m.path))


_Key = tuple[str, str, str, str, str]


def _key(mount: Mount) -> _Key:
    """Return the identity of a mount. Another filesystem at the same path has another identity.

    A mount that becomes read-only keeps its identity.
    """
    return mount.path, mount.device, mount.fstype, mount.source, mount.root


class _StatvfsCall:
    """One call of statvfs on its own daemon thread.

    The class has the methods of a Collector, so that ``take_reading`` handles its errors.
    """

    field = "filesystems"
    every_s = 0.0

    def __init__(self, path: str, statvfs: Statvfs, clock: Clock) -> None:
        self.started_ns = clock.monotonic_ns()
        self.answer: Reading[FilesystemUsage] | None = None
        self._path = path
        self._statvfs = statvfs
        self._clock = clock

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="statvfs", daemon=True).start()

    def _run(self) -> None:
        self.answer = take_reading(self, self._clock)

    def read(self) -> FilesystemUsage:
        """Wait for the kernel's answer and return it. Raises OSError, and Unavailable for an impossible size."""
        answer = self._statvfs(self._path)
        block = answer.f_frsize or answer.f_bsize
        usage = FilesystemUsage(
            answer.f_blocks * block, answer.f_bfree * block, answer.f_bavail * block, answer.f_files, answer.f_ffree
        )
        if any(known_int(figure) is None for figure in usage):  # the server of a FUSE filesystem may report any size
            raise Unavailable(Status.UNSUPPORTED, "its size in bytes does not fit into 64 bits")
        return usage

    def close(self) -> None:
        """Do nothing: no file stays open."""


class _MountState(NamedTuple):
    """The state of a mount. newest: its newest Reading. call: the call that has not been answered; None without one.

    queried_ns: the time of the last query; None before the first.
    """

    newest: Reading[FilesystemUsage]
    call: _StatvfsCall | None
    queried_ns: int | None


class FilesystemCollector:
    """Reads how full each mount is. Each mount has a Reading with a time of its own.

    Each mount is queried every 10 s. A mount that does not answer within 2 s is ``failed``, and the Reading's
    ``took_ns`` is the time since the query; the mount is not queried again until the answer arrives, so a stuck mount
    costs one sleeping thread. When another filesystem is mounted at the same path, its Reading begins as pending.
    ``read`` does not wait.
    """

    field = "filesystems"
    every_s = 1.0

    def __init__(self, root: Root, clock: Clock, mounts: MountSource, statvfs: Statvfs = os.statvfs) -> None:
        self._root = root
        self._clock = clock
        self._mounts = mounts
        self._statvfs = statvfs
        self._states: dict[_Key, _MountState] = {}
        self._all_mounts: tuple[Mount, ...] | None = None
        self._selected: dict[_Key, Mount] = {}
        self._newest: dict[str, Reading[FilesystemUsage]] = {}

    def read(self) -> dict[str, Reading[FilesystemUsage]]:
        """Return the newest Readings by mount point: the same object if none changed.

        The Reading of a mount is pending until the mount's first answer.
        """
        now = self._clock.monotonic_ns()
        states: dict[_Key, _MountState] = {}
        if self._mounts.mounts is not self._all_mounts:
            self._all_mounts = self._mounts.mounts
            self._selected = {_key(mount): mount for mount in mounts_to_query(self._all_mounts)}
        for key, mount in self._selected.items():
            states[key] = self._next_state(mount, self._states.get(key, _MountState(Reading(), None, None)), now)
        # If a stuck mount is unmounted lazily, its thread ends when the kernel releases the mount.
        self._states = states
        newest = {key[0]: each.newest for key, each in states.items()}
        if newest != self._newest:
            self._newest = newest
        return self._newest

    def _next_state(self, mount: Mount, state: _MountState, now: int) -> _MountState:
        call = state.call
        if call is not None:
            if call.answer is not None:
                return _MountState(call.answer, None, state.queried_ns)
            silent_ns = now - call.started_ns
            if silent_ns < ANSWER_LIMIT_NS:
                return state
            reason = f"no answer for {silent_ns / 1e9:.0f} s"
            remedy = f"look at the server of {mount.source}" if is_remote(mount.fstype, mount.source) else ""
            newest: Reading[FilesystemUsage] = Reading(None, Status.FAILED, reason, remedy, now, silent_ns)
            return state._replace(newest=newest)
        if state.queried_ns is not None and now - state.queried_ns < QUERY_EVERY_NS:
            return state
        path = self._mounts.real_paths.get(mount.path, mount.path)
        call = _StatvfsCall(self._root.reachable_path(path), self._statvfs, self._clock)
        try:
            call.start()
        except RuntimeError as error:  # this user has too many threads; the next read tries again
            return _MountState(Reading(None, Status.FAILED, f"it is not queried: {error}", "", now, 0), None, None)
        return _MountState(state.newest, call, now)

    def close(self) -> None:
        """Do nothing: the threads are daemons and keep no descriptors open."""
