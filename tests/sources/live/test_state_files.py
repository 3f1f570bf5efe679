"""A state folder that cannot be read at first, and changes that this or another program makes in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.state.acknowledged import Acknowledged
from iotop_ai.model.reading import Status
from iotop_ai.sources.live.state_files import READ_EVERY_NS, StateFiles
from tests.rigs.descriptors import too_many_open_files
from tests.waiting import until


def test_a_folder_that_cannot_be_read_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Acknowledged(tmp_path).add("failing_disk:S1", "critical", 100)
    monkeypatch.delitem(sys.modules, "iotop_ai.store.baselines", raising=False)  # as in a program that has just started
    files = StateFiles(str(tmp_path), Clock(), baselines=True)
    with too_many_open_files():
        files.start_read(0, 0)
        assert files._worker.wait(20)
    baselines = files.baselines(0)
    assert baselines is not None
    assert (baselines.status, baselines.reason) == (Status.FAILED, "baselines.json: Too many open files")
    assert files.changes() == []
    files.start_read(READ_EVERY_NS, 0)
    found: list[tuple[str, str | None]] = []
    until(lambda: found.extend(files.changes()) or found, "the acknowledged finding", 20)
    assert found == [("failing_disk:S1", "critical")]
    files.close()


def test_a_change_by_this_program_is_read_at_the_next_tick(tmp_path: Path) -> None:
    files, ours = StateFiles(str(tmp_path), Clock(), baselines=False), Acknowledged(tmp_path)
    files.start_read(0, 0)
    assert files._worker.wait(20)
    ours.add("failing_disk:S1", "critical", 100)
    files.start_read(10**9, 0)
    assert files._worker.wait(20)
    assert files.changes() == [("failing_disk:S1", "critical")]
    files.close()


def test_a_change_by_another_program_is_read_within_five_ticks(tmp_path: Path) -> None:
    files, theirs = StateFiles(str(tmp_path), Clock(), baselines=False), Acknowledged(tmp_path)
    files.start_read(0, 0)
    assert files._worker.wait(20)
    theirs.add("failing_disk:S1", "critical", 100)
    Acknowledged.writes -= 1
    for second in range(1, 6):
        assert files.changes() == []
        files.start_read(second * 10**9, 0)
        assert files._worker.wait(20)
    assert files.changes() == [("failing_disk:S1", "critical")]
    files.close()
