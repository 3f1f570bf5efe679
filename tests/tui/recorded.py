"""Recordings for tests of the screen, written by the real recorder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.tui import scene


def recorder_of(sink: FileSink, **options: Any) -> Recorder:
    """A recorder that does not redact anything."""
    return Recorder(sink, Clock(), cmdline="full", min_free_bytes=0, **options)


def written(recorder: Recorder, count: int) -> None:
    """Wait until this many Snapshots are in the file."""
    for _ in range(4000):
        if recorder.state().snapshots >= count:
            return
        time.sleep(0.005)
    raise AssertionError("the recorder does not keep up")


def record(path: Path, live: Sequence[Frame], **options: Any) -> str:
    """Record these Frames, close the recording, and return its path."""
    recorder = recorder_of(FileSink(str(path)), **options)
    for count, frame in enumerate(live, 1):
        recorder.put(frame)
        if count % 50 == 0:  # if the queue were full, Frames would be dropped
            written(recorder, count)
    assert recorder.close()
    assert (recorder.state().dropped, recorder.state().trouble) == (0, "")
    return str(path)


def stalling(count: int = 130, stall: tuple[int, int] = (70, 100)) -> list[Frame]:
    """Frames, one per second, of a machine whose sda is slow in the seconds ``stall``. Marks are at 20 and 90."""
    return list(_stalling(count, stall))


@cache
def _stalling(count: int, stall: tuple[int, int]) -> tuple[Frame, ...]:

    def at(n: int) -> Snapshot:
        busy = max(0, min(n, stall[1]) - stall[0])
        made = scene.snapshot(n)
        slow, *others = scene.block(busy).items()
        # A device with requests in flight but no completion would count as one that does not answer.
        slow_counters = slow[1] if stall[0] < n <= stall[1] else slow[1]._replace(in_flight=0)
        calm = dict(others) if n == 0 else {key: scene.block(n)[key] for key, _ in others}
        events = (Event(made.at_ns, made.wall_ns, "mark", f"epoch {n}"),) if n in (20, 90) else ()
        block = made.block._replace(value={slow[0]: slow_counters, **calm})
        return made._replace(block=block, events=events)

    return tuple(frames(at(n) for n in range(count)))
