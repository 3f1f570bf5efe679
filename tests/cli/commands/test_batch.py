from __future__ import annotations

import pytest

from iotop_ai.cli.commands.batch import print_blocks
from iotop_ai.cli.commands.trend import watch
from iotop_ai.export.text.trend import Trend
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.settings import Settings
from iotop_ai.store.source import MemoryRecording
from tests.export.make import pair


def test_the_first_snapshot_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_blocks(MemoryRecording(pair()), Settings()) == 0
    assert capsys.readouterr().out.count("verdict ") == 1
    assert print_blocks(MemoryRecording(pair()[:1]), Settings()) == 0
    assert capsys.readouterr().out == ""


def test_accumulated_counts_from_the_first_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    print_blocks(MemoryRecording(pair()), Settings(accumulated=True), count=1)
    titles = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Device")).split()
    assert titles[1:3] == ["r", "rkB"]


def test_a_source_that_ends_too_early_gives_no_trend() -> None:
    with pytest.raises(UnknownError, match="before the first interval"):
        watch(MemoryRecording(pair()[:1]), Trend(), 3)
    assert len(watch(MemoryRecording(pair()), Trend(), 3)) == 1
