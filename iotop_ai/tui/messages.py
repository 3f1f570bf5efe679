"""What reaches the app from other threads and from its panels."""

from __future__ import annotations

from textual.message import Message

from iotop_ai.model.frame import Frame


class FrameReady(Message):
    """A new Frame; one that still waits in the queue is replaced by a newer one."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        """Whether ``message``, queued after this one, makes this one stale."""
        return isinstance(message, FrameReady)


class SourceEnded(Message):
    """The source yields no more Snapshots. error: why, when it broke."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        super().__init__()
