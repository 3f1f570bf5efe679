"""The measured speeds of a source that supports no fsync, and of a source that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.actions.stage.speed import measure
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.machine.dataset_files import Pinned
from iotop_ai.model.machine.staging import Plan, Speed
from iotop_ai.present.machine.staging import speed_text
from tests.actions.squashfs import FILE_BYTES, squashfs, why_no_squashfs


def measured(source: Path, target: Path, names: tuple[str, ...]) -> Speed:
    handles = [os.open(path, os.O_RDONLY) for path in (source, target)]
    try:
        sample = [(name, FILE_BYTES) for name in names]
        return measure(Pinned(handles[0], ".", str(source)), sample, handles[1], None, Clock())
    finally:
        for handle in handles:
            os.close(handle)


@pytest.mark.skipif(bool(why_no_squashfs()), reason=why_no_squashfs() or "available")
def test_a_source_on_squashfs_is_measured(tmp_path: Path) -> None:
    with squashfs(tmp_path) as place:
        speed = measured(place, tmp_path, ("0.bin", "1.bin", "2.bin"))
    assert (speed.sample_files, speed.sample_bytes, speed.direct) == (3, 3 * FILE_BYTES, False)
    assert not speed.too_small
    assert speed.source_read


def test_a_sample_that_cannot_be_read_is_not_called_too_small(tmp_path: Path) -> None:
    speed = measured(tmp_path, tmp_path, ("gone",))
    assert (speed.source_read, speed.too_small) == (None, False)
    assert "? could not measure whether the target is faster" in speed_text(speed, Plan("/a", "/b"))
