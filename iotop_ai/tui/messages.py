"""What reaches the app from other threads and from its panels."""

from __future__ import annotations

import threading

from textual.message import Message

from iotop_ai.model.frame import Frame


class FrameReady(Message):
    """A new Frame. While the message waits in the queue its Frame is replaced by newer ones, so that a screen that is
    late, or stuck, never has more than one waiting.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._taken = False
        self._lock = threading.Lock()
        super().__init__()

    def renewed(self, frame: Frame) -> bool:
        """Put a newer Frame in its place; False when it has been taken already."""
        with self._lock:
            if not self._taken:
                self._frame = frame
            return not self._taken

    def take(self) -> Frame:
        """The newest Frame; from here on it cannot be replaced."""
        with self._lock:
            self._taken = True
            return self._frame


class SourceEnded(Message):
    """The source yields no more Snapshots. error: why, when it broke."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        super().__init__()
