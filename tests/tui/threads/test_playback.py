"""The playback thread: it gives the Frame of each request, and the newest request replaces older ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.message import Message

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.playback.player import FrameCursor
from iotop_ai.playback.timeline_reader import TimelineReader
from iotop_ai.present.screen.view import Timeline
from iotop_ai.store.last_hour import Ring
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.sink import FileSink
from iotop_ai.tui.threads.playback import (
    PastSamples,
    PlaybackFailed,
    PlaybackFrame,
    PlaybackState,
    PlaybackThread,
    TimelineUpdate,
    _SeekRequest,
)
from tests.clocks import SetClock
from tests.store.scenario import clock_set_back, lived
from tests.tui.recorded import record, recorder_of, stalling, written

WAIT_S = 20.0


class FakeApp:
    """Keeps the messages of the playback thread."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def post_message(self, message: Message) -> bool:
        self.messages.append(message)
        return True

    def until(self, seen: Callable[[Message], bool]) -> Message:
        """The first message for which ``seen`` is true, of those that came or will come."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            for message in list(self.messages):
                if seen(message):
                    return message
            time.sleep(0.005)
        raise AssertionError(f"not sent: {[type(m).__name__ for m in self.messages][-10:]}")

    def at(self, frame: Frame) -> PlaybackFrame:
        """Wait until the playback shows this Frame with all its values."""
        found = self.until(lambda m: isinstance(m, PlaybackFrame) and not m.early and m.frame == frame)
        assert isinstance(found, PlaybackFrame)
        return found

    def timeline(self, known: Frame) -> Timeline:
        """Wait until the timeline was read up to this Frame, and return it."""
        self.until(lambda m: isinstance(m, TimelineUpdate) and m.timeline.known_ns == known.snapshot.wall_ns)
        return [m.timeline for m in self.messages if isinstance(m, TimelineUpdate)][-1]


@pytest.fixture
def live() -> list[Frame]:
    return lived(11, 200)


@pytest.fixture
def app() -> FakeApp:
    return FakeApp()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a recording of the Frames ``live``."""
    return record(tmp_path_factory.mktemp("playback") / "a", lived(11, 200))


@pytest.fixture
def playback(path: str, app: FakeApp) -> Iterator[PlaybackThread]:
    cursor = FrameCursor([FileRecording(path)])
    cursor.seek(0)
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    yield playback
    assert playback.close()
    assert not [m for m in app.messages if isinstance(m, PlaybackFailed)]


def test_seeks_and_steps_give_their_frames(playback: PlaybackThread, live: list[Frame], app: FakeApp) -> None:
    playback.seek(live[120].snapshot.wall_ns)
    assert not app.at(live[120]).state.ended
    playback.step(-1)
    app.at(live[119])
    playback.step(2)
    app.at(live[121])
    playback.seek(2**62)
    assert app.at(live[-1]).state.ended
    playback.skip(-10)
    wanted_ns = live[-1].snapshot.wall_ns - 10 * 10**9
    app.at([f for f in live if f.snapshot.wall_ns <= wanted_ns][-1])


def test_the_newest_request_replaces_older_ones(playback: PlaybackThread, live: list[Frame], app: FakeApp) -> None:
    for i in (10, 190, 70, 150, 30, 130):
        playback.seek(live[i].snapshot.wall_ns)
    playback.step(1)
    playback.step(1)
    app.at(live[132])
    shown = [m for m in app.messages if isinstance(m, PlaybackFrame) and not m.early]
    assert len(shown) < 6
    assert shown[-1].frame == live[132]


def test_several_skips_add_up(playback: PlaybackThread, live: list[Frame], app: FakeApp) -> None:
    for _ in range(6):
        playback.skip(10)
    wanted = live[0].snapshot.wall_ns + 60 * 10**9
    app.at([f for f in live if f.snapshot.wall_ns <= wanted][-1])


def test_the_first_skip_counts_from_the_frame_that_is_shown(path: str, live: list[Frame], app: FakeApp) -> None:
    cursor = FrameCursor([FileRecording(path)])
    shown = cursor.seek(live[100].snapshot.wall_ns)
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    playback.skip(10)
    wanted = shown.snapshot.wall_ns + 10 * 10**9
    app.at([f for f in live if f.snapshot.wall_ns <= wanted][-1])
    assert playback.close()


def test_changes_of_the_verdict_and_marks_are_on_the_timeline(tmp_path: Path, app: FakeApp) -> None:
    live = stalling()
    cursor = FrameCursor([FileRecording(record(tmp_path / "stalling", live))])
    cursor.seek(0)
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    line = app.timeline(live[-1])
    states = [(f.snapshot.wall_ns, str(f.verdict.state)) for f in live]
    changes = [s for i, s in enumerate(states) if i == 0 or s[1] != states[i - 1][1]]
    assert [state for _, state in changes] == ["UNSURE", "STARVED", "UNSURE"]
    assert line.changes == tuple(changes)
    assert line.marks == ((live[20].snapshot.wall_ns, "epoch 20"), (live[90].snapshot.wall_ns, "epoch 90"))
    assert line.gaps == ()
    starved = next(f for f in live if f.snapshot.wall_ns == changes[1][0])
    playback.to_verdict_change(1)
    app.at(starved)
    playback.to_next_mark()
    assert app.at(live[90]).state.note == "mark: epoch 90"
    playback.to_verdict_change(-1)
    app.at(starved)
    playback.to_verdict_change(-1)
    app.at(live[0])
    playback.to_verdict_change(-1)
    app.until(lambda m: isinstance(m, PlaybackFrame) and m.state.note == "no earlier change of the verdict")
    assert playback.close()


def test_a_mark_between_two_frames_is_found_once(tmp_path: Path, app: FakeApp) -> None:
    snapshots = [frame.snapshot for frame in stalling(60, (70, 100))]
    snapshots = [snapshot._replace(events=()) for snapshot in snapshots]
    for at in (20, 40):
        now = snapshots[at]
        event = Event(now.at_ns - 5 * 10**8, now.wall_ns - 5 * 10**8, "mark", f"epoch {at}")
        snapshots[at] = now._replace(events=(event,))
    live = list(frames(snapshots))
    cursor = FrameCursor([FileRecording(record(tmp_path / "between", live))])
    cursor.seek(0)
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    app.timeline(live[-1])
    playback.to_next_mark()
    assert app.at(live[19]).state.note == "mark: epoch 20"
    playback.to_next_mark()
    assert app.at(live[39]).state.note == "mark: epoch 40"
    for _ in range(2):
        app.messages.clear()
        playback.to_next_mark()
        assert app.at(live[39]).state.note == "no further mark"
    assert playback.close()


def test_ends_of_a_job_are_on_the_timeline(tmp_path: Path, app: FakeApp) -> None:
    def with_end(now: Snapshot, role: str, pid: int, code: int | None) -> Snapshot:
        event = Event(now.at_ns, now.wall_ns, "process_ended", f"{role} {pid}", role, pid, code, 7)
        return now._replace(events=(*now.events, event))

    snapshots = [frame.snapshot for frame in stalling(60)]
    ends = [(10, "worker", 11, 0), (12, "worker", 12, None), (14, "worker", 13, -15), (30, "worker", 14, -9),
            (40, "trainer", 7, 0), (50, "trainer", 8, -9), (51, "member", 15, 1)]  # fmt: skip
    for at, role, pid, code in ends:
        snapshots[at] = with_end(snapshots[at], role, pid, code)
    live = list(frames(snapshots))
    cursor = FrameCursor([FileRecording(record(tmp_path / "ends", live))])
    cursor.seek(live[25].snapshot.wall_ns)
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    line = app.timeline(live[-1])
    assert line.ends == tuple(
        (live[at].snapshot.wall_ns, text, bad)
        for at, text, bad in ((30, "worker 14", True), (40, "trainer 7", False), (50, "trainer 8", True))
    )
    playback.seek(live[25].snapshot.wall_ns)
    app.at(live[25])
    for at, text in ((30, "worker 14"), (40, "trainer 7"), (50, "trainer 8")):
        playback.to_next_mark()
        assert app.at(live[at]).state.note == text
    assert playback.close()


def test_kernel_events_are_on_the_timeline(tmp_path: Path, app: FakeApp) -> None:
    live = stalling(60)
    kinds = [(10, "io_error"), (20, "raid"), (30, "read_only"), (40, "xid"), (50, "oom_kill")]
    for at, kind in kinds:
        now = live[at].snapshot
        event = Event(now.at_ns, now.wall_ns, kind, f"{kind} of it")
        live[at] = live[at]._replace(snapshot=now._replace(events=(*now.events, event)))
    cursor = FrameCursor([FileRecording(record(tmp_path / "kernel", live))])
    cursor.seek(live[0].snapshot.wall_ns)
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    line = app.timeline(live[-1])
    assert line.ends == tuple(
        (live[at].snapshot.wall_ns, f"{kind} of it", True) for at, kind in kinds if kind != "raid"
    )
    assert playback.close()


def test_a_timeline_recorded_with_other_rules_is_computed_again(tmp_path: Path, app: FakeApp) -> None:
    live = stalling()
    path = Path(record(tmp_path / "old", live))
    path.write_bytes(path.read_bytes().replace(stamp().encode(), b"x" * len(stamp())))
    cursor = FrameCursor([FileRecording(str(path))])
    cursor.seek(0)
    assert cursor.judged_anew
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    wanted = [(f.snapshot.wall_ns, str(f.verdict.state)) for f in live]
    wanted = [s for i, s in enumerate(wanted) if i == 0 or s[1] != wanted[i - 1][1]]
    app.until(lambda m: isinstance(m, TimelineUpdate) and m.timeline.changes == tuple(wanted))
    assert playback.close()


def test_the_verdict_from_before_the_kept_part_is_known() -> None:
    """The line with this verdict is older than everything that the ring still has."""
    live = stalling(200, (5, 390))
    ring = Ring(most_s=60.0)
    for frame in live:
        ring.put(frame)
        assert ring.drain(60)
    held = ring.recording()
    assert held is not None
    assert not any(b'"k":"verdict"' in line for block in held.blocks for line in held.raw_lines(block))
    begin = held.blocks[1]
    reader = TimelineReader([held], begin.wall_ns)
    while reader.step():
        pass
    line = reader.timeline(live[-1].snapshot.wall_ns)
    assert line.changes == ((begin.wall_ns, "STARVED"),)
    assert line.known_ns == live[-1].snapshot.wall_ns
    ring.close()


def test_a_gap_is_on_the_timeline(tmp_path: Path, app: FakeApp) -> None:
    live = stalling(60)
    without = [*live[:20], *live[40:]]
    cursor = FrameCursor([FileRecording(record(tmp_path / "gap", without))])
    cursor.seek(0)
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    gap = (live[19].snapshot.wall_ns, live[40].snapshot.wall_ns)
    app.until(lambda m: isinstance(m, TimelineUpdate) and m.timeline.gaps == (gap,))
    assert playback.close()


def test_a_replay_plays_to_the_end_and_stops(playback: PlaybackThread, live: list[Frame], app: FakeApp) -> None:
    for _ in range(6):
        playback.change_speed(1)
    playback.seek(live[-30].snapshot.wall_ns)
    app.at(live[-30])
    playback.toggle()
    last = app.until(lambda m: isinstance(m, PlaybackFrame) and m.state.ended and not m.state.playing)
    assert isinstance(last, PlaybackFrame)
    assert last.frame == live[-1]
    assert last.state.speed == 64.0
    order = [m.frame.snapshot.seq for m in app.messages if isinstance(m, PlaybackFrame) and m.state.playing]
    assert order == sorted(order)


def test_a_key_pressed_at_the_very_end_is_not_lost(
    tmp_path: Path, app: FakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = lived(11, 4)
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    cursor.seek(0)
    playback = PlaybackThread(cursor, app, Clock(), playing=True, speed=32)
    original_replace = PlaybackState._replace

    def replace(state: PlaybackState, **changes: Any) -> PlaybackState:
        made = original_replace(state, **changes)
        if changes == {"playing": False}:
            key = threading.Thread(target=playback.change_speed, args=(1,))
            key.start()
            key.join(0.2)
        return made

    monkeypatch.setattr(PlaybackState, "_replace", replace)
    playback.start()
    found = app.until(lambda m: isinstance(m, PlaybackFrame) and not m.state.playing and m.state.speed == 64)
    assert isinstance(found, PlaybackFrame)
    assert found.frame == live[-1]
    assert playback.close()


def played_seconds(path: str, begin: int, seconds: int, app: FakeApp, speed: float = 1.0) -> list[int]:
    """The second of the recording that is shown in each second of playing."""
    cursor, clock = FrameCursor([FileRecording(path)]), SetClock()
    frame: Frame | None = cursor.seek(0)
    while frame is not None and frame.snapshot.seq < begin:
        frame = cursor.forward()
    thread = PlaybackThread(cursor, app, clock, playing=True, speed=speed)
    thread._restart_clock()
    shown = []
    for second in range(seconds):
        clock.now_ns = second * 10**9
        for _ in range(20):
            wait_s = thread._play()
            assert wait_s is not None
            assert wait_s <= 2.0
            clock.now_ns += 10**6
        assert cursor.frame is not None
        shown.append(cursor.frame.snapshot.seq)
    return shown


@pytest.mark.parametrize(("speed", "step"), [(1.0, 1), (4.0, 4)])
def test_a_clock_that_was_set_back_skips_no_time(tmp_path: Path, app: FakeApp, speed: float, step: int) -> None:
    path = record(tmp_path / "a", clock_set_back(150, 100, 60))
    assert played_seconds(path, 96, 10, app, speed) == [96 + i * step for i in range(10)]


def test_a_pause_in_the_recording_is_skipped(tmp_path: Path, app: FakeApp) -> None:
    path = record(tmp_path / "a", clock_set_back(150, 100, -3600))
    assert played_seconds(path, 97, 6, app)[-1] >= 101


class SlowMachineClock(SetClock):
    """A clock that advances by 30 ms whenever it is read, as if each Frame took that long to decode."""

    def monotonic_ns(self) -> int:
        self.skip(0.03)
        return self.now_ns


def test_frames_are_shown_while_the_machine_is_too_slow_for_the_speed(tmp_path: Path, app: FakeApp) -> None:
    live = stalling()
    cursor, clock = FrameCursor([FileRecording(record(tmp_path / "a", live))]), SlowMachineClock()
    cursor.seek(0)
    thread = PlaybackThread(cursor, app, clock, playing=True, speed=64)
    thread._restart_clock()
    clock.skip(2.0)
    assert [thread._play() for _ in range(3)] == [0.0] * 3
    assert [m.frame for m in app.messages if isinstance(m, PlaybackFrame)] == [live[4], live[8], live[12]]


def test_a_skip_forward_crosses_a_pause_in_the_recording(tmp_path: Path, app: FakeApp) -> None:
    live = clock_set_back(150, 100, -3600)
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    cursor.seek(live[99].snapshot.wall_ns)
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    playback.skip(10)
    app.until(lambda m: isinstance(m, PlaybackFrame) and not m.early and m.frame.snapshot.seq == 100)
    assert playback.close()


def test_a_second_skip_within_a_pause_does_not_go_back(tmp_path: Path, app: FakeApp) -> None:
    live = clock_set_back(150, 100, -3600)
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    cursor.seek(live[99].snapshot.wall_ns)
    playback = PlaybackThread(cursor, app, Clock())
    playback._restart_clock()
    begin_ns = live[99].snapshot.wall_ns
    for passed_s in (0, 10):
        from_ns = begin_ns + passed_s * 1_000_000_000
        playback._serve(_SeekRequest(from_ns + 10_000_000_000, forward_from_ns=from_ns))
        assert cursor.frame == live[100]


def past_at(frame: Frame, app: FakeApp) -> list[int]:
    """Wait for the Samples older than this Frame's history, and return their times."""
    found = app.until(lambda m: isinstance(m, PastSamples) and m.at_ns == frame.snapshot.at_ns)
    assert isinstance(found, PastSamples)
    return [s.at_ns for s in found.past]


def test_graphs_get_the_earlier_samples(playback: PlaybackThread, live: list[Frame], app: FakeApp) -> None:
    playback.seek(live[180].snapshot.wall_ns)
    first = live[180].history[0].at_ns
    assert past_at(live[180], app) == [f.snapshot.at_ns for f in live if f.snapshot.at_ns < first]


def test_graphs_get_the_earlier_samples_again_after_a_jump(
    playback: PlaybackThread, live: list[Frame], app: FakeApp
) -> None:
    first = live[-1].history[0].at_ns
    for _ in range(2):
        app.messages.clear()
        playback.seek(live[-1].snapshot.wall_ns)
        assert past_at(live[-1], app) == [f.snapshot.at_ns for f in live if f.snapshot.at_ns < first]
        playback.seek(live[0].snapshot.wall_ns)
        assert past_at(live[0], app) == []


def test_a_file_that_grows_is_followed(tmp_path: Path, live: list[Frame], app: FakeApp) -> None:
    recorder = recorder_of(FileSink(str(tmp_path / "grows")))
    for frame in live[:40]:
        recorder.put(frame)
    written(recorder, 40)
    cursor = FrameCursor([FileRecording(str(tmp_path / "grows"))])
    cursor.seek(2**62)
    playback = PlaybackThread(cursor, app, Clock(), playing=True, follows=True)
    playback.start()
    for frame in live[40:43]:
        recorder.put(frame)
    app.at(live[42])
    app.until(lambda m: isinstance(m, TimelineUpdate) and m.timeline.end_ns == live[42].snapshot.wall_ns)
    assert recorder.close()
    assert playback.close()


def test_a_damaged_recording_is_reported(tmp_path: Path, live: list[Frame], app: FakeApp) -> None:
    path = tmp_path / "broken"
    record(path, live[:150])
    lines = path.read_bytes().split(b"\n")
    damaged = next(i for i, line in enumerate(lines) if i > 100 and line.startswith(b'{"k":"snap"'))
    lines[damaged] = lines[damaged][:60] + b"}"
    path.write_bytes(b"\n".join(lines))
    cursor = FrameCursor([FileRecording(str(path))])
    cursor.seek(0)
    playback = PlaybackThread(cursor, app, Clock())
    playback.start()
    playback.seek(live[149].snapshot.wall_ns)
    ended = app.until(lambda m: isinstance(m, PlaybackFailed))
    assert isinstance(ended, PlaybackFailed)
    assert "line" in str(ended.error)
    assert playback.close()
