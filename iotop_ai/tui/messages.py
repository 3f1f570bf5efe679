"""Messages to the app from the threads that read sources and recordings."""

from __future__ import annotations

import threading

from textual.message import Message

from iotop_ai.model.frame import Frame


class FrameReady(Message):
    """A new Frame. While the message is queued, a newer Frame replaces the one in it, so at most one message
    is queued.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._taken = False
        self._lock = threading.Lock()
        super().__init__()

    def replace(self, frame: Frame) -> bool:
        """Replace the Frame with a newer one; returns False if the app has taken the Frame already."""
        with self._lock:
            if not self._taken:
                self._frame = frame
            return not self._taken

    def take(self) -> Frame:
        """The newest Frame. After this call, the Frame cannot be replaced any more."""
        with self._lock:
            self._taken = True
            return self._frame


class SourceEnded(Message):
    """The source has ended. error: the exception that ended it; None for a normal end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        super().__init__()
