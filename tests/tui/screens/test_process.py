"""The screen of a process in the real app, for real processes of this machine, and in a replay."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from iotop_ai.collectors.process.detail import DetailReader
from iotop_ai.collectors.process.python_code import py_spy_path
from iotop_ai.model.process.detail import thread_cpu
from iotop_ai.model.process.stack import PythonCode
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.present.process.screen import most_process_scroll
from iotop_ai.present.screen.view import View
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.dialogs.notice import NoticeScreen
from iotop_ai.tui.dialogs.process import ProcessScreen
from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.screens.process import ProcessDetailScreen
from iotop_ai.tui.screenshot import screenshot
from iotop_ai.tui.threads.process_detail import DetailRead
from tests.tui.recorded import record
from tests.tui.scene import starved_frames
from tests.tui.screens.test_replay import replaying
from tests.tui.shown import showing, text

WAIT_S = 20.0


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with an open file, a pipe, and a secret in its environment."""
    path = tmp_path / "data.bin"
    path.write_bytes(b"x" * 4096)
    code = "import sys; f = open(sys.argv[1], 'rb', 0); f.read(1000); print(flush=True); sys.stdin.read()"
    environment = {**os.environ, "SOME_TOKEN": "0123456789abcdef"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


@asynccontextmanager
async def watching(view: View) -> AsyncIterator[tuple[MonitorApp, Pilot[None], Callable[[], FrameReady]]]:
    """Run the app on two readings of this machine. The yielded function reads the machine once more."""
    source = LiveSource(Settings(smart=False))
    live = frames(MemoryRecording([source.snapshot(), source.snapshot()]))
    shown = list(live)[-1]
    app = MonitorApp(shown, (), source, view, "dark")

    def read_again() -> FrameReady:
        return FrameReady(list(frames(MemoryRecording([shown.snapshot, source.snapshot()])))[-1])

    async with app.run_test(size=(120, 60)) as pilot:
        yield app, pilot, read_again
    source.close()


async def until(app: MonitorApp, pilot: Pilot[None], words: str, message: Callable[[], FrameReady]) -> str:
    end = time.monotonic() + WAIT_S
    while words not in text(app):
        assert time.monotonic() < end, text(app)
        app.post_message(message())
        await pilot.pause(0.05)
    return text(app)


async def test_down_and_enter_open_a_process_with_its_files_and_environment(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    async with watching(View(pattern=f"pid = {child.pid}")) as (app, pilot, read_again):
        await pilot.press("down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, ProcessDetailScreen)
        seen = await until(app, pilot, "data.bin", read_again)
        assert f"pid {child.pid}" in seen.splitlines()[1]
        assert "pipe, read" in seen
        await pilot.press("end")
        seen = await until(app, pilot, "SOME_TOKEN=", read_again)
        assert "SOME_TOKEN=***" in seen
        assert "0123456789abcdef" not in seen
        picture = screenshot(app.main)
        assert "SOME_TOKEN" not in picture
        assert "SOME_TOKEN" in text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


@pytest.mark.parametrize("paused", [False, True])
async def test_the_next_process_is_read_in_full_although_the_previous_one_was_still_being_read(
    child: subprocess.Popen[bytes], paused: bool
) -> None:
    view = View(pattern=f"pid = {child.pid} or pid = {os.getpid()}", only_active=False)
    async with watching(view) as (app, pilot, read_again):
        await pilot.press("down", "enter")
        await pilot.pause()
        await wait_until_whole(app, pilot, read_again, WAIT_S)
        assert isinstance(app.screen, ProcessDetailScreen)
        if paused:
            await pilot.press("space")
        first, threads = app.screen.page.key, app.screen._threads
        assert threads is not None
        assert threads._whole.wait(WAIT_S)
        assert threads._whole._running.acquire(timeout=WAIT_S)  # as if it had to wait for a lock of the process
        await pilot.press("n")
        await pilot.pause(0.2)
        threads._whole._running.release()
        assert app.screen.page.key != first
        await wait_until_whole(app, pilot, read_again, 5)


async def test_cpu_time_is_not_taken_from_two_readings_at_almost_the_same_time(child: subprocess.Popen[bytes]) -> None:
    async with watching(View(pattern=f"pid = {child.pid}")) as (app, pilot, read_again):
        await pilot.press("down", "enter")
        await pilot.pause()
        await wait_until_whole(app, pilot, read_again, WAIT_S)
        await pilot.press("space")
        await pilot.pause(0.2)
        screen = app.screen
        assert isinstance(screen, ProcessDetailScreen)
        detail = screen.page.detail
        assert detail is not None
        table, at_ns = detail.threads.value, detail.threads.at_ns
        assert table is not None
        assert at_ns is not None
        first = table.threads[0]
        for seconds, ticks in ((1.0, 0), (2.0, 100), (2.01, 100)):
            one = first._replace(cpu_ticks=first.cpu_ticks + ticks)
            threads = Reading(table._replace(threads=(one,)), Status.OK, at_ns=at_ns + int(seconds * 1e9))
            screen.on_detail_read(DetailRead(detail._replace(threads=threads)))
        assert thread_cpu(screen.page.before, threads)[first.tid] == pytest.approx(100 / table.clk_tck, rel=0.02)


async def test_details_are_not_late_while_a_dialog_is_open(child: subprocess.Popen[bytes]) -> None:
    async with watching(View(pattern=f"pid = {child.pid}")) as (app, pilot, read_again):
        await pilot.press("down", "enter")
        await pilot.pause()
        await wait_until_whole(app, pilot, read_again, WAIT_S)
        await pilot.press("k")
        await pilot.pause(4.0)
        app.post_message(read_again())
        await pilot.pause()
        assert isinstance(app.screen, ProcessScreen)
        assert " s old" not in text(app)


async def test_a_read_that_does_not_end_is_named(child: subprocess.Popen[bytes]) -> None:
    async with watching(View(pattern=f"pid = {child.pid}")) as (app, pilot, read_again):
        await pilot.press("down", "enter")
        await pilot.pause()
        await wait_until_whole(app, pilot, read_again, WAIT_S)
        assert isinstance(app.screen, ProcessDetailScreen)
        threads = app.screen._threads
        assert threads is not None
        release = threading.Event()
        await pilot.pause(1.0)
        assert threads._changing.wait(WAIT_S)
        assert threads._changing.submit(lambda: release.wait(WAIT_S))
        app.screen._asked_ns = app.screen._clock.monotonic_ns()  # as if that were the last read that was requested
        await until(app, pilot, "old: a read has not returned", read_again)
        release.set()


async def test_a_page_without_the_details_scrolls_no_further_than_its_last_row(child: subprocess.Popen[bytes]) -> None:
    async with watching(View(pattern=f"pid = {child.pid}")) as (app, pilot, read_again):
        await pilot.resize_terminal(80, 24)
        await pilot.press("down", "enter")
        await pilot.pause()
        await wait_until_whole(app, pilot, read_again, WAIT_S)
        assert isinstance(app.screen, ProcessDetailScreen)
        app.main.state.update(mode="back")
        shown = app.screen.page._replace(detail=None, why_unreadable=app.main.view.why_not_live)
        app.screen.action_move(1000)
        assert app.screen.page.scroll == most_process_scroll(app.main.frame, app.main.view, shown, 80, 24)


async def wait_until_whole(
    app: MonitorApp, pilot: Pilot[None], message: Callable[[], FrameReady], seconds: float
) -> None:
    """Wait until the process is shown with the parts that rarely change."""
    end = time.monotonic() + seconds
    assert isinstance(app.screen, ProcessDetailScreen)
    while app.screen.page.detail is None or app.screen.page.detail.environ.status is Status.PENDING:
        assert time.monotonic() < end, text(app)
        app.post_message(message())
        await pilot.pause(0.05)


async def test_a_signal_can_be_sent_from_the_screen(child: subprocess.Popen[bytes]) -> None:
    async with watching(View(pattern=f"pid = {child.pid}")) as (app, pilot, read_again):
        await pilot.press("down", "enter", "k")
        await pilot.pause()
        assert isinstance(app.screen, ProcessScreen)
        await pilot.press(*"term", "enter")
        await until(app, pilot, "done: ", read_again)
        assert child.wait(WAIT_S) == -15
        assert isinstance(app.screen, ProcessDetailScreen)
        await until(app, pilot, f"pid {child.pid} has ended", read_again)


async def test_a_read_only_screen_sends_no_signal(child: subprocess.Popen[bytes]) -> None:
    async with watching(View(pattern=f"pid = {child.pid}", readonly=True)) as (app, pilot, _):
        await pilot.press("down", "enter", "i")
        await pilot.pause()
        assert isinstance(app.screen, NoticeScreen)
        assert "this screen is read-only" in text(app)
        await pilot.press("n", "escape")
        await pilot.pause()
        assert isinstance(app.screen, ProcessDetailScreen)


async def test_arrow_keys_move_the_process_cursor_immediately_after_start_up() -> None:
    async with showing(starved_frames()) as (app, pilot):
        await pilot.press("down")
        await pilot.pause()
        assert app.main.view.focus == "process"
        first = app.main.view.cursor
        await pilot.press("down")
        assert app.main.view.cursor not in ("", first)
        await pilot.press("up")
        assert app.main.view.cursor == first


async def test_in_a_replay_recorded_facts_are_shown_and_missing_ones_named(tmp_path: Path) -> None:
    path = record(tmp_path / "a.iotop.jsonl", starved_frames())
    async with replaying(path, (100, 40)) as replay:
        await replay.press("down", "enter")
        assert isinstance(replay.app.screen, ProcessDetailScreen)
        seen = replay.screen()
        assert "not available in a replay" in seen
        assert "REPLAY" in seen.splitlines()[1]
        first = replay.app.screen.page.key
        await replay.press("n")
        assert replay.app.screen.page.key != first
        await replay.press("b")
        assert replay.app.screen.page.key == first
        before = replay.shown.snapshot.seq
        await replay.press("right_square_bracket")
        await replay.until(lambda: replay.shown.snapshot.seq == before + 1)
        await replay.press("question_mark")
        assert isinstance(replay.app.screen, HelpScreen)
        assert "process screen" in replay.screen()


@pytest.mark.skipif(not py_spy_path(), reason="needs py-spy")
async def test_the_key_p_shows_the_line_of_code(child: subprocess.Popen[bytes]) -> None:
    async with watching(View(pattern=f"pid = {child.pid}")) as (app, pilot, read_again):
        await pilot.press("down", "enter")
        await until(app, pilot, "data.bin", read_again)
        await pilot.press("p")
        await pilot.pause()
        assert "py-spy samples its stack" in text(app)
        seen = await until(app, pilot, " samples in 5 s by py-spy", read_again)
        assert "code" in seen
        assert "% of " in seen


async def test_a_process_that_is_being_sampled_is_shown_as_such_after_a_look_at_another_one(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def read_code(*_: object) -> Reading[PythonCode]:
        assert release.wait(WAIT_S)
        return Reading(None, Status.ABSENT, "made-up answer")

    monkeypatch.setattr(DetailReader, "read_code", read_code)
    view = View(pattern=f"pid = {child.pid} or pid = {os.getpid()}", only_active=False)
    async with watching(view) as (app, pilot, read_again):
        await pilot.press("down", "enter")
        await pilot.pause()
        await pilot.press("p", "n")
        await pilot.pause()
        assert "py-spy samples its stack" not in text(app)
        await pilot.press("b", "p")
        await pilot.pause()
        assert "py-spy samples its stack" in text(app)
        assert "another process" not in text(app)
        release.set()
        await until(app, pilot, "made-up answer", read_again)


async def test_keys_that_need_the_process_are_refused_in_a_replay_and_not_offered(tmp_path: Path) -> None:
    path = record(tmp_path / "a.iotop.jsonl", starved_frames())
    async with replaying(path, (100, 40)) as replay:
        await replay.press("down", "enter")
        row = replay.screen().splitlines()[-1]
        assert "p:code" not in row
        assert "k/i:act" not in row
        await replay.press("p")
        assert "not available in a replay" in replay.view.message
        for key in ("k", "i", "f7"):
            await replay.press(key)
            assert isinstance(replay.app.screen, NoticeScreen)
            assert "not here not available in a replay" in replay.screen()
            await replay.press("escape")
