"""Compare a copy with its original: the size of every file, the content of all or of a sample, read from the disk."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Sequence

from iotop_ai.actions.stage_plan import below
from iotop_ai.collectors.dataset import Tree
from iotop_ai.model.clean import clean
from iotop_ai.model.stage import Verified

CHUNK = 4 << 20


def verify(
    source: str,
    target: str,
    sample: Sequence[tuple[str, int]] | None,
    tell: Callable[[int], None] = lambda _: None,
) -> Verified:
    """sample: whose content is compared, None for all. tell: bytes compared so far. Raises OSError of the source."""
    chosen = None if sample is None else {path for path, _ in sample}
    files = checked = checked_bytes = wrong = 0
    first = ""
    for entry in Tree(source):
        if not entry.regular:
            continue
        files += 1
        place = below(target, entry.path)
        why = _size(place, entry.stat.st_size)
        if not why and (chosen is None or entry.path in chosen):
            checked += 1
            checked_bytes += entry.stat.st_size
            try:
                there = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                # What is still in memory would prove nothing about the disk.
                os.posix_fadvise(there, 0, 0, os.POSIX_FADV_DONTNEED)
                why = "" if _digest(entry.open()) == _digest(there) else "another content"
            except OSError as error:
                why = error.strerror or "cannot be read"
            tell(checked_bytes)
        if why:
            wrong += 1
            first = first or f"{clean(entry.path or os.path.basename(target))}: {why}"
    return Verified(files, checked, checked_bytes, wrong, first)


def _size(place: str, size: int) -> str:
    try:
        found = os.lstat(place)
    except OSError as error:
        return error.strerror or "cannot be looked at"
    if not stat.S_ISREG(found.st_mode):
        return "no regular file"
    return "" if found.st_size == size else f"{found.st_size} bytes instead of {size}"


def _digest(handle: int) -> bytes:
    try:
        told = hashlib.blake2b(digest_size=20)
        while block := os.read(handle, CHUNK):
            told.update(block)
        return told.digest()
    finally:
        os.close(handle)
