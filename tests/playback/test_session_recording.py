"""Recordings of a session: their start, what the screen shows of them, and their end while the disk is busy."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.snapshot import Event
from iotop_ai.pipeline import frames
from iotop_ai.playback.session_recording import CLOSE_S, SessionRecorder
from iotop_ai.present.screen.recording_state import recording_text
from iotop_ai.present.screen.view import RecordingState
from iotop_ai.store.last_hour import Ring
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.recorder import SYNC_S, Recorder
from iotop_ai.store.write.sink import FileSink
from tests.clocks import ShiftedClock
from tests.rigs.threads import no_thread
from tests.store.write.test_recorder_failing import put
from tests.tui.recorded import stalling

WAIT_S = 20.0


class SlowSink(FileSink):
    """A file whose sync lasts until the test lets it end."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.syncing = threading.Event()
        self.may_end = threading.Event()

    def sync(self) -> None:
        self.syncing.set()
        assert self.may_end.wait(WAIT_S)
        super().sync()


class FailingSink(FileSink):
    """A file that cannot be synced."""

    def sync(self) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class Stopping:
    """A recording of one Snapshot whose stop waits for the disk. A thread stops it, as the key R does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sink = SlowSink(str(path))
        self.session_recorder = SessionRecorder(
            Clock(), record=lambda lines: Recorder(self.sink, Clock(), preroll=lines)
        )
        self.session_recorder.put(stalling()[0])
        self.session_recorder.switch()
        self.states: list[object] = []
        self.thread = threading.Thread(target=lambda: self.states.append(self.session_recorder.switch()), daemon=True)
        self.thread.start()
        assert self.sink.syncing.wait(WAIT_S)

    def ended(self) -> RecordingState:
        """The state that the stop returned."""
        self.thread.join(WAIT_S)
        (state,) = self.states
        assert isinstance(state, RecordingState)
        return state

    def seqs(self) -> list[int]:
        """The sequence numbers in the file, which must be complete."""
        recording = FileRecording(str(self.path))
        assert recording.closed()
        return [frame.snapshot.seq for frame in frames(recording.items())]


@pytest.fixture
def stopping(tmp_path: Path) -> Iterator[Stopping]:
    case = Stopping(tmp_path / "run.iotop.jsonl")
    yield case
    case.sink.may_end.set()
    case.thread.join(WAIT_S)


def test_the_key_waits_longer_for_the_disk_than_the_end_of_the_program(stopping: Stopping) -> None:
    time.sleep(CLOSE_S + 0.2)
    assert not stopping.states
    assert stopping.session_recorder.recording_state() is not None  # the screen still says that it writes
    stopping.sink.may_end.set()
    assert not stopping.ended().trouble
    assert not stopping.session_recorder.stuck
    assert stopping.session_recorder.recording_state() is None
    assert len(stopping.seqs()) == 1


def test_the_program_ends_while_the_key_waits(stopping: Stopping) -> None:
    threading.Timer(0.5, stopping.sink.may_end.set).start()
    stopping.session_recorder.close()
    assert stopping.session_recorder.last is not None
    assert not stopping.session_recorder.last.trouble
    assert not stopping.session_recorder.stuck
    assert len(stopping.seqs()) == 1


def test_the_program_ends_while_the_disk_does_not_answer(stopping: Stopping) -> None:
    begin = time.monotonic()
    stopping.session_recorder.close(1.0)
    assert time.monotonic() - begin < 1.5
    assert stopping.session_recorder.last is not None
    assert stopping.session_recorder.last.trouble == "its disk does not answer"
    assert stopping.session_recorder.stuck


def test_a_file_that_opens_after_the_end_of_the_session_is_complete(tmp_path: Path) -> None:
    path, opening, may_open = str(tmp_path / "run.iotop.jsonl"), threading.Event(), threading.Event()

    def record(lines: tuple[str, ...]) -> Recorder:
        opening.set()
        assert may_open.wait(WAIT_S)
        return Recorder(FileSink(path), Clock(), preroll=lines)

    session_recorder = SessionRecorder(Clock(), record=record)
    session_recorder.put(stalling()[0])
    thread = threading.Thread(target=session_recorder.switch, daemon=True)
    thread.start()
    assert opening.wait(WAIT_S)
    session_recorder.close(0.2)
    may_open.set()
    thread.join(WAIT_S)
    assert session_recorder.last is not None
    assert session_recorder.last.path == path
    assert FileRecording(path).closed()


def test_a_file_for_which_the_disk_has_no_room_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"

    def record(lines: tuple[str, ...]) -> Recorder:
        return Recorder(FileSink(str(path)), Clock(), preroll=lines, min_free_bytes=1 << 62)

    session_recorder = SessionRecorder(Clock(), record=record)
    session_recorder.put(stalling()[0])
    assert session_recorder.switch() == str(path)
    assert path.exists()
    state = session_recorder.switch()
    assert isinstance(state, RecordingState)
    assert "free on its disk" in state.trouble
    assert not path.exists()


def test_the_last_hour_and_a_recording_begin_when_their_threads_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames_ = stalling()

    def record(lines: tuple[str, ...]) -> Recorder:
        return Recorder(FileSink.new(str(tmp_path / "run.iotop.jsonl")), Clock(), preroll=lines, min_free_bytes=0)

    session_recorder = SessionRecorder(Clock(), Ring, record, "full")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        for frame in frames_[:3]:
            session_recorder.put(frame)
        with pytest.raises(RuntimeError):
            session_recorder.switch()
    session_recorder.put(frames_[3])
    assert session_recorder.ring is not None
    assert session_recorder.ring.drain(60)
    path = session_recorder.switch()
    assert isinstance(path, str)
    session_recorder.put(frames_[4])
    assert isinstance(session_recorder.switch(), RecordingState)
    recording = FileRecording(path)
    assert recording.closed()
    assert frames_[4].snapshot.seq in [frame.snapshot.seq for frame in frames(recording.items())]
    session_recorder.close()


def test_the_screen_shows_the_recording_until_it_is_closed(tmp_path: Path) -> None:
    shown: list[RecordingState | None] = []

    def pending(seq: int) -> tuple[Event, ...]:
        shown.append(session_recorder.recording_state())
        return ()

    def record(lines: tuple[str, ...]) -> Recorder:
        return Recorder(FileSink(str(tmp_path / "a.iotop.jsonl")), Clock(), preroll=lines)

    session_recorder = SessionRecorder(Clock(), record=record, pending=pending)
    session_recorder.put(stalling()[0])
    session_recorder.switch()
    session_recorder.switch()
    assert len(shown) == 1
    assert shown[0] is not None
    assert session_recorder.recording_state() is None


def test_after_an_error_the_state_is_that_of_both_files(tmp_path: Path) -> None:
    first, second, clock = tmp_path / "run.iotop.jsonl", tmp_path / "run-2.iotop.jsonl", ShiftedClock()
    recorder = Recorder(FailingSink(str(first)), clock, min_free_bytes=0)
    session_recorder = SessionRecorder(clock, record=lambda lines: recorder)
    session_recorder.switch()
    put(recorder, stalling()[:2])
    clock.skip(SYNC_S + 1)
    put(recorder, stalling()[2:4])
    state = session_recorder.switch()
    assert isinstance(state, RecordingState)
    assert (state.path, state.trouble, state.lost) == (str(second), "", 0)
    assert state.size_bytes == first.stat().st_size + second.stat().st_size
    assert recording_text(state).endswith(f" in {first}, continued in {second}")
