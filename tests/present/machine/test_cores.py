"""The rows of the CPU's cores."""

from __future__ import annotations

import pytest

from iotop_ai.present.machine.cores import core_rows
from iotop_ai.present.screen.view import View
from tests.present.make import Machine, frame, snapshots


@pytest.mark.parametrize("height", [2, 3])
def test_the_busiest_cores_have_a_row_and_the_others_are_counted(height: int) -> None:
    made = frame(snapshots(lambda _: Machine(cores=64, busy_cores=9.0), 3))
    title, first, *last = [line.text.rstrip() for line in core_rows(made, View(), 80, height)]
    assert first.split()[::3] == ["0", "1", "2", "3", "4"]
    assert title.endswith(" 59 more, less busy  busy% ──") == (height == 2)
    assert last == ([] if height == 2 else [" 59 more, less busy"])
