"""A live session: show earlier moments while it continues, set a mark, and record with the minute before."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from iotop_ai.cli.commands.monitor import session_recording
from iotop_ai.cli.commands.monitor.session_recording import is_private, open_file, recordings_folder
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Event
from iotop_ai.playback.player import FrameCursor
from iotop_ai.playback.session_recording import SessionRecorder
from iotop_ai.playback.timeline_reader import TimelineReader
from iotop_ai.present.screen.view import View
from iotop_ai.store.last_hour import Ring
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.threads.actions import ActionResult
from tests.rigs.threads import no_thread
from tests.tui.recorded import stalling
from tests.tui.shown import text
from tests.tui.test_app import Upstream

WAIT_S = 20.0


class Session:
    """A live app whose source gets its Frames from the test.

    frames: the Frames of the source. kept_count: the number of Frames that are kept before the app shows its first one.
    marks: the marks that the app put into the source.
    """

    def __init__(
        self,
        view: View,
        record: Callable[[tuple[str, ...]], Recorder] | None,
        kept_count: int,
        frames: Sequence[Frame],
    ) -> None:
        self.frames = frames
        self.feed: queue.Queue[Frame | None] = queue.Queue()
        self.source = Upstream()
        self.marks: list[tuple[str, str]] = []
        self.source.add_event = lambda kind, text: self.marks.append((kind, text))  # type: ignore[method-assign]
        self.ring = Ring()
        session_recorder = SessionRecorder(Clock(), lambda: self.ring, record, "full")
        for frame in frames[:kept_count]:
            session_recorder.put(frame)
        self.app = MonitorApp(
            frames[kept_count], self._arriving(), self.source, view, "dark", session_recorder=session_recorder
        )
        assert not kept_count or self.ring.drain(60)
        self.pilot: Pilot[None]

    def _arriving(self) -> Iterator[Frame]:
        while (frame := self.feed.get()) is not None:
            yield frame

    @property
    def shown(self) -> Frame:
        return self.app.main.frame

    def text(self, panel: str) -> str:
        return "\n".join(line.text for line in self.app.main.panels[panel].lines)

    def screen(self) -> str:
        return text(self.app)

    async def arrive(self, first: int, last: int) -> None:
        """Let the Frames from first to last arrive."""
        for frame in self.frames[first : last + 1]:
            self.feed.put(frame)
        await self.until(lambda: self.app.main.newest == self.frames[last])
        assert self.ring.drain(60)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, seen: Callable[[], object]) -> None:
        end = time.monotonic() + WAIT_S
        while not seen():
            assert time.monotonic() < end, (self.shown.snapshot.seq, self.screen())
            await asyncio.sleep(0.02)  # pilot.pause would send a message to each widget each time


@asynccontextmanager
async def live_session(
    record: Callable[[tuple[str, ...]], Recorder] | None = None,
    view: View = View(utc_offset_s=0),  # noqa: B008 - a frozen record
    kept_count: int = 0,
    frames: Sequence[Frame] | None = None,
) -> AsyncIterator[Session]:
    session = Session(view, record, kept_count, stalling() if frames is None else frames)
    async with session.app.run_test(size=(80, 24)) as pilot:
        session.pilot = pilot
        yield session
        session.feed.put(None)


async def test_keys_step_back_and_return_to_now_on_a_live_machine() -> None:
    async with live_session() as session:
        await session.arrive(1, 100)
        await session.press("left_square_bracket")
        await session.until(lambda: session.shown == stalling()[99])
        assert "◄ BACK 1 s  [ ] step" in session.text("path")
        await session.press("left_square_bracket", "left_square_bracket")
        await session.until(lambda: session.shown == stalling()[97])
        await session.arrive(101, 105)
        assert session.shown == stalling()[97]
        assert "◄ BACK 8 s" in session.text("path")
        assert "End:now" in session.text("keys")
        await session.press(*["right_square_bracket"] * 7)
        await session.until(lambda: session.shown == stalling()[104])
        await session.press("right_square_bracket")
        await session.until(lambda: session.app.main.view.mode == "live")
        assert session.shown == stalling()[105]
        await session.arrive(106, 107)
        assert session.shown == stalling()[107]
        assert "live" in session.text("path")


async def test_the_timeline_reaches_the_present_with_changes_and_marks() -> None:
    async with live_session() as session:
        await session.arrive(1, 112)
        assert not session.app.main.panels["timeline"].display
        await session.press("left_square_bracket")
        await session.until(lambda: "STARVED" in session.text("timeline"))
        row = session.text("timeline")
        assert row.startswith(" 08:53:20 ")
        assert row.endswith(" now ")
        assert "'" in row
        keys = [(str(f.verdict.state), f.verdict.primary.class_id, f.verdict.primary.subject) for f in stalling()[:112]]
        changes = [stalling()[i] for i in range(1, 112) if keys[i] != keys[i - 1]]
        assert len(changes) >= 2
        for frame in reversed(changes):
            await session.press("V")
            await session.until(lambda frame=frame: session.shown == frame)
        await session.press("V", "apostrophe")
        await session.until(lambda: session.shown == stalling()[20])
        assert "mark: epoch 20" in session.screen()
        await session.press("v")
        await session.until(lambda: session.shown == changes[0])
        # Frames that arrive meanwhile are reached, too.
        width = row.count("━")
        await session.arrive(111, 129)
        await session.until(lambda: session.text("timeline").count("━") < width)
        await session.press("end")
        assert session.shown == stalling()[129]
        assert not session.app.main.panels["timeline"].display


@pytest.mark.parametrize("key", ["end", "escape"])
async def test_a_key_returns_to_the_present(key: str) -> None:
    async with live_session() as session:
        await session.arrive(1, 90)
        before = len(session.app.main.view.past)
        await session.press("left_square_bracket")
        await session.until(lambda: session.shown == stalling()[89])
        await session.press("V")
        await session.until(lambda: session.shown.verdict != stalling()[90].verdict)
        await session.press(key)
        assert session.app.main.view.mode == "live"
        assert session.shown == stalling()[90]
        assert len(session.app.main.view.past) == before


@pytest.mark.parametrize("keys", [("J",), ("down", "enter")])
async def test_ten_minutes_back_also_works_on_the_screens_above(keys: tuple[str, ...]) -> None:
    async with live_session(kept_count=100) as session:
        await session.press(*keys, "left_curly_bracket")
        await session.until(lambda: session.app.main.view.mode == "back" and session.shown == stalling()[0])
        await session.press("right_curly_bracket")
        await session.until(lambda: session.shown != stalling()[0])
        assert session.app.screen is not session.app.main


async def test_figures_of_earlier_moments_are_unchanged() -> None:
    async with live_session(kept_count=120) as session:
        await session.press("left_square_bracket", "at", *"-40s", "enter")
        await session.until(lambda: session.shown == stalling()[80])
        assert session.screen().startswith(" STARVED ")
        await session.press("space", "plus", "plus", "plus", "plus", "plus", "plus")
        await session.until(lambda: session.app.main.view.mode == "live")
        assert session.shown == stalling()[120]


@pytest.mark.parametrize("keys", [("enter",), ("J",), ("h",), ("down", "enter")])
async def test_end_returns_to_now_on_a_screen_that_scrolls(keys: tuple[str, ...]) -> None:
    async with live_session(kept_count=100) as session:
        await session.press(*keys)
        above = session.app.screen
        assert above is not session.app.main
        await session.press("left_square_bracket")
        await session.until(lambda: session.shown == stalling()[99])
        await session.press("end")
        await session.until(lambda: session.app.main.view.mode == "live" and session.shown == stalling()[100])
        assert session.app.screen is above


async def test_one_key_goes_back_ten_minutes_or_to_the_earliest_kept_moment() -> None:
    async with live_session(kept_count=100) as session:
        await session.press("right_curly_bracket")
        assert session.app.main.view.mode == "live"
        await session.press("left_curly_bracket")  # the last 100 s are kept
        await session.until(lambda: session.app.main.view.mode == "back" and session.shown == stalling()[0])
        await session.press("right_curly_bracket")
        await session.until(lambda: session.shown != stalling()[0])
        await session.press("end")
        await session.until(lambda: session.app.main.view.mode == "live")


async def test_a_typed_time_before_the_kept_history_is_named_as_out_of_range() -> None:
    async with live_session(kept_count=80) as session:
        await session.press("at", *"07:00", "enter")
        await session.until(lambda: session.shown == stalling()[0])
        assert "nothing is kept before 08:53:20; End goes back to now" in session.text("keys")
        await session.press("end", "at", *"-30s", "enter")
        await session.until(lambda: "are kept" in session.text("keys"))


async def test_messages_of_a_closed_playback_are_not_shown() -> None:
    async with live_session(kept_count=112) as session:
        time_actions = session.app.main.time
        await session.press("left_square_bracket")
        await session.until(lambda: session.shown == stalling()[111] and "STARVED" in session.text("timeline"))
        closed = time_actions.playback
        assert closed is not None
        await session.press("end")
        await session.until(lambda: session.app.main.view.mode == "live")
        assert closed.close()

        def send() -> None:
            """Send what the closed playback would have sent if it had been slower."""
            closed._closing = False
            closed._post()
            closed._past_for, closed._samples = None, ("", [])
            assert closed._read_past()
            closed._end_ns += 10_000_000_000
            closed._timeline_reader = TimelineReader(closed._cursor.parts, closed._cursor.begin_wall_ns)
            closed._timeline_complete, closed._timeline_sent_ns = False, 0
            assert closed._read_timeline()

        send()
        await session.pilot.pause()
        assert session.shown == stalling()[112]
        assert session.app.main.view.timeline is None
        await session.press("at", *"-30s", "enter")
        await session.until(lambda: session.shown == stalling()[82] and "STARVED" in session.text("timeline"))
        assert time_actions.playback is not closed
        before = session.app.main.view
        send()
        await session.pilot.pause()
        assert session.shown == stalling()[82]
        assert session.app.main.view.timeline == before.timeline


async def test_a_look_back_that_fails_is_reported_and_the_live_screen_goes_on() -> None:
    async with live_session(kept_count=120) as session:
        first = session.ring._closed_blocks[0]
        session.ring._closed_blocks[0] = first._replace(data=b"damaged")
        for _ in range(2):
            await session.press("at", *"-20s", "enter")
            await session.until(lambda: "failed: looking back: " in session.screen())
            assert session.app.main.view.mode == "live"
            assert session.app.main.time.playback is None
            assert session.shown == stalling()[120]
            session.app.main.state.change("")
        assert session.app.failure is None
        assert session.app._next_check is not None
        await session.arrive(121, 122)
        assert session.shown == stalling()[122]
        session.ring._closed_blocks[0] = first
        await session.press("at", *"-20s", "enter")
        await session.until(lambda: session.shown == stalling()[102])


async def test_without_a_thread_a_look_back_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with live_session(kept_count=100) as session:
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", no_thread)
            await session.press("left_square_bracket")
        assert "failed: can't start new thread" in session.screen()
        assert session.app.main.view.mode == "live"
        assert session.app.main.time.playback is None
        await session.press("left_square_bracket")
        await session.until(lambda: session.shown == stalling()[99])


async def test_without_a_history_earlier_moments_cannot_be_shown() -> None:
    async with live_session() as session:
        session.app.session_recorder = SessionRecorder(Clock())  # this recorder has no ring
        await session.press("left_square_bracket")
        assert "nothing to look back at yet" in session.screen()
        await session.press("right_square_bracket", "at", *"-10m", "enter", "v")
        assert "nothing to look back at yet" in session.screen()
        assert session.app.main.view.mode == "live"


async def test_a_mark_is_set_at_the_present_moment() -> None:
    async with live_session() as session:
        await session.press("apostrophe", "escape")
        assert session.marks == []
        await session.press("apostrophe", "enter")
        assert session.marks == [("mark", "by key")]
        assert "done: mark set at 08:53:20" in session.screen()
        await session.press("apostrophe", *"lr", "space", "q", "enter")  # here q is text and does not quit
        assert session.marks[1:] == [("mark", "lr q")]


async def test_a_time_can_be_entered_on_the_live_screen() -> None:
    async with live_session(kept_count=120) as session:
        await session.press("at", *"-40s", "enter")
        await session.until(lambda: session.shown == stalling()[80])
        assert session.app.main.view.mode == "back"
        await session.press("end", "at", *"noon", "enter")
        assert "failed: 'noon' is not a time" in session.screen()
        assert session.app.main.view.mode == "live"


async def test_a_recording_begins_with_the_minute_before(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"

    def record(preroll: tuple[str, ...]) -> Recorder:
        return Recorder(FileSink(str(path)), Clock(), cmdline="full", preroll=preroll, min_free_bytes=0)

    async with live_session(record) as session:
        await session.arrive(1, 80)
        await session.press("R")
        await session.until(lambda: "recording, R stops it: " in session.screen())
        await session.arrive(81, 90)
        assert "● REC 00:0" in session.text("path")
        await session.press("left_square_bracket")
        await session.until(lambda: session.shown == stalling()[89])
        await session.arrive(91, 95)
        assert "● REC 00:0" in session.text("path")
        assert "◄ BACK" in session.text("path")
        await session.press("R")
        await session.until(lambda: str(path) in session.screen() or "in /" in session.screen())
        await session.arrive(96, 97)
        assert "● REC" not in session.text("path")
    recording = FileRecording(str(path))
    assert recording.blocks[0].pre
    cursor = FrameCursor([recording])
    assert [cursor.seek(0), *iter(cursor.forward, None)] == stalling()[81:96]
    assert recording.closed()


async def test_leaving_the_screen_closes_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"
    async with live_session(
        lambda pre: Recorder(FileSink(str(path)), Clock(), preroll=pre, min_free_bytes=0)
    ) as session:
        await session.arrive(1, 3)
        await session.press("R")
        await session.until(lambda: "recording, R stops it: " in session.screen())
        await session.arrive(4, 8)
    assert FileRecording(str(path)).closed()


async def test_an_action_that_still_runs_at_exit_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"
    events: list[Event] = []

    def add(kind: str, text: str) -> None:
        events.append(Event(stalling()[8].snapshot.at_ns + 1, stalling()[8].snapshot.wall_ns + 1, kind, text))

    async with live_session(
        lambda pre: Recorder(FileSink(str(path)), Clock(), preroll=pre, min_free_bytes=0)
    ) as session:
        session.source.add_event = add  # type: ignore[method-assign]
        session.app.session_recorder._pending = lambda seq: tuple(events)  # type: ignore[union-attr]
        await session.arrive(1, 3)
        await session.press("R")
        await session.until(lambda: "recording, R stops it: " in session.screen())
        await session.arrive(4, 8)

        def act() -> ActionResult:
            time.sleep(0.3)
            return ActionResult.of_action(True, "term: python (7)")

        session.app.main.action_threads.run("act", act)
        await session.press("q")
    recording = FileRecording(str(path))
    assert [(event.kind, event.text) for event in recording.events()][-1:] == [("action", "term: python (7)")]
    assert recording.closed()


async def test_a_refused_recording_is_reported(tmp_path: Path) -> None:
    def record(preroll: tuple[str, ...]) -> Recorder:
        raise InputError("the disk is full")

    async with live_session(record) as session:
        await session.press("R")
        await session.until(lambda: "failed: the disk is full" in session.screen())
        await session.arrive(1, 3)
        assert "live" in session.text("path")


async def test_trouble_of_a_recording_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a"
    make = lambda pre: Recorder(FileSink(str(path)), Clock(), preroll=pre, min_free_bytes=1 << 60)  # noqa: E731
    async with live_session(make) as session:
        await session.arrive(1, 3)
        await session.press("R")
        await session.until(lambda: "recording, R stops it: " in session.screen())
        await session.arrive(4, 6)
        await session.until(lambda: session.app.session_recorder.recording_state().trouble)  # type: ignore[union-attr]
        await session.arrive(7, 8)
        assert "free on its disk" in session.screen()
        assert "● REC stopped" in session.text("path")


async def test_a_remote_screen_is_read_only_and_stays_when_its_source_ends() -> None:
    async with live_session(view=View(remote=True, utc_offset_s=0)) as session:
        await session.arrive(1, 70)
        assert "► REMOTE" in session.text("path")
        for key in ("R", "plus", "apostrophe"):
            await session.press(key)
            assert "not available from another machine" in session.screen()
        assert "set marks there" in session.screen()
        assert session.source.intervals == []
        assert session.marks == []
        session.feed.put(None)
        await session.until(lambda: "► REMOTE ended" in session.text("path"))
        await session.press("left_square_bracket")
        await session.until(lambda: session.shown == stalling()[69])
        await session.press("end")
        assert "► REMOTE ended" in session.text("path")


def test_a_recording_goes_into_a_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, open_to_all = tmp_path / "own", tmp_path / "all"
    own.mkdir()
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert is_private(str(own))
    assert not is_private(str(open_to_all))
    assert not is_private(str(tmp_path / "none"))
    sink = open_file(Clock(), str(own))
    assert Path(sink.path).parent == own
    assert sink.path.endswith(".iotop.jsonl")
    sink.close()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert recordings_folder() in (str(tmp_path / "state" / "iotop-ai"), "/var/lib/iotop-ai")


@pytest.mark.parametrize("hangs", ["here", "elsewhere"])
def test_the_folder_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str) -> None:
    here, elsewhere, answered = tmp_path / "here", tmp_path / "elsewhere", threading.Event()

    def private_folder(folder: str) -> bool:
        return hangs == "here" and answered.wait(60)

    def shared_folder(folder: str) -> str:
        answered.wait(60)
        return folder

    monkeypatch.setattr(session_recording, "OPEN_S", 0.1)
    monkeypatch.setattr(session_recording, "is_private", private_folder)
    monkeypatch.setattr(session_recording, "writable_folder", shared_folder)
    monkeypatch.setattr(session_recording, "recordings_folder", lambda: str(elsewhere))
    try:
        with pytest.raises(InputError) as raised:
            open_file(Clock(), str(here))
    finally:
        answered.set()
    assert str(raised.value) == f"{tmp_path / hangs}: no answer for 0.1 s"


class StoppedClock(Clock):
    """A clock that always shows the same second."""

    def wall_ns(self) -> int:
        return 10**18


def test_two_recordings_that_begin_in_one_second_have_different_names(tmp_path: Path) -> None:
    sinks = [open_file(StoppedClock(), str(tmp_path)) for _ in range(3)]
    names = [Path(sink.path).name.removesuffix(".iotop.jsonl") for sink in sinks]
    for sink in sinks:
        sink.close()
    assert names == [names[0], f"{names[0]}-2", f"{names[0]}-3"]
