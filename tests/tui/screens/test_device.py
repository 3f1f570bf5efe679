"""The screen of a device in the real app: it opens, follows, leads to the health, closes; also in a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.pipeline import frames
from iotop_ai.present.screen.view import View
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.screens.device import DeviceScreen
from iotop_ai.tui.screens.health import HealthScreen
from iotop_ai.tui.screens.help import HelpScreen
from tests.present.make import MIB, Disk, Machine, disk, snapshots
from tests.tui.recorded import record, stalling
from tests.tui.scene import made_frames, starved_frames
from tests.tui.screens.test_health import Own
from tests.tui.screens.test_replay import replaying
from tests.tui.shown import follows_and_pauses, showing, text


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_enter_on_a_disk_opens_its_screen_and_escape_goes_back(size: tuple[int, int]) -> None:
    async with showing(starved_frames(), size) as (app, pilot):
        while app.main.view.focus != "disk":
            await pilot.press("tab")
        await pilot.press("down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, DeviceScreen)
        first = app.screen.device
        assert app.main.view.cursor == f"disk:{first}"
        assert "r_await" in text(app)
        assert "Esc:back" in text(app).splitlines()[-1]
        await pilot.press("n")
        assert app.screen.device != first
        await pilot.press("b")
        assert app.screen.device == first
        await pilot.press("left", "right", "escape", "escape")
        await pilot.pause()
        assert app.screen is app.main
        assert app.is_running


async def test_without_a_cursor_the_selected_device_is_opened() -> None:
    async with showing(made_frames(4)) as (app, pilot):
        await pilot.press("n")
        chosen = app.main.view.device
        while app.main.view.focus != "disk":
            await pilot.press("tab")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, DeviceScreen)
        assert app.screen.device == chosen


async def test_the_screen_follows_and_pauses_and_shows_help_and_health() -> None:
    made = starved_frames()
    async with showing(made[:15]) as (app, pilot):
        while app.main.view.focus != "disk":
            await pilot.press("tab")
        await pilot.press("enter")
        await pilot.pause()
        await follows_and_pauses(app, pilot, made[17], made[19])
        assert "done: every 2 s" in text(app)
        for key, kind in (("question_mark", HelpScreen), ("h", HealthScreen)):
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, kind)
            await pilot.press("escape")
            await pilot.pause()
            assert isinstance(app.screen, DeviceScreen)


async def test_a_click_on_a_row_of_the_stack_shows_that_device() -> None:
    async with showing(starved_frames()) as (app, pilot):
        while app.main.view.focus != "disk":
            await pilot.press("tab")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, DeviceScreen)
        y = next(i for i, line in enumerate(text(app).splitlines()) if line.startswith("  sda1 "))
        await pilot.click(offset=(4, y))
        await pilot.pause()
        assert app.screen.device == "sda1"


async def test_in_a_replay_the_screen_moves_through_the_recording(tmp_path: Path) -> None:
    async with replaying(record(tmp_path / "a.iotop.jsonl", stalling(20, (5, 15)))) as replay:
        await replay.press("tab")
        while replay.view.focus != "disk":
            await replay.press("tab")
        await replay.press("enter")
        assert isinstance(replay.app.screen, DeviceScreen)
        await replay.until(lambda: "REPLAY" in replay.screen())
        before = replay.shown.snapshot.seq
        await replay.press("right_square_bracket", "right_square_bracket")
        await replay.until(lambda: replay.shown.snapshot.seq == before + 2)
        await replay.press("left_square_bracket")
        await replay.until(lambda: replay.shown.snapshot.seq == before + 1)
        await replay.press("escape")
        assert replay.app.screen is replay.app.main


async def test_the_keys_tab_and_l_change_the_page() -> None:
    async with showing(starved_frames(), (80, 24)) as (app, pilot):
        while app.main.view.focus != "disk":
            await pilot.press("tab")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, DeviceScreen)
        await pilot.press("tab", "l")
        assert app.screen.page == ("latency", True)
        assert " log " in text(app)
        await pilot.press("tab")
        assert "── process" in text(app)
        await pilot.press("shift+tab", "shift+tab", "shift+tab", "l")
        assert app.screen.page == ("facts", False)
        assert "── settings" in text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


async def test_the_screen_of_a_removed_disk_reports_its_removal() -> None:
    disks = tuple(Disk(disk(name), reads=50, read_bytes=MIB, read_await=1.0, busy=0.1) for name in ("sda", "sdb"))
    made = list(frames(snapshots(lambda second: Machine(disks[: 1 if second > 3 else 2]), 6)))
    view = View(utc_offset_s=0, device="sdb", focus="disk")
    app = MonitorApp(made[2], (), Own(), view, "dark")
    async with app.run_test(size=(80, 24)) as pilot:
        app.main.panels["disk"].focus()
        await pilot.press("enter")
        await pilot.pause()
        assert "sdb is no longer present" not in text(app)
        app.post_message(FrameReady(made[5]))
        await pilot.pause()
        assert "sdb is no longer present" in text(app)
        assert "sda" not in text(app)
        await pilot.press("m")
        await pilot.pause()
        assert isinstance(app.screen, DeviceScreen)
        assert "sdb is not present, so it cannot be checked" in text(app)
        app.post_message(FrameReady(made[2]))  # the disk is plugged in again
        await pilot.pause()
        assert "is no longer present" not in text(app)
        app.post_message(FrameReady(made[5]))
        await pilot.press("n")
        await pilot.pause()
        assert app.screen.device == "sda"


async def test_without_a_disk_the_key_h_says_so_and_then_opens_the_disk_that_appears() -> None:
    sda = Disk(disk("sda"), reads=50, read_bytes=MIB, read_await=1.0, busy=0.1)
    made = list(frames(snapshots(lambda second: Machine((sda,) if second > 3 else ()), 6)))
    app = MonitorApp(made[2], (), Own(), View(utc_offset_s=0, focus="disk"), "dark")
    async with app.run_test(size=(80, 24)) as pilot:
        app.main.panels["disk"].focus()
        await pilot.press("enter", "h")
        await pilot.pause()
        assert isinstance(app.screen, DeviceScreen)
        assert "no health data: no disk is seen" in text(app)
        app.post_message(FrameReady(made[5]))
        await pilot.pause()
        await pilot.press("h")
        await pilot.pause()
        assert isinstance(app.screen, HealthScreen)
        assert app.screen.health.disk == "sda"
