"""Rows that cannot be seen are not drawn: those below another screen, and new ones while paused."""

from __future__ import annotations

import pytest

from iotop_ai.present.screen.view import View
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from tests.present.make import frame
from tests.present.scenes import starved_snapshots

SIZE = (120, 40)


def painted(app: MonitorApp) -> int:
    return sum(panel.rows_repainted for panel in app.main.panels.values())


@pytest.mark.parametrize(("key", "back"), [("question_mark", "escape"), ("space", "space")])
async def test_no_row_is_painted_until_it_can_be_seen(key: str, back: str) -> None:
    taken = starved_snapshots(12, onset=2)
    frames = [frame(taken[:n]) for n in range(8, 13)]
    app = MonitorApp(frames[0], [], MemoryRecording(), View(), "dark")
    async with app.run_test(size=SIZE) as pilot:
        app.main.live.receive(frames[1])
        await pilot.press(key)
        await pilot.pause()
        before = painted(app)
        for new in frames[2:4]:
            app.main.live.receive(new)
            await pilot.pause()
        assert painted(app) == before
        await pilot.press(back)
        await pilot.pause()
        app.main.live.receive(frames[4])
        assert painted(app) > before
        assert app.main.frame is frames[4]
