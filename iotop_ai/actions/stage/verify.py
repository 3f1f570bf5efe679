"""Compares a copy with its original: the size of every file, every link, and the content of all files or a sample.

The content of the copy is read from the disk. The original may be read from the page cache. A file of the copy whose
content differs gets another modification time, so that it no longer counts as copied.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Sequence

from iotop_ai.actions.stage.ends import Ends
from iotop_ai.actions.stage.target import Target
from iotop_ai.collectors.machine.dataset_files import Entry, Tree
from iotop_ai.model.clean import clean
from iotop_ai.model.machine.staging import Verified

CHUNK = 4 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_REGULAR = "not a regular file"


def verify(
    ends: Ends, sample: Sequence[tuple[str, int]] | None, on_bytes: Callable[[int], None] = lambda _: None
) -> Verified:
    """Compare the copy with its original. sample: the files whose content is compared; None for all files.

    on_bytes: called with the number of bytes compared so far, which include files that could not be read.

    A file or link that cannot be read, in the original or in the copy, counts as wrong. Raises OSError when the source
    is missing, and InputError for an untrusted folder of the target.
    """
    sampled = None if sample is None else {path for path, _ in sample}
    files = links = checked = checked_bytes = wrong = 0
    first_wrong = ""
    tree = Tree(ends.pinned)
    with Target(ends, change=False) as target:
        if ends.pinned.name == ".":
            target.enter("", os.fstat(ends.pinned.folder))
        for entry in tree:
            if entry.is_folder:
                target.enter(entry.path, entry.stat)
            if not (entry.regular or entry.is_link):
                continue
            files += entry.regular
            links += entry.is_link
            is_content_compared = entry.regular and (sampled is None or entry.path in sampled)
            folder, name = target.place(entry.path)
            try:
                if entry.is_link:
                    why = _compare_link(entry, folder.handle, name)
                else:
                    why = _compare(entry, folder.handle, name, is_content_compared)
            except OSError as error:
                why = error.strerror or "cannot be read"
            if is_content_compared:
                checked += 1
                checked_bytes += entry.stat.st_size
                on_bytes(checked_bytes)
            if why:
                wrong += 1
                first_wrong = first_wrong or f"{clean(entry.path or ends.name)}: {why}"
    if tree.unreadable:
        wrong += tree.unreadable
        first_wrong = first_wrong or clean(tree.first_unreadable)
    return Verified(files, checked, checked_bytes, wrong, first_wrong, links)


def _compare_link(entry: Entry, folder: int, name: str) -> str:
    """Return how a link of the copy differs from its original; "" if it does not."""
    original_target = entry.read_link()
    if folder < 0:
        return os.strerror(errno.ENOENT)
    try:
        copy_target = os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return "not a link"
        raise
    if copy_target == original_target:
        return ""
    return f"a link to {clean(copy_target)} instead of {clean(original_target)}"


def _compare(entry: Entry, folder: int, name: str, content: bool) -> str:
    """Return how a copy differs from its original; "" if it does not. content: whether to compare the content too."""
    if folder < 0:
        return os.strerror(errno.ENOENT)
    try:
        copy_fd = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return _NOT_REGULAR
        raise
    try:
        status = os.fstat(copy_fd)
        if not stat.S_ISREG(status.st_mode):
            return _NOT_REGULAR
        if status.st_size != entry.stat.st_size:
            return f"{status.st_size} bytes instead of {entry.stat.st_size}"
        if not content:
            return ""
        # The copy is evicted, because cached pages prove nothing about the disk.
        os.posix_fadvise(copy_fd, 0, 0, os.POSIX_FADV_DONTNEED)
        source = entry.open()
        try:
            if _digest(source, status.st_size) == _digest(copy_fd, status.st_size):
                return ""
        finally:
            os.close(source)
        return f"different content{_change_mtime(copy_fd, status)}"
    finally:
        os.close(copy_fd)


def _change_mtime(copy_fd: int, status: os.stat_result) -> str:
    """Set the copy's modification time to now, because the next run would skip a file with the original's time.

    Returns what the user can do, as the end of a message; "" if the time stays. A file with a second name (a hard link)
    keeps its time, because that name may be outside the copy.
    """
    if status.st_nlink == 1:
        with contextlib.suppress(OSError):
            os.utime(copy_fd)
            return "; --update copies it again"
    return ""


def _digest(handle: int, size: int) -> bytes:
    """Return a digest of the first size + 1 bytes: one byte more shows that the file has grown."""
    digest = hashlib.blake2b(digest_size=20)
    left = size + 1
    while left and (block := os.read(handle, min(CHUNK, left))):
        digest.update(block)
        left -= len(block)
    return digest.digest()
