"""Frames that wait until the screen handles them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from textual.message import Message

from iotop_ai.model.errors import UnknownError
from iotop_ai.model.frame import Frame
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.messages import FrameReady, SourceEnded
from iotop_ai.tui.threads.source import SourceThread
from tests.rigs.threads import no_thread
from tests.tui.scene import made_frames


class FakeApp:
    """An app that handles its messages at once, or never."""

    def __init__(self, takes: bool) -> None:
        self.takes = takes
        self.held: list[Message] = []
        self.taken: list[Frame] = []

    def post_message(self, message: Message) -> bool:
        if self.takes and isinstance(message, FrameReady):
            self.taken.append(message.take())
        else:
            self.held.append(message)
        return True


def followed(takes: bool) -> tuple[FakeApp, list[Frame]]:
    made = made_frames(9)
    app = FakeApp(takes)
    source_thread = SourceThread(made, MemoryRecording(), app)
    source_thread.start()
    while not any(isinstance(message, SourceEnded) for message in app.held):
        source_thread._thread.join(0.1)
    return app, made


def test_only_the_newest_frame_waits_for_a_stuck_screen() -> None:
    app, made = followed(takes=False)
    first, last = app.held
    assert isinstance(first, FrameReady)
    assert isinstance(last, SourceEnded)
    assert first.take() is made[-1]
    assert not first.replace(made[0])
    assert first.take() is made[-1]


def test_a_fast_screen_gets_every_frame() -> None:
    app, made = followed(takes=True)
    assert app.taken == list(made)


def test_a_source_that_gets_no_thread_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    app = FakeApp(takes=True)
    source_thread = SourceThread(made_frames(2), MemoryRecording(), app)
    source_thread.start()
    (ended,) = app.held
    assert isinstance(ended, SourceEnded)
    assert isinstance(ended.error, UnknownError)
    assert str(ended.error) == "the machine is not read: can't start new thread"
    assert source_thread.stop(0.0)


def test_frames_that_no_thread_reads_are_closed_before_the_interpreter_ends() -> None:
    ends = []

    def stream() -> Iterator[Frame]:
        try:
            yield from made_frames(2)
        finally:
            ends.append("closed")

    frames = stream()
    next(frames)  # the first picture shows this Frame
    source_thread = SourceThread(frames, MemoryRecording(), FakeApp(takes=True))
    assert source_thread.stop(0.0)
    assert ends == ["closed"]
