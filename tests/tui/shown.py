"""Runs the real app on made-up Frames, and reads the text on its screen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.view import View
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.messages import FrameReady


@asynccontextmanager
async def showing(
    shown: Sequence[Frame], size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[MonitorApp, Pilot[None]]]:
    """Run the app. It starts with the first Frame, and then shows the last one, whose history contains the others."""
    app = MonitorApp(shown[0], (), MemoryRecording(), View(), "dark")
    async with app.run_test(size=size) as pilot:
        if len(shown) > 1:
            app.post_message(FrameReady(shown[-1]))
            await pilot.pause()
        yield app, pilot


def text(app: MonitorApp) -> str:
    """The text on the screen, as the compositor has it."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def follows_and_pauses(app: MonitorApp, pilot: Pilot[None], first: Frame, second: Frame) -> None:
    """Check that the screen in front shows new Frames, does not change while paused, and accepts a longer interval."""
    before = text(app)
    app.post_message(FrameReady(first))
    await pilot.pause()
    assert text(app) != before
    await pilot.press("space")
    await pilot.pause()
    assert "PAUSED" in text(app)
    held = text(app)
    app.post_message(FrameReady(second))
    await pilot.pause()
    assert text(app) == held
    await pilot.press("space", "plus")
    await pilot.pause()
    assert "PAUSED" not in text(app)
    assert app.main.view.interval_s == 2.0
