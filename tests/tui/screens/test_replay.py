"""The real app on a recording: the keys for time, the other keys, and that a replay changes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.frame import Frame
from iotop_ai.playback.player import FrameCursor
from iotop_ai.present.screen.view import Timeline, View
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.screens.device import DeviceScreen
from iotop_ai.tui.screens.main import screen as main_screen
from iotop_ai.tui.screens.main.time_actions import JUDGED_ANEW
from iotop_ai.tui.threads.playback import PlaybackThread
from tests.tui.recorded import record, stalling
from tests.tui.shown import text

LIVE = stalling()
WAIT_S = 20.0


class Replay:
    """An app that replays a recording, and its pilot."""

    def __init__(self, app: MonitorApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def view(self) -> View:
        return self.app.main.view

    @property
    def shown(self) -> Frame:
        return self.app.main.frame

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, seen: Callable[[], object]) -> None:
        end = time.monotonic() + WAIT_S
        while not seen():
            assert time.monotonic() < end, (self.shown.snapshot.seq, self.text("path"), self.text("keys"))
            await asyncio.sleep(0.02)  # pilot.pause would send a message to each widget each time

    async def at(self, number: int) -> None:
        """Wait until the n-th Snapshot is shown with all its values."""
        await self.until(lambda: self.shown == LIVE[number])

    def text(self, panel: str) -> str:
        return "\n".join(line.text for line in self.app.main.panels[panel].lines)

    def screen(self) -> str:
        return text(self.app)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return record(tmp_path_factory.mktemp("replay") / "a.iotop.jsonl", LIVE)


@asynccontextmanager
async def replaying(path: str, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Replay]:
    cursor = FrameCursor([FileRecording(path)])
    first = cursor.seek(0)
    line = Timeline(cursor.begin_wall_ns, cursor.end_wall_ns(), cursor.begin_wall_ns)
    view = View(mode="replay", timeline=line, utc_offset_s=0)
    app = MonitorApp(
        first, (), MemoryRecording(), view, "dark", make_playback=lambda app: PlaybackThread(cursor, app, Clock())
    )
    async with app.run_test(size=size) as pilot:
        yield Replay(app, pilot)


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (60, 15)])
async def test_a_replay_has_the_live_screen_and_a_timeline(path: str, size: tuple[int, int]) -> None:
    async with replaying(path, size) as replay:
        await replay.until(lambda: ("━" if size[0] < 80 else "STARVED") in replay.text("timeline"))
        await replay.pilot.pause()  # the text of a panel is known before its place
        rows = replay.screen().splitlines()
        assert len(rows) == size[1]
        assert "REPLAY paused" in rows[replay.app.main.panels["path"].region.y]
        assert rows[replay.app.main.panels["timeline"].region.y].startswith(" 08:53:20 ")
        assert replay.text("timeline").count("'") == 2
        assert "Space:play" in rows[-1]


async def test_keys_step_seek_and_go_to_the_ends(path: str) -> None:
    async with replaying(path) as replay:
        await replay.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
        await replay.at(3)
        await replay.press("left_square_bracket")
        await replay.at(2)
        await replay.press("v")
        await replay.until(lambda: replay.shown.verdict.state == "STARVED")
        assert replay.screen().startswith(" STARVED ")
        assert LIVE[replay.shown.snapshot.seq] == replay.shown
        await replay.press("apostrophe")
        await replay.at(90)
        await replay.press("V", "V")
        await replay.at(0)


@pytest.mark.parametrize(
    ("typed", "number"), [("50%", 64), ("-29s", 100), ("+1m", 60), ("08:54:00", 40), ("08:54", 40), ("2001-01-01", 0)]
)
async def test_a_key_goes_to_a_typed_time(path: str, typed: str, number: int) -> None:
    async with replaying(path) as replay:
        await replay.press("at", *typed)
        assert f" @{typed} " in replay.text("keys")
        await replay.press("enter")
        await replay.at(number)
        assert replay.view.time_input is None


@pytest.mark.parametrize(
    "key", ["apostrophe", "v", "right_square_bracket", "right", "right_curly_bracket", "plus", "space", "end"]
)
async def test_a_key_that_moves_time_removes_the_answer_to_the_key_before(
    path: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_screen, "MESSAGE_S", 10 * WAIT_S)
    async with replaying(path) as replay:
        await replay.until(lambda: "STARVED" in replay.text("timeline"))
        while replay.view.focus != "timeline":
            await replay.press("tab")
        await replay.press("V")
        await replay.until(lambda: "no earlier change" in replay.text("keys"))
        await replay.press(key)
        await replay.until(lambda: "no earlier change" not in replay.text("keys"))


@pytest.mark.parametrize(
    ("keys", "number", "answer"),
    [
        (("right", "pageup"), 0, "the recording begins at 08:53:20"),
        (("right", "left_curly_bracket"), 0, "the recording begins at 08:53:20"),
        (("right_curly_bracket",), -1, "the recording ends at 08:55:29"),
        (("right", "at", *"-10m", "enter"), 0, "the recording begins at 08:53:20"),
        (("at", *"+99m", "enter"), -1, "the recording ends at 08:55:29"),
        (("at", *"14:32", "enter"), -1, "the recording ends at 08:55:29"),
        (("right", "at", *"start", "enter"), 0, ""),
        (("at", *"end", "enter"), -1, ""),
        (("at", *"08:55:29", "enter"), -1, ""),
        (("right", "right", "left"), 10, ""),
    ],
)
async def test_a_jump_out_of_the_recording_says_where_it_stopped(
    path: str, keys: tuple[str, ...], number: int, answer: str
) -> None:
    async with replaying(path) as replay:
        await replay.until(lambda: "STARVED" in replay.text("timeline"))
        while replay.view.focus != "timeline":
            await replay.press("tab")
        await replay.press(*keys)
        await replay.until(lambda: replay.shown == LIVE[number] and replay.view.message == answer)
        assert answer in replay.text("keys")


async def test_where_a_jump_stops_is_shown_before_the_note_on_recomputed_verdicts(tmp_path: Path) -> None:
    path = Path(record(tmp_path / "old.iotop.jsonl", LIVE))
    path.write_bytes(path.read_bytes().replace(stamp().encode(), b"x" * len(stamp())))
    async with replaying(str(path)) as replay:
        await replay.press("at", *"08:00", "enter")
        await replay.until(lambda: "the recording begins at 08:53:20" in replay.text("keys"))
        await replay.press("right_square_bracket")
        await replay.until(lambda: replay.view.message == JUDGED_ANEW)


async def test_an_invalid_time_is_reported_and_escape_leaves(path: str) -> None:
    async with replaying(path) as replay:
        await replay.press("at", "x", "enter")
        assert "failed: 'x' is not a time" in replay.screen()
        await replay.press("at", "5", "escape")
        assert replay.view.time_input is None
        assert replay.shown == LIVE[0]
        assert replay.app.is_running


async def test_arrow_keys_move_time_and_so_do_page_keys_unless_the_focus_has_rows(path: str) -> None:
    async with replaying(path) as replay:
        await replay.press("right", "right")
        await replay.at(20)
        await replay.press("left")
        await replay.at(10)
        await replay.press("pagedown")
        await replay.at(70)
        await replay.press("pageup")
        await replay.at(10)
        assert replay.view.device == ""
        await replay.press("n")
        assert replay.view.device != ""
        await replay.press("down", "right")  # the keys move time on a list, too
        assert replay.view.focus == "process"
        await replay.at(20)
        cursor = replay.view.cursor
        await replay.press("pagedown")
        assert replay.view.cursor != cursor
        assert replay.shown == LIVE[20]
        await replay.press("shift+tab")
        while replay.view.focus != "timeline":
            await replay.press("tab")
        await replay.press("end")
        await replay.at(len(LIVE) - 1)
        await replay.press("home")
        await replay.at(0)


async def test_keys_play_pause_and_change_the_speed(path: str) -> None:
    async with replaying(path) as replay:
        await replay.press(*["plus"] * 9)
        await replay.until(lambda: replay.view.speed == 64.0)
        await replay.press("space")
        await replay.until(lambda: "► REPLAY 64x" in replay.text("path"))
        await replay.at(len(LIVE) - 1)
        await replay.until(lambda: "REPLAY paused" in replay.text("path"))
        await replay.press(*["minus"] * 12)
        await replay.until(lambda: replay.view.speed == 0.25)
        await replay.press("v", "V", "space")
        await replay.until(lambda: replay.view.playing)
        await replay.press("space")
        await replay.until(lambda: not replay.view.playing)
        assert replay.app.is_running


async def test_filter_sort_help_sums_and_panels_work_in_a_replay(path: str) -> None:
    async with replaying(path, (160, 48)) as replay:
        await replay.press("at", "8", "0", "%", "enter")
        await replay.until(lambda: replay.shown.snapshot.seq > 90)
        await replay.press("slash", *"worker2", "enter")
        assert "worker2" in replay.text("process")
        assert "[/x]" not in replay.text("process")
        await replay.press("escape", "greater_than_sign", "question_mark")
        assert "twice" not in replay.screen()
        assert "go to 14:32, -3m, start" in replay.screen()
        await replay.press("q", "a")
        base = replay.view.base
        assert base is not None
        await replay.press("right_square_bracket")
        assert replay.view.base is base
        await replay.press(*["left_square_bracket"] * 3)
        await replay.until(lambda: replay.view.base is None)
        await replay.press("5")
        assert "hidden; 5 shows it" in replay.text("disk")


async def test_a_replay_sends_no_signal_and_writes_no_file(path: str) -> None:
    before = Path(path).read_bytes(), Path(path).stat().st_mtime_ns, sorted(Path(path).parent.iterdir())
    async with replaying(path) as replay:
        await replay.press("R")
        assert "not available in a replay" in replay.screen()
        await replay.press("plus", "minus", "apostrophe")
        await replay.at(20)
        assert replay.view.recording is None
    assert (Path(path).read_bytes(), Path(path).stat().st_mtime_ns, sorted(Path(path).parent.iterdir())) == before


async def test_graphs_longer_than_a_minute_are_filled_after_a_seek(path: str) -> None:
    async with replaying(path) as replay:
        await replay.press("at", *"100%", "enter")
        await replay.at(len(LIVE) - 1)
        await replay.until(lambda: len(replay.view.past) + len(replay.shown.history) == len(LIVE))
        times = [s.at_ns for s in (*replay.view.past, *replay.shown.history)]
        assert times == [f.snapshot.at_ns for f in LIVE]
        await replay.press("left_square_bracket")
        await replay.at(len(LIVE) - 2)
        assert [s.at_ns for s in (*replay.view.past, *replay.shown.history)] == times[:-1]


async def test_a_seek_shows_numbers_and_verdict_at_once(path: str) -> None:
    async with replaying(path) as replay:
        await replay.until(lambda: "STARVED" in replay.text("timeline"))
        started = time.process_time()
        replay.app.main.time.playback.seek(LIVE[-2].snapshot.wall_ns)
        await replay.at(len(LIVE) - 2)
        assert time.process_time() - started < 1.0


async def test_the_page_of_a_disk_has_the_past_of_its_graphs_after_a_jump(path: str) -> None:
    async with replaying(path, (120, 40)) as replay:
        replay.app.main.panels["disk"].focus()
        await replay.press("enter")
        page = replay.app.screen
        assert isinstance(page, DeviceScreen)
        await replay.press("end")
        await replay.at(len(LIVE) - 1)
        await replay.until(lambda: len(replay.view.past) + len(replay.shown.history) == len(LIVE))
        await replay.pilot.pause()
        assert [line.text for line in page.panel.lines] == [line.text for line in page.rows(120, 40)]


@pytest.mark.parametrize("key", ["g", "h"])
async def test_the_screens_on_top_also_step_through_time(path: str, key: str) -> None:
    async with replaying(path) as replay:
        await replay.until(lambda: "STARVED" in replay.text("timeline"))
        await replay.press(key)
        above = replay.app.screen is not replay.app.main
        await replay.press("v")
        await replay.until(lambda: replay.shown.verdict.state == "STARVED")
        stalled_seq = replay.shown.snapshot.seq
        await replay.press("left_square_bracket", "left_square_bracket")
        await replay.at(stalled_seq - 2)
        assert above is (replay.app.screen is not replay.app.main)
        await replay.press("escape")
        assert replay.app.screen is replay.app.main
        assert "REPLAY paused" in replay.screen()


@pytest.mark.parametrize("key", ["h", "J", "disk", "banner", "process"])
async def test_a_time_is_typed_on_the_screens_on_top_too(path: str, key: str) -> None:
    async with replaying(path) as replay:
        if key in replay.app.main.panels:
            replay.app.main.panels[key].focus()
            key = "enter"
        await replay.press(key)
        above = replay.app.screen
        assert above is not replay.app.main
        assert "08:53:20 REPLAY paused" in replay.screen()
        # The keys of one burst: "n", "h" and "T" are also keys of these screens.
        await replay.press("at", *"nhT", "escape")
        assert (replay.app.screen, replay.view.time_input) == (above, None)
        await replay.press("at", *"50%")
        assert " @50% " in replay.screen().splitlines()[-1]
        await replay.press("enter")
        await replay.at(64)
        await replay.press("at", "x", "enter")
        assert "failed: 'x' is not a time" in replay.screen().splitlines()[-1]
        assert replay.app.screen is above


async def test_the_answer_to_a_key_does_not_hide_the_keys_of_the_next_screen(path: str) -> None:
    async with replaying(path) as replay:
        await replay.press("R")
        assert "not available in a replay" in replay.screen()
        await replay.press("h")
        assert "not available in a replay" not in replay.screen()
        await replay.press("R")
        assert "not available in a replay" in replay.screen()
