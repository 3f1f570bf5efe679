"""What is kept of a live session: the last hour in memory, and the file when the user records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from iotop_ai.collectors.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Event
from iotop_ai.pipeline import closing
from iotop_ai.present.view import Recorded

if TYPE_CHECKING:
    from iotop_ai.store.recorder import Recorder
    from iotop_ai.store.ring import Ring

CLOSE_S = 3.0
_SECOND = 1_000_000_000


class Keeper:
    """Gets every Frame on the thread that follows the source; the screen asks and switches from its own.

    ring: makes the ring, None keeps nothing. It is made with the second Frame, when the screen has long answered its
    first key: what writes it is dear to import. record: makes the recorder for a pre-roll, raising what refuses; None
    where nothing may be recorded. cmdline: how much of a command line a file may hold. pending: the events that no
    Snapshot up to this number carries; a file that is closed ends with them.
    """

    def __init__(
        self,
        clock: Clock,
        ring: Callable[[], Ring] | None = None,
        record: Callable[[tuple[str, ...]], Recorder] | None = None,
        cmdline: str = "names",
        pending: Callable[[int], tuple[Event, ...]] = lambda seq: (),
    ) -> None:
        self._clock = clock
        self._make_ring = ring
        self._ring: Ring | None = None
        self._ring_lock = threading.Lock()
        self._first: Frame | None = None
        """The Frame that waits for the ring."""
        self._record = record
        self._lock = threading.Lock()
        self._cmdline = cmdline
        self._pending = pending
        self._recorder: Recorder | None = None
        self._waiting: list[Frame] | None = None
        """Frames that came while a file is being opened; they are its first."""
        self._newest: Frame | None = None
        self._turn = threading.Lock()
        """Held by who begins or ends a file: a second key may come while the first is still at it."""
        self._over = False
        self.last: Recorded | None = None
        """What the last file came to that was ended; None when none was."""

    @property
    def may_record(self) -> bool:
        """Whether a recording can be started at all."""
        return self._record is not None

    @property
    def ring(self) -> Ring | None:
        """The last hour; None where nothing is kept."""
        if self._ring is None and self._make_ring is not None:
            with self._ring_lock:
                if self._ring is None:
                    ring = self._make_ring()
                    if self._first is not None:
                        ring.put(self._first)
                    self._ring, self._first = ring, None
        return self._ring

    def put(self, frame: Frame) -> None:
        """Keep and record a Frame."""
        if not self._waits(frame) and (ring := self.ring) is not None:
            ring.put(frame)
        with self._lock:
            self._newest = frame
            if self._waiting is not None:
                self._waiting.append(frame)
            elif self._recorder is not None:
                self._recorder.put(frame)

    def _waits(self, frame: Frame) -> bool:
        """Whether it is the first, which does not make the ring."""
        with self._ring_lock:
            if self._make_ring is None or self._ring is not None or self._first is not None:
                return False
            self._first = frame
            return True

    def switch(self) -> str | Recorded | None:
        """Begin a file and give its path, or end the one that there is and give what was recorded.

        None when the session is over. Raises IotopError or OSError where a file cannot be begun.
        """
        with self._turn:
            if self._recorder is not None:
                return self.stop()
            return None if self._over else self.start()

    def start(self) -> str:
        """Begin a file; its path. Raises IotopError or OSError where it cannot be."""
        assert self._record is not None  # the screen asks may_record first
        with self._lock:
            self._waiting = []
            before_ns = 1 if self._newest is None else self._newest.snapshot.at_ns + 1
        recorder = None
        try:
            ring = self.ring
            preroll = ring.preroll(self._cmdline, before_ns) if ring is not None else ()
            recorder = self._record(preroll)
        finally:
            with self._lock:
                waiting, self._waiting, self._recorder = self._waiting, None, recorder
                if recorder is not None:
                    for frame in waiting:
                        recorder.put(frame)
        return recorder.state().path

    def close(self) -> None:
        """End the recording, also one that is just being begun, and let go of what is kept.

        ``last`` is then what that recording came to, None when none was on.
        """
        self.last = None
        mine = self._turn.acquire(timeout=CLOSE_S)
        self._over = True
        self.stop()
        if mine:
            self._turn.release()
        if self._ring is not None:
            self._ring.close()

    def stop(self) -> Recorded | None:
        """Close the file; what was recorded, None when nothing was.

        One that was closed before a Snapshot came holds the newest, and the minute before it.
        """
        with self._lock:
            recorder, self._recorder = self._recorder, None
            newest = self._newest
            if recorder is None:
                return None
            # While we hold the lock no Snapshot comes by, so none can carry away what is asked for here.
            events = () if newest is None else self._pending(newest.snapshot.seq)
        if newest is not None and (events or not recorder.state().snapshots):
            recorder.put(closing(newest, events, self._clock.monotonic_ns(), self._clock.wall_ns()))
        closed = recorder.close(CLOSE_S)
        state = self._state(recorder)
        self.last = state if closed else state._replace(trouble="its disk does not answer")
        return self.last

    def recorded(self) -> Recorded | None:
        """How the recording goes; None when there is none."""
        recorder = self._recorder
        return None if recorder is None else self._state(recorder)

    def _state(self, recorder: Recorder) -> Recorded:
        state = recorder.state()
        seconds = (self._clock.monotonic_ns() - state.started_ns) / _SECOND
        return Recorded(state.path, seconds, state.size_bytes, state.trouble)
