"""The keys about the verdict in the real app: the reasons, the jobs, another job, copying, acknowledging."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from iotop_ai.collectors.state.acknowledged import Acknowledged
from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.view import View
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.clipboard import LARGEST_BYTES, copy_text
from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.screens.jobs import JobsScreen
from iotop_ai.tui.screens.main.verdict_actions import NOTHING_TO_ACKNOWLEDGE
from iotop_ai.tui.screens.reasoning import ReasoningScreen
from iotop_ai.tui.screenshot import screenshot
from iotop_ai.tui.widgets.lines import Wheeled
from tests.diagnosis.build import IDLE, JOB_STARVED, Machine, play
from tests.diagnosis.facts.test_leading_job import FED, two
from tests.diagnosis.host_scenes import HOST_SCENES
from tests.diagnosis.rules.test_block_hung import HANGS, WAITER, WORKS
from tests.diagnosis.verdict.test_acknowledge import ill
from tests.tui.shown import text

SIZES = [(80, 24), (160, 48)]


class Live(MemoryRecording):
    """A recording that acts like the live machine."""

    live = True


@asynccontextmanager
async def showing(
    frame: Frame,
    size: tuple[int, int] = (80, 24),
    view: View = View(),  # noqa: B008
) -> AsyncIterator[tuple[MonitorApp, Pilot[None]]]:
    app = MonitorApp(frame, (), Live(), view, "dark")
    async with app.run_test(size=size) as pilot:
        yield app, pilot


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition did not become true")


@pytest.mark.parametrize("size", SIZES)
async def test_enter_on_the_banner_opens_its_reasons_and_escape_goes_back(size: tuple[int, int]) -> None:
    async with showing(play((JOB_STARVED, 25))[-1], size) as (app, pilot):
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, ReasoningScreen)
        assert "why storage_read" in text(app)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert app.screen is app.main
        assert app.is_running


async def test_a_click_on_the_banner_opens_its_reasons_and_the_wheel_scrolls() -> None:
    async with showing(play((JOB_STARVED, 25))[-1]) as (app, pilot):
        await pilot.click(offset=(20, 1))
        await pilot.pause()
        assert isinstance(app.screen, ReasoningScreen)
        app.screen.panel.post_message(Wheeled(app.screen.panel, 3))
        await until(lambda: app.screen.first_row == 3)


async def test_the_reasons_scroll_and_follow_the_newest_verdict() -> None:
    frames = play((JOB_STARVED, 26))
    async with showing(frames[24]) as (app, pilot):
        await pilot.press("enter", "down", "down")
        assert "why storage_read" not in text(app)
        await pilot.press("end")
        assert "the end" in text(app)
        assert "last hour" in text(app)
        await pilot.press("home")
        assert "why storage_read" in text(app)
        await pilot.press("pagedown", "pageup")
        assert "why storage_read" in text(app)
        before = text(app)
        app.post_message(FrameReady(frames[25]))
        await pilot.pause()
        await until(lambda: text(app) != before)
        await pilot.press("end")
        await pilot.resize_terminal(160, 60)
        await pilot.pause()
        assert "why storage_read" in text(app)


async def test_help_opens_from_the_reasons_and_returns_to_them() -> None:
    async with showing(play((JOB_STARVED, 25))[-1]) as (app, pilot):
        await pilot.press("enter", "question_mark")
        assert "help" in text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, ReasoningScreen)


@pytest.mark.parametrize("size", SIZES)
async def test_the_key_j_selects_the_next_job_and_after_the_last_the_first(size: tuple[int, int]) -> None:
    async with showing(two(JOB_STARVED, FED), size) as (app, pilot):
        assert "STARVED" in text(app)
        await pilot.press("j")
        assert app.main.frame.verdict.job_pid == 500
        assert " OK " in text(app)
        assert "4 workers" in text(app)
        assert "pid 500" in text(app)
        await pilot.press("j")
        assert app.main.frame.verdict.job_pid == 50
        assert "STARVED" in text(app)


async def test_the_selected_job_stays_selected_as_time_goes_on() -> None:
    tasks = (*JOB_STARVED.tasks, FED.task, *FED.workers)
    frames = play((replace(JOB_STARVED, tasks=tasks, second_job=FED), 24))
    async with showing(frames[20]) as (app, pilot):
        await pilot.press("j")
        for frame in frames[21:]:
            app.post_message(FrameReady(frame))
            await pilot.pause()
        await until(lambda: app.main.newest is frames[-1])
        assert app.main.frame.verdict.job_pid == 500
        assert app.main.newest.verdict.job_pid == 50  # the recording does not depend on the viewer's choice


async def test_the_verdict_is_about_the_job_named_on_the_command_line() -> None:
    async with showing(two(JOB_STARVED, FED), view=View(job=602)) as (app, _):
        assert app.main.frame.verdict.job_pid == 500


async def test_without_another_job_the_key_j_reports_that() -> None:
    async with showing(play((JOB_STARVED, 25))[-1]) as (app, pilot):
        await pilot.press("j")
        assert "it is the only job" in app.main.view.message
    async with showing(play((IDLE, 25))[-1]) as (app, pilot):
        await pilot.press("j")
        assert "no training job seen" in app.main.view.message


@pytest.mark.parametrize("size", SIZES)
async def test_the_jobs_are_listed_and_enter_selects_one(size: tuple[int, int]) -> None:
    async with showing(two(JOB_STARVED, FED), size) as (app, pilot):
        await pilot.press("J")
        await pilot.pause()
        assert isinstance(app.screen, JobsScreen)
        assert "wait%" in text(app)
        assert "pid 50" in text(app)
        await pilot.press("down", "down")
        assert "pid 500" in text(app)
        await pilot.press("up", "j", "enter")
        await pilot.pause()
        assert app.screen is app.main
        assert app.main.frame.verdict.job_pid == 500
        await pilot.press("J", "home", "escape")
        await pilot.pause()
        assert app.screen is app.main
        assert app.main.frame.verdict.job_pid == 500


async def test_a_click_marks_a_job_and_a_second_click_selects_it() -> None:
    async with showing(two(JOB_STARVED, FED)) as (app, pilot):
        await pilot.click(offset=(20, 5))  # this click is on the path
        await pilot.pause()
        assert isinstance(app.screen, JobsScreen)
        await pilot.click(offset=(5, 3))
        assert app.screen.cursor == 500
        await pilot.click(offset=(5, 3))
        await pilot.pause()
        assert app.screen is app.main
        assert app.main.frame.verdict.job_pid == 500


async def test_the_wheel_moves_in_the_list_of_jobs() -> None:
    async with showing(two(JOB_STARVED, FED)) as (app, pilot):
        await pilot.press("J")
        await pilot.pause()
        assert isinstance(app.screen, JobsScreen)
        app.screen.panel.post_message(Wheeled(app.screen.panel, 3))
        await pilot.pause()
        assert app.screen.cursor == 500
        assert "pid 500" in text(app)
        app.screen.panel.post_message(Wheeled(app.screen.panel, -3))
        await pilot.pause()
        assert app.screen.cursor == 50


async def test_on_another_panel_enter_opens_that_panel() -> None:
    async with showing(play((JOB_STARVED, 25))[-1]) as (app, pilot):
        while app.main.view.focus != "disk":
            await pilot.press("tab")
        await pilot.press("enter")
        await pilot.pause()
        assert not isinstance(app.screen, ReasoningScreen)


async def test_copying_gives_the_text_that_why_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    async with showing(play((JOB_STARVED, 25))[-1], view=View(utc_offset_s=0)) as (app, pilot):
        await pilot.press("c")
        await until(lambda: "copied" in app.main.view.message)
        assert app.clipboard.startswith("STARVED   8 of 8 GPUs wait for data 78 % of the time")
        file = tmp_path / "iotop-ai" / "copied.txt"
        assert file.read_text() == app.clipboard
        assert str(file) in app.main.view.message


def test_copying_uses_osc_52_or_names_a_file(tmp_path: Path) -> None:
    sent: list[str] = []
    answer = copy_text("x\n", sent.append, {"TERM": "xterm"}, tmp_path)
    assert (sent, answer) == (["x\n"], f"done: copied, also in {tmp_path / 'copied.txt'}")
    sent.clear()
    answer = copy_text("x\n", sent.append, {"TERM": "linux"}, tmp_path)
    assert (sent, answer) == ([], f"done: the text is in {tmp_path / 'copied.txt'} (no clipboard in this terminal)")
    big = "y" * (LARGEST_BYTES + 1)
    assert copy_text(big, sent.append, {"TERM": "xterm"}, tmp_path).endswith("(too long for the clipboard)")
    assert (tmp_path / "copied.txt").read_text() == big
    nowhere = tmp_path / "file" / "below"
    (tmp_path / "file").write_text("")
    assert copy_text("x", sent.append, {"TERM": "linux"}, nowhere).startswith("failed: ")


async def test_the_key_x_does_not_acknowledge_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    frame = play((Machine(disks=(WORKS,), cpu=0.5), 12), (Machine(disks=(HANGS,), cpu=0.5, tasks=(WAITER,)), 36))[-1]
    assert frame.verdict.primary.class_id == "failing_disk"
    async with showing(frame) as (app, pilot):
        await pilot.press("x")
        await until(lambda: app.main.view.message)
        assert app.main.view.message == NOTHING_TO_ACKNOWLEDGE
    assert not Acknowledged(tmp_path / "iotop-ai").read()


async def test_the_key_x_acknowledges_a_failing_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with showing(play((ill(), 25))[-1]) as (app, pilot):
        await pilot.press("x")
        await until(lambda: "muted until it gets worse" in app.main.view.message)
        kept = Acknowledged(tmp_path / "iotop-ai").read()
        assert kept == {"failing_disk:WD_1_2": "critical critical=1 reallocated=312"}


async def test_the_key_x_acknowledges_a_death_and_j_names_the_job_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with showing(play((HOST_SCENES["job_died"], 15))[-1]) as (app, pilot):
        await pilot.press("j")
        await until(lambda: app.main.view.message)
        assert app.main.view.message == "train.py has ended; no other training job seen"
        await pilot.press("x")
        await until(lambda: app.main.view.message == "done: the end of train.py is acknowledged")
        (name,) = Acknowledged(tmp_path / "iotop-ai").read()
        assert name.startswith("job_died:50:")


async def test_the_key_x_explains_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with showing(play((JOB_STARVED, 25))[-1]) as (app, pilot):
        await pilot.press("x")
        assert "only a failing disk or GPU" in app.main.view.message
    async with showing(play((ill(), 25))[-1], view=View(readonly=True)) as (app, pilot):
        await pilot.press("x")
        assert "read-only" in app.main.view.message
    assert list(tmp_path.iterdir()) == []


async def test_a_saved_picture_has_the_verdict_about_the_leading_job() -> None:
    frame = two(JOB_STARVED, FED)
    async with showing(frame) as (app, pilot):
        await pilot.press("j")
        assert app.main.view.job
        screenshot(app.main)
        app.main.verdict.choose_job(0)
        assert app.main.frame is frame
