"""Evicts one dataset from the page cache, without root. No other data is evicted.

posix_fadvise(2) with POSIX_FADV_DONTNEED drops the clean pages of a file, except pages that are mapped or locked. So
the dirty pages are first written to the disk. The first dirty file causes a sync of the whole filesystem, because a
sync of each small file would wait for the disk each time.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.cache.sync import sync_filesystem_of, write_out
from iotop_ai.actions.outcome import Outcome, audited
from iotop_ai.collectors.machine.dataset_files import tree_of_files
from iotop_ai.collectors.machine.page_cache import PageCache, seen_before
from iotop_ai.model.clean import clean
from iotop_ai.model.machine.page_cache import Evicted

FILES_PER_PROGRESS = 200


def evict(
    top: str, audit: Audit, cache: PageCache, on_progress: Callable[[Evicted], None] = lambda _: None
) -> tuple[Outcome, Evicted | None]:
    """Evict every regular file below ``top``, or ``top`` itself if it is a file.

    Returns the outcome, and the figures: None if ``top`` cannot be read or the action cannot be logged.

    on_progress: called with the figures so far, every FILES_PER_PROGRESS files.
    """
    results: list[Evicted] = []

    def act() -> Outcome:
        try:
            figures = _evict(top, cache, on_progress)
        except OSError as error:
            return Outcome(False, f"not done: {clean(top)}: {error.strerror}")
        results.append(figures)
        return Outcome(bool(figures.files), f"{figures.files} files evicted{_effect_text(figures)}")

    outcome = audited(audit, "evict", clean(top), act)
    return outcome, results[0] if results else None


def _effect_text(figures: Evicted) -> str:
    if not figures.files:
        count, first = figures.unreadable, figures.first_unreadable
        return f"; {count} could not be read, the first: {first}" if count else ""
    if figures.unknown_files == figures.files:
        return "; how much of them was in the page cache is unknown"
    unknown = f"; unknown for {figures.unknown_files} of them" if figures.unknown_files else ""
    return f": {figures.before_bytes} -> {figures.after_bytes} B in memory{unknown}"


def _evict(top: str, cache: PageCache, on_progress: Callable[[Evicted], None]) -> Evicted:
    tree = tree_of_files(top)
    figures = Evicted(clean(tree.top))
    counted: set[tuple[int, int]] = set()
    synced = False

    def sync_once(handle: int) -> None:
        nonlocal synced
        if not synced:
            synced = True  # also if the sync fails: each file is written out by itself too
            sync_filesystem_of(handle)

    for entry in tree:
        if not entry.regular or not entry.stat.st_size or seen_before(counted, entry.stat):
            continue
        try:
            before, after = _evict_file(entry.open(), cache, sync_once)
        except OSError as error:
            tree.count_unreadable(entry.path, error)
            continue
        figures = figures._replace(files=figures.files + 1, size_bytes=figures.size_bytes + entry.stat.st_size)
        if before is None or after is None:
            figures = figures._replace(unknown_files=figures.unknown_files + 1)
        else:
            figures = figures._replace(
                before_bytes=figures.before_bytes + before, after_bytes=figures.after_bytes + after
            )
        if figures.files % FILES_PER_PROGRESS == 0:
            on_progress(figures)
    return figures._replace(
        unreadable=tree.unreadable, first_unreadable=clean(tree.first_unreadable), elsewhere=tree.elsewhere
    )


def _evict_file(handle: int, cache: PageCache, sync_once: Callable[[int], None]) -> tuple[int | None, int | None]:
    """Evict one file and close it; return its bytes in memory before and after, None if they are unknown.

    sync_once: called with the descriptor of a dirty file; syncs the filesystem unless an earlier file has already
    caused a sync. Raises OSError.
    """
    try:
        before = cache.resident(handle)
        # mincore does not report dirty pages. If only mincore is available, the file is written out in any case.
        if before is None or before.dirty_bytes is None or before.dirty_bytes:
            sync_once(handle)
            write_out(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        after = cache.resident(handle)
        return None if before is None else before.bytes, None if after is None else after.bytes
    finally:
        os.close(handle)
