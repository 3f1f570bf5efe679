"""Finds out how much of a file is in the page cache, with cachestat(2) or else mincore(2).

Sources: https://man7.org/linux/man-pages/man2/mincore.2.html and the kernel's mm/filemap.c. cachestat exists since
Linux 6.5. To prevent a side channel, both calls give the true value only to a user who owns the file or can write to
it; for other files the result is None, never 0. The pages of an overlay's files belong to the filesystem below the
overlay: cachestat finds none of them, but mincore maps the file below (fs/overlayfs/file.c, ovl_mmap). ZFS keeps the
data that it reads in a cache of its own, so for ZFS the result is None.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup_paths import parse_cgroups, tightest_memory_limit, unified_folder
from iotop_ai.collectors.machine.dataset_files import tree_of_files
from iotop_ai.collectors.machine.host import effective_capabilities, in_initial_user_namespace
from iotop_ai.collectors.machine.memory import parse_meminfo
from iotop_ai.model.clean import clean
from iotop_ai.model.machine.page_cache import Cached, Levels

CACHESTAT = 451
"""The number of the system call, which is the same on every architecture except alpha."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FILES_PER_PROGRESS = 200
"""The number of files after which ``measure_cached`` reports its progress."""
_WINDOW = 1 << 30
"""The most bytes that are mapped at once for mincore."""
_PROT_READ, _MAP_SHARED = 1, 1
_OVERLAY, _ZFS, _TMPFS, _RAMFS = 0x794C7630, 0x2FC12FC1, 0x01021994, 0x858458F6
"""The magic numbers of these filesystems, from include/uapi/linux/magic.h and OpenZFS (ZFS_SUPER_MAGIC)."""
_CAP_FOWNER = 3
_MAP_FAILED = ctypes.c_void_p(-1).value


class _Range(ctypes.Structure):
    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _CacheStat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


class Resident(NamedTuple):
    """How much of a file is in the page cache. dirty_bytes: the bytes not yet written to disk; None from mincore."""

    bytes: int
    dirty_bytes: int | None


class PageCache:
    """Asks the kernel how much of an open file is in the page cache.

    how: the system call, "cachestat" or "mincore", or "auto" until the first file has shown which of them works.
    """

    def __init__(self, how: str = "auto") -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = (
            *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64),
        )
        self._libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self._libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
        self.how = how

    def resident(self, handle: int) -> Resident | None:
        """Return how much of a file is in the page cache; None when it is unknown. Raises OSError."""
        status = os.fstat(handle)
        kind = _filesystem(handle)
        if kind == _ZFS:
            return None
        if self.how != "mincore" and kind != _OVERLAY:
            answer = _CacheStat()
            if not self._libc.syscall(CACHESTAT, handle, ctypes.byref(_Range(0, 0)), ctypes.byref(answer), 0):
                self.how = "cachestat"
                file_pages = -(-status.st_size // PAGE_BYTES)
                return Resident(
                    min(min(answer.cache, file_pages) * PAGE_BYTES, status.st_size),
                    (answer.dirty + answer.writeback) * PAGE_BYTES,
                )
            error_number = ctypes.get_errno()
            if error_number == errno.EPERM and self.how == "cachestat":
                return None
            if error_number not in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP):
                raise OSError(error_number, os.strerror(error_number))
            if error_number == errno.ENOSYS:
                self.how = "mincore"
        # Without this check, mincore would report files of other users as completely in memory.
        if os.geteuid() != status.st_uid and not _writable(handle) and not _owns_every_file():
            return None
        return Resident(min(self._mincore(handle, status.st_size), status.st_size), None)

    def _mincore(self, handle: int, size: int) -> int:
        pages = 0
        for start in range(0, size, _WINDOW):
            length = min(_WINDOW, size - start)
            address = self._libc.mmap(None, length, _PROT_READ, _MAP_SHARED, handle, start)
            if address in (None, _MAP_FAILED):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            try:
                table = ctypes.create_string_buffer(-(-length // PAGE_BYTES))
                if self._libc.mincore(address, length, table):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            finally:
                self._libc.munmap(address, length)
            raw = table.raw
            # Only the lowest bit of each byte is defined.
            pages += len(raw) - raw.count(b"\0") if raw.strip(b"\0\1") == b"" else sum(byte & 1 for byte in raw)
        return pages * PAGE_BYTES


def measure_cached(top: str, cache: PageCache, on_progress: Callable[[Cached], None] = lambda _: None) -> Cached:
    """Return how much of the files below ``top``, or of the file ``top``, is in the page cache. Raises OSError.

    on_progress: called after every FILES_PER_PROGRESS files with the result so far.
    """
    tree = tree_of_files(top)
    files = size = resident = unknown = unknown_bytes = 0
    seen: set[tuple[int, int]] = set()

    def so_far() -> Cached:
        return Cached(
            clean(tree.top), files, size, resident, unknown, unknown_bytes,
            tree.unreadable, clean(tree.first_unreadable), tree.elsewhere,
        )  # fmt: skip

    for entry in tree:
        if not entry.regular or seen_before(seen, entry.stat):
            continue
        files += 1
        size += entry.stat.st_size
        try:
            in_memory = _read_resident(entry.open(), cache) if entry.stat.st_size else Resident(0, 0)
        except OSError as error:
            tree.count_unreadable(entry.path, error)
            in_memory = None
        if in_memory is None:
            unknown += 1
            unknown_bytes += entry.stat.st_size
        else:
            resident += in_memory.bytes
        if files % FILES_PER_PROGRESS == 0:
            on_progress(so_far())
    return so_far()


def is_in_memory(handle: int) -> bool:
    """Whether the filesystem of an open file or folder keeps its files in memory (tmpfs, ramfs)."""
    return _filesystem(handle) in (_TMPFS, _RAMFS)


def _filesystem(handle: int) -> int:
    """Return the magic number of the file's filesystem, which is the first field of statfs; 0 when unknown."""
    answer = (ctypes.c_long * 32)()
    return answer[0] if not ctypes.CDLL(None).fstatfs(handle, ctypes.byref(answer)) else 0


def _writable(handle: int) -> bool:
    return os.access(f"/proc/self/fd/{handle}", os.W_OK, effective_ids=True)


@cache
def _owns_every_file() -> bool:
    """Whether the kernel treats us as the owner of every file: with CAP_FOWNER in the initial user namespace.

    In another user namespace, the capability counts only for the users of that namespace. Source: fs/inode.c,
    inode_owner_or_capable.
    """
    root = Root()
    return in_initial_user_namespace(root) and bool(effective_capabilities(root) >> _CAP_FOWNER & 1)


def _read_resident(handle: int, cache: PageCache) -> Resident | None:
    try:
        return cache.resident(handle)
    finally:
        os.close(handle)


def seen_before(seen: set[tuple[int, int]], status: os.stat_result) -> bool:
    """Whether this file was already seen under another name. Only files with several names are added to ``seen``."""
    if status.st_nlink < 2:
        return False
    key = status.st_dev, status.st_ino
    if key in seen:
        return True
    seen.add(key)
    return False


def read_levels(root: Root) -> Levels:
    """Read the levels in /proc/meminfo. Raises OSError."""
    sizes = parse_meminfo(root.read("proc/meminfo"))
    names = (b"Cached", b"SReclaimable", b"MemFree", b"MemAvailable", b"Dirty", b"MemTotal")
    return Levels(*(sizes.get(name) for name in names))


def read_memory_room(root: Root) -> int | None:
    """Return the bytes that the memory limits of our own cgroup and of the cgroups above it leave for data.

    None without a limit, and when our cgroup is unknown. The page cache and tmpfs count as used, except for the part of
    the page cache that can be reclaimed.
    """
    try:
        groups = parse_cgroups(root.read("proc/self/cgroup"))
    except OSError:
        return None
    limit = tightest_memory_limit(root, groups, unified_folder(root))
    return None if limit is None else limit.room_bytes


def room_for_data(memory: Levels, cgroup_room_bytes: int | None) -> int | None:
    """Return how many bytes of files fit into memory beside the programs' own memory; None when it is unknown.

    This is MemAvailable, which counts files in the page cache as available, or the room in our cgroups if that is less.
    cgroup_room_bytes: the result of ``read_memory_room``.
    """
    available = memory.available_bytes
    return available if available is None or cgroup_room_bytes is None else min(available, cgroup_room_bytes)
