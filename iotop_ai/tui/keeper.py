"""What is kept of a live session: the last hour in memory, and the file when the user records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from iotop_ai.collectors.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.present.view import Recorded
from iotop_ai.store.recorder import Recorder
from iotop_ai.tui.tape import Reel

CLOSE_S = 3.0
_SECOND = 1_000_000_000


class Ring(Protocol):
    """The last hour in memory."""

    def put(self, frame: Frame) -> None:
        """Keep a Frame; returns at once."""
        ...

    def preroll(self) -> tuple[str, ...]:
        """The lines of the last minute for the start of a file."""
        ...

    def reel(self) -> Reel:
        """What is kept now, to be stepped through; it does not change while it is."""
        ...


class Keeper:
    """Gets every Frame on the thread that follows the source; the screen asks and switches from its own.

    ring: None keeps nothing. record: makes the recorder for a pre-roll, raising what refuses; None where nothing may
    be recorded.
    """

    def __init__(
        self, clock: Clock, ring: Ring | None = None, record: Callable[[tuple[str, ...]], Recorder] | None = None
    ) -> None:
        self._clock = clock
        self.ring = ring
        self._record = record
        self._lock = threading.Lock()
        self._recorder: Recorder | None = None

    @property
    def may_record(self) -> bool:
        """Whether a recording can be started at all."""
        return self._record is not None

    def put(self, frame: Frame) -> None:
        """Keep and record a Frame."""
        if self.ring is not None:
            self.ring.put(frame)
        with self._lock:
            if self._recorder is not None:
                self._recorder.put(frame)

    def start(self) -> str:
        """Begin a file; its path. Raises IotopError or OSError where it cannot be."""
        assert self._record is not None  # the screen asks may_record first
        recorder = self._record(self.ring.preroll() if self.ring is not None else ())
        with self._lock:
            self._recorder = recorder
        return recorder.state().path

    def stop(self) -> Recorded | None:
        """Close the file; what was recorded, None when nothing was."""
        with self._lock:
            recorder, self._recorder = self._recorder, None
        if recorder is None:
            return None
        closed = recorder.close(CLOSE_S)
        state = self._state(recorder)
        return state if closed else state._replace(trouble="its disk does not answer")

    def recorded(self) -> Recorded | None:
        """How the recording goes; None when there is none."""
        recorder = self._recorder
        return None if recorder is None else self._state(recorder)

    def _state(self, recorder: Recorder) -> Recorded:
        state = recorder.state()
        seconds = (self._clock.monotonic_ns() - state.started_ns) / _SECOND
        return Recorded(state.path, seconds, state.size_bytes, state.trouble)
