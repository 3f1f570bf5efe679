"""The screen of a GPU in the real app: it opens, follows and closes."""

from __future__ import annotations

import pytest

from iotop_ai.pipeline import frames
from iotop_ai.present.screen.view import View
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.screens.gpu import GpuScreen
from iotop_ai.tui.screens.help import HelpScreen
from tests.present.gpu_scenes import eight_snapshots
from tests.present.make import Machine, frame, gpu, snapshots
from tests.tui.scene import made_frames
from tests.tui.screens.test_health import Own
from tests.tui.shown import follows_and_pauses, showing, text


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_the_key_g_opens_the_screen_and_escape_goes_back(size: tuple[int, int]) -> None:
    async with showing(list(frames(eight_snapshots(4))), size) as (app, pilot):
        await pilot.press("g")
        await pilot.pause()
        assert isinstance(app.screen, GpuScreen)
        assert "GPU 0" in text(app)
        assert "b/n:GPU" in text(app)
        await pilot.press("n", "right", "n")
        assert "GPU 3" in text(app)
        await pilot.press("b", "left")
        assert "GPU 1" in text(app)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert app.screen is app.main
        assert app.is_running


async def test_enter_opens_the_gpu_under_the_cursor() -> None:
    async with showing(list(frames(eight_snapshots(4)))) as (app, pilot):
        while app.main.view.focus != "gpu":
            await pilot.press("tab")
        await pilot.press("down", "down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, GpuScreen)
        assert app.screen.uuid == app.main.view.cursor.removeprefix("gpu:")
        assert app.screen.uuid != "GPU-0000"


async def test_the_screen_follows_the_source_and_pauses() -> None:
    made = list(frames(eight_snapshots(8)))
    async with showing(made[:4]) as (app, pilot):
        await pilot.press("g")
        await follows_and_pauses(app, pilot, made[5], made[7])
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("x")
        await pilot.pause()
        assert isinstance(app.screen, GpuScreen)


async def test_without_a_gpu_the_key_g_reports_its_absence() -> None:
    async with showing(made_frames(3)) as (app, pilot):
        await pilot.press("g")
        await pilot.pause()
        assert app.screen is app.main
        assert "no GPU here" in text(app)


async def test_the_screen_of_a_removed_gpu_reports_its_removal() -> None:
    made = [frame(snapshots(lambda _second, n=n: Machine(gpus=tuple(gpu(i, 90) for i in range(n))), 3)) for n in (2, 1)]
    app = MonitorApp(made[0], (), Own(), View(utc_offset_s=0), "dark")
    async with app.run_test(size=(80, 30)) as pilot:
        app.main.panels["gpu"].focus()
        await pilot.press("down", "down", "enter")
        await pilot.pause()
        assert "GPU 1 " in text(app)
        app.post_message(FrameReady(made[1]))
        await pilot.pause()
        assert "GPU-0001 is no longer present" in text(app)
        await pilot.press("escape", "enter")
        await pilot.pause()
        assert app.screen is app.main
        assert "GPU-0001 is no longer present" in text(app)
        await pilot.press("up", "enter")
        await pilot.pause()
        assert "GPU 0 " in text(app)
