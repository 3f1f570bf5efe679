"""Reads a dataset's files as a loader reads them: whole, through the page cache, with the kernel's read-ahead.

From a sample of the files, it reads only those that are not in the page cache at all, and evicts them afterwards if it
may, so that the cache stays as it was. If there are too few of these files, it reads the cached files with direct I/O.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.machine.dataset_files import FOLDER, Entry, FileSample, Pinned, Tree, open_below
from iotop_ai.collectors.machine.page_cache import PageCache, seen_before
from iotop_ai.model.preflight.dataset import MOST_BYTES_PER_FILE, Dataset
from iotop_ai.model.preflight.storage import KIB
from iotop_ai.preflight.storage.decode import MOST_BYTES, MOST_FILES, is_image
from iotop_ai.preflight.storage.own_file import stored_bytes

MOST_SAMPLED = 4000
MOST_SCANNED = 500_000
CHUNK = 128 * KIB
"""The size of one read, in bytes. It is small, because decoders read a file piece by piece."""
LEAST_COLD = 16
"""The smallest useful number of files outside the page cache. Fewer reads prove nothing about the disk."""
USES = 3
"""The number of uses of the sample: its images are decoded, one reader reads it, and several readers read it."""
_MOST_RESIDENCY_S = 1.0
"""The longest time, in seconds, in which the sample's files are looked up in the page cache."""


class Scanned(NamedTuple):
    """The dataset and the sample to read. files: the path of each file, and whether it is evicted after a read.

    A path is relative to ``top``; it begins with "/" if a link leads out of ``top``. linked_images: the paths of
    files that are reached by a link with an image's name.
    """

    dataset: Dataset
    top: Pinned
    files: tuple[tuple[str, bool], ...]
    linked_images: frozenset[str] = frozenset()

    @property
    def read_once(self) -> bool:
        """Whether each file may be read only once. Without eviction, a second read would come from memory."""
        return not self.dataset.past and not all(evict for _, evict in self.files)

    def part(self, number: int) -> tuple[tuple[str, bool], ...]:
        """Return the files for one of the USES. number: the number of the use.

        If each file may be read only once, each use gets a third of them; else all files, beginning with that third.
        """
        begin, end = (at * len(self.files) // USES for at in (number, number + 1))
        return self.files[begin:end] if self.read_once else self.files[begin:] + self.files[:begin]


def scan(path: str, seconds: float, clock: Clock, show: Callable[[int, int], None]) -> Scanned:
    """Return the dataset and a sample of its files. Raises OSError.

    The files are listed for ``seconds`` or, if that takes longer, until the first one is found; at most MOST_SCANNED of
    them. The caller closes ``top`` of the result. show: called with the number of files and of bytes so far, also while
    a large folder is listed.
    """
    absolute = os.path.realpath(path)
    if os.path.isdir(absolute):
        top = Pinned(os.open(absolute, FOLDER), ".", absolute)
    else:
        top = Pinned(os.open(os.path.dirname(absolute), FOLDER), os.path.basename(absolute), absolute)
    end_ns = clock.monotonic_ns() + int(seconds * 1e9)
    sample, sizes, size_bytes = FileSample(MOST_SAMPLED), list[int](), 0
    tree = Tree(top, lambda: show(len(sizes), size_bytes))
    links = _Links(absolute)
    seen: set[tuple[int, int]] = set()
    in_time = True
    for entry in tree:
        show(len(sizes), size_bytes)
        name, status = entry.path, entry.stat
        if stat.S_ISLNK(status.st_mode):
            try:
                name, status = links.follow(entry)
            except OSError as error:
                tree.count_unreadable(name, error)
        if stat.S_ISREG(status.st_mode) and status.st_size and not seen_before(seen, status):
            sizes.append(status.st_size)
            sample.take(name, status.st_size)
            size_bytes += status.st_size
        if sizes and (clock.monotonic_ns() > end_ns or len(sizes) >= MOST_SCANNED):
            in_time = False
            break
    ordered = sorted(sizes) or [0]
    p10, p50, p90 = (ordered[-(-percent * len(ordered) // 100) - 1] for percent in (10, 50, 90))
    complete = in_time and not (tree.elsewhere or links.folders)
    dataset = Dataset(len(sizes), size_bytes, complete, p10, p50, p90, ordered[-1])
    dataset = dataset._replace(read_bytes=sum(min(size, MOST_BYTES_PER_FILE) for size in sizes))
    dataset = dataset._replace(unreadable=tree.unreadable, elsewhere=tree.elsewhere, linked_folders=links.folders)
    return _with_residency(dataset, top, sample.files, clock)._replace(linked_images=frozenset(links.images))


class _Links:
    """Follows the links of a dataset to regular files outside of it, and returns each such file once.

    folders: the number of links to folders, which are left out. images: the paths of files whose link has an image's
    name.
    """

    def __init__(self, top: str) -> None:
        self._inside = f"{top.rstrip('/')}/"
        self._seen: set[str] = set()
        self.folders = 0
        self.images: set[str] = set()

    def follow(self, link: Entry) -> tuple[str, os.stat_result]:
        """Return the file's path from "/" and its stat, or the link's path and stat if the link adds no file.

        A link adds no file if its target is in the dataset, has already been counted or is not a regular file. Raises
        OSError. Whoever can write to a folder may put any link there. If a user other than root can write to it, root
        follows the link only to a file of the folder's owner, who must not be root.
        """
        handle = os.open(link.name, os.O_PATH | os.O_CLOEXEC, dir_fd=link.folder)
        try:
            status, folder_status = os.fstat(handle), os.fstat(link.folder)
            path = os.readlink(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
        only_root_writes = folder_status.st_uid == 0 and not folder_status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if os.geteuid() == 0 and not only_root_writes and not folder_status.st_uid == status.st_uid != 0:
            raise PermissionError(errno.EPERM, "another user's link, which root does not follow")
        self.folders += stat.S_ISDIR(status.st_mode)
        if path in self._seen or path.startswith(self._inside) or not stat.S_ISREG(status.st_mode):
            return link.path, link.stat
        self._seen.add(path)
        if is_image(link.name):
            self.images.add(path)
        return path, status


def _open(top: Pinned, path: str, *, direct: bool = False) -> tuple[int, bool]:
    """Open a file of the sample and return what ``open_below`` returns. The path may begin with "/"."""
    if not path.startswith("/"):
        return open_below(top, path, direct=direct)
    root = os.open("/", FOLDER)
    try:
        return open_below(Pinned(root, ".", "/"), path[1:], direct=direct)
    finally:
        os.close(root)


def _with_residency(dataset: Dataset, top: Pinned, paths: Sequence[tuple[str, int]], clock: Clock) -> Scanned:
    """Return the dataset with the bytes of its sample that are in the page cache, and the files to read.

    paths: the path and the size of each file of the sample.
    """
    cache, end_ns = PageCache(), clock.monotonic_ns() + int(_MOST_RESIDENCY_S * 1e9)
    resident = known = sampled = holes = 0
    cold: list[tuple[str, bool]] = []
    warm: list[tuple[str, bool]] = []
    for path, size in paths:
        if clock.monotonic_ns() > end_ns:
            break
        try:
            handle, _ = _open(top, path)
            try:
                residency = cache.resident(handle)
                is_whole = stored_bytes(handle) >= min(size, MOST_BYTES_PER_FILE)
            finally:
                os.close(handle)
        except OSError:
            continue
        if not is_whole:
            holes += 1
            continue
        sampled += 1
        if residency is None:  # this user cannot see whether it is cached, and another user may need it in the cache
            cold.append((path, False))
            continue
        known += size
        resident += residency.bytes
        (warm if residency.bytes else cold).append((path, not residency.bytes))
    past = len(cold) < min(LEAST_COLD, sampled)  # whether the cached files are read, with direct I/O
    dataset = dataset._replace(
        sampled=sampled, resident_bytes=resident, known_bytes=known, cold=len(cold), past=past, holes=holes
    )
    return Scanned(dataset, top, tuple(warm if past else cold))


class Files:
    """Reads whole files, but only the first MOST_BYTES_PER_FILE bytes of a larger file.

    readers: the number of readers, at most the number of files, so that no two readers share a file.
    """

    def __init__(self, scanned: Scanned, files: Sequence[tuple[str, bool]], readers: int) -> None:
        self._top, self._files, self._past = scanned.top, files, scanned.dataset.past
        self._readers = readers

    def pieces(self, buffer: mmap.mmap, number: int) -> Generator[tuple[int, int], None, None]:
        """Read the reader's next file; yield the bytes of each read and the bytes left.

        A file that is gone or empty yields nothing.

        number: the operation's number, as in Operation. If the caller closes the generator early, the rest of the file
        is not read.
        """
        files_before, reader = divmod(number, self._readers)  # the files that this reader has read before
        own_count = -(-(len(self._files) - reader) // self._readers)
        path, evict = self._files[reader + self._readers * (files_before % own_count)]
        try:
            handle, _ = _open(self._top, path, direct=self._past)
        except FileNotFoundError:  # removed since the scan
            return
        try:
            offset, size = 0, min(os.fstat(handle).st_size, MOST_BYTES_PER_FILE)
            while offset < MOST_BYTES_PER_FILE:
                length = os.preadv(handle, [buffer], offset)
                offset += length
                if length:
                    yield length, max(0, size - offset)
                if length < len(buffer):
                    break
        finally:
            if evict:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def read_images(scanned: Scanned, proceed: Callable[[], bool]) -> list[bytes]:
    """Return the content of some images of the sample. proceed: called before each read; False ends the reading."""
    out: list[bytes] = []
    for path, evict in scanned.part(0):
        if len(out) >= MOST_FILES or sum(map(len, out)) >= MOST_BYTES or not proceed():
            break
        if not (is_image(path) or path in scanned.linked_images):
            continue
        try:
            handle, _ = _open(scanned.top, path)
        except OSError:
            continue
        with os.fdopen(handle, "rb", buffering=0) as file:
            parts: list[bytes] = []
            while len(parts) < MOST_BYTES // CHUNK and proceed() and (part := file.read(CHUNK)):
                parts.append(part)
            out.append(b"".join(parts))
            if evict:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    return out
