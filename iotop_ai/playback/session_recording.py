"""Records a live session: the last hour in memory, and a file when the user starts a recording."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Event
from iotop_ai.pipeline import closing_frame
from iotop_ai.present.screen.view import RecordingState

if TYPE_CHECKING:
    from iotop_ai.store.last_hour import Ring
    from iotop_ai.store.write.recorder import Recorder, RecorderState

CLOSE_S = 3.0
"""How long closing a recording may take when the session ends, in seconds."""
STOP_S = 30.0
"""How long closing a recording may take while the screen stays live, in seconds.

This is long, because a sync also waits for the writes of other programs.
"""
_SECOND = 1_000_000_000


class SessionRecorder:
    """Records the Frames of a live session.

    The source's thread calls ``put``; the screen calls the other methods from its own thread.

    ring: makes the ring buffer that holds the last hour; None for no ring. The ring is made when the second Frame
    arrives, because importing its writer is slow. record: makes the recorder of a file that begins with the given
    lines, or raises an error; None if recording is not possible. cmdline: the level to which command lines are
    redacted. pending: returns the events after the Snapshot with the given sequence number; they are written at the end
    of a file. why_other_folder: returns why a file is not in the current folder; "" if it is there.
    """

    def __init__(
        self,
        clock: Clock,
        ring: Callable[[], Ring] | None = None,
        record: Callable[[tuple[str, ...]], Recorder] | None = None,
        cmdline: str = "names",
        pending: Callable[[int], tuple[Event, ...]] = lambda seq: (),
        why_other_folder: Callable[[], str] = str,
    ) -> None:
        self.why_other_folder = why_other_folder
        self._clock = clock
        self._make_ring = ring
        self._ring: Ring | None = None
        self._ring_lock = threading.Lock()
        self._first: Frame | None = None
        """The first Frame, kept until the ring is made."""
        self._record = record
        self._lock = threading.Lock()
        self._cmdline = cmdline
        self._pending = pending
        self._recorder: Recorder | None = None
        self._ending: Recorder | None = None
        """The recorder whose last lines are being written; ``put`` passes no more Frames to it."""
        self._waiting: list[Frame] | None = None
        """The Frames that arrive while a file is being opened; the file begins with them. None at other times."""
        self._newest: Frame | None = None
        self._switching = threading.Lock()
        """Locked while a file is being started or ended, so that a second key press waits."""
        self._closed = False
        self.stuck = False
        """Whether a file could not be closed because its disk does not answer."""
        self.last: RecordingState | None = None
        """The state of the last file that was closed; None if there was none."""

    @property
    def may_record(self) -> bool:
        """Whether a recording can be started."""
        return self._record is not None

    @property
    def ring(self) -> Ring | None:
        """The last hour in memory, made at the first access; None without a ring, or while its thread cannot start."""
        if self._ring is None and self._make_ring is not None:
            with self._ring_lock:
                if self._ring is None:
                    try:
                        ring = self._make_ring()
                    except RuntimeError:  # this user has too many threads; the next Frame tries again
                        return None
                    if self._first is not None:
                        ring.put(self._first)
                    self._ring, self._first = ring, None
        return self._ring

    def put(self, frame: Frame) -> None:
        """Add a Frame to the ring and to the file."""
        if not self._keep_first(frame) and (ring := self.ring) is not None:
            ring.put(frame)
        with self._lock:
            self._newest = frame
            if self._waiting is not None:
                self._waiting.append(frame)
            elif self._recorder is not None:
                self._recorder.put(frame)

    def _keep_first(self, frame: Frame) -> bool:
        """Keep the first Frame until the ring is made; return whether this Frame is the first."""
        with self._ring_lock:
            if self._make_ring is None or self._ring is not None or self._first is not None:
                return False
            self._first = frame
            return True

    def switch(self) -> str | RecordingState | None:
        """Start a file and return its path, or end the file and return its state; None if the session is over.

        Raises IotopError or OSError if a file cannot be started.
        """
        with self._switching:
            if self._recorder is not None:
                return self.stop(STOP_S)
            return None if self._closed else self.start()

    def start(self) -> str:
        """Start a file and return its path. Raises IotopError or OSError if it cannot be started.

        If ``close`` gave up waiting before the file was open, this method ends the file.
        """
        assert self._record is not None  # the screen checks may_record first
        with self._lock:
            self._waiting = []
            before_ns = 1 if self._newest is None else self._newest.snapshot.at_ns + 1
        recorder = None
        try:
            ring = self.ring
            # The pre-roll, the minute before the file begins, gives the rules their history.
            preroll = ring.preroll(self._cmdline, before_ns) if ring is not None else ()
            recorder = self._record(preroll)
        finally:
            with self._lock:
                waiting, self._waiting, self._recorder = self._waiting, None, recorder
                if recorder is not None:
                    for frame in waiting:
                        recorder.put(frame)
        path = recorder.state().path
        if self._closed:
            self.stop()
        return path

    def close(self, seconds: float = CLOSE_S) -> None:
        """End the ring and the recording, even a recording that is just being started.

        seconds: how long to wait for the disk; if a file is being opened, up to half as long again. Afterwards ``last``
        is the state of the recording, or None if there was none.
        """
        self.last = None
        end_ns = self._clock.monotonic_ns() + int(seconds * 1e9)
        locked = self._switching.acquire(timeout=seconds / 2)
        if not locked and self._waiting is not None:
            locked = self._switching.acquire(timeout=seconds / 2)
        self._closed = True
        self.stop(max(seconds / 2, (end_ns - self._clock.monotonic_ns()) / 1e9))
        if locked:
            self._switching.release()
        if self._ring is not None:
            self._ring.close()

    def stop(self, seconds: float = CLOSE_S) -> RecordingState | None:
        """Close the file, waiting at most ``seconds``, and return its state; None if there is no file.

        Before that, the file gets a ``closing_frame`` if events are pending, or if it has no Snapshot yet. If the file
        is already being closed, this waits for it too. Removes a file that has stayed empty.
        """
        with self._lock:
            recorder, newest = self._recorder, self._newest
            if recorder is not None:
                self._ending = recorder
            # Cleared after ``_ending`` is set, because ``recording_state`` reads both without the lock.
            self._recorder = None
            # The lock keeps out new Snapshots, which would take the pending events.
            events = () if recorder is None or newest is None else self._pending(newest.snapshot.seq)
        if recorder is not None and newest is not None and (events or not recorder.state().snapshots):
            recorder.put(closing_frame(newest, events, self._clock.monotonic_ns(), self._clock.wall_ns()))
        ending = self._ending
        if ending is None:
            return None
        closed = ending.close(seconds)
        self._ending = None
        self.stuck = self.stuck or not closed
        state, newest_file = self._state(ending), ending.state()
        if closed and not newest_file.size_bytes:
            remove_file(newest_file.path)
        self.last = state if closed else state._replace(trouble="its disk does not answer")
        return self.last

    def recording_state(self) -> RecordingState | None:
        """The state of the current recording, also while its last lines are being written; None if there is none."""
        recorder = self._recorder or self._ending
        return None if recorder is None else self._state(recorder)

    def _state(self, recorder: Recorder) -> RecordingState:
        return shown_state(recorder.state(), self._clock.monotonic_ns())


def remove_file(path: str) -> None:
    """Remove the file of a recording that has stayed empty, if that is possible in HOME_TIMEOUT_S."""
    with contextlib.suppress(OSError):  # the file may be gone, unresponsive or read-only by now
        call_with_timeout(HOME_TIMEOUT_S, path, lambda: os.unlink(path))


def shown_state(state: RecorderState, now_ns: int) -> RecordingState:
    """The state of a whole recording, including the files that errors ended. A new file that is empty is left out."""
    paths = (*state.earlier, state.path) if state.size_bytes or not state.earlier else state.earlier
    return RecordingState(
        clean(paths[-1]),
        (now_ns - state.started_ns) / _SECOND,
        state.earlier_bytes + state.size_bytes,
        state.trouble,
        state.dropped,
        state.dropped_events,
        clean(paths[0]),
    )
