"""What the dialog about delay accounting shows to a user who cannot switch it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.actions import kernel_switch
from iotop_ai.collectors.io.root import Root
from iotop_ai.pipeline import frames
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.dialogs.process import DelayScreen
from tests.tui.scene import snapshot
from tests.tui.shown import showing, text


@pytest.mark.parametrize(("on", "value"), [(False, 1), (True, 0)])
async def test_without_sudo_the_remedy_sets_the_opposite_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: bool, value: int
) -> None:
    switch = tmp_path / "proc/sys/kernel/task_delayacct"
    switch.parent.mkdir(parents=True)
    switch.touch()
    shot = snapshot(0)
    table = shot.processes.value
    assert table is not None
    shot = shot._replace(processes=shot.processes._replace(value=table._replace(delayacct=on)))
    async with showing(list(frames(MemoryRecording([shot])))) as (app, pilot):
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
        monkeypatch.setattr(kernel_switch, "find_program", lambda name: "")
        dialog = DelayScreen(app.main._backdrop(), app.main.action_threads)
        dialog._root = Root(str(tmp_path))
        app.push_screen(dialog)
        for _ in range(200):
            await pilot.pause(0.05)
            if "run as root" in text(app):
                break
        assert f"sysctl -w kernel.task_delayacct={value}" in text(app)
