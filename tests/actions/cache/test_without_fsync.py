"""Eviction on a filesystem that supports no fsync."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.cache.evict import evict
from iotop_ai.actions.cache.sync import write_out
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.machine.page_cache import PageCache
from tests.actions.squashfs import FILE_BYTES, squashfs, why_no_squashfs


@pytest.mark.skipif(bool(why_no_squashfs()), reason=why_no_squashfs() or "available")
def test_a_dataset_on_squashfs_is_evicted(tmp_path: Path) -> None:
    """mincore does not report dirty pages, so every file is written out before its eviction."""
    with squashfs(tmp_path) as place:
        for path in place.iterdir():
            path.read_bytes()
        outcome, figures = evict(str(place), Audit(Clock(), tmp_path / "state"), PageCache("mincore"))
    assert outcome.done
    assert figures is not None
    assert (figures.files, figures.unreadable, figures.first_unreadable) == (3, 0, "")
    assert figures.before_bytes == 3 * FILE_BYTES
    assert figures.after_bytes == 0


def test_a_failed_write_is_an_error() -> None:
    out, into = os.pipe()
    os.close(out)
    write_out(into)  # a pipe has no dirty pages
    os.close(into)
    with pytest.raises(OSError, match="Bad file descriptor"):
        write_out(into)
