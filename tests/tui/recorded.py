"""Recordings for the tests of the screen, made by the real recorder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iotop_ai.collectors.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.store.recorder import Recorder
from iotop_ai.store.sink import FileSink


def recorder_of(sink: FileSink, **options: Any) -> Recorder:
    """A recorder that leaves nothing out."""
    return Recorder(sink, Clock(), cmdline="full", min_free_bytes=0, **options)


def written(recorder: Recorder, count: int) -> None:
    """Wait until so many Snapshots are in the file."""
    for _ in range(4000):
        if recorder.state().snapshots >= count:
            return
        time.sleep(0.005)
    raise AssertionError("the recorder does not keep up")


def record(path: Path, live: Sequence[Frame], **options: Any) -> str:
    """A closed recording of these Frames; its path."""
    recorder = recorder_of(FileSink(str(path)), **options)
    for count, frame in enumerate(live, 1):
        recorder.put(frame)
        if count % 50 == 0:  # its queue drops what it cannot hold
            written(recorder, count)
    assert recorder.close()
    assert (recorder.state().dropped, recorder.state().trouble) == (0, "")
    return str(path)
