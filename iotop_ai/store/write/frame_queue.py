"""A bounded queue that passes Frames to another thread: ``put`` never waits, and dropped Frames are counted."""

from __future__ import annotations

import threading
from collections import deque

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Event

MOST_FRAMES = 120
"""The maximum number of Frames that wait."""
MOST_ORPHANED_EVENTS = 2000
"""The maximum number of events of dropped Frames that are kept: about 1 MB if the texts have their greatest length.
Without a limit, a flood of kernel messages or marks would fill the memory while a disk hangs."""


class Lost(NamedTuple):
    """The number of Frames dropped so far, and of their events that are lost because of MOST_ORPHANED_EVENTS."""

    frames: int = 0
    events: int = 0


class QueuedFrame(NamedTuple):
    """A Frame that ``take`` returns.

    gap: whether Frames before it were dropped
    orphaned_events: the events of these dropped Frames
    lost: the totals of everything dropped so far
    """

    frame: Frame
    gap: bool
    orphaned_events: tuple[Event, ...]
    lost: Lost


class FrameQueue:
    """A queue that drops its oldest Frame when it is full. Of the dropped Frames, it keeps the newest events."""

    def __init__(self, most_frames: int = MOST_FRAMES, most_events: int = MOST_ORPHANED_EVENTS) -> None:
        self._most_frames = most_frames
        self._queue: deque[Frame] = deque()
        self._orphaned_events: deque[Event] = deque(maxlen=most_events)
        self._ready = threading.Condition()
        self._closing = self._gap = self._busy = False
        self._lost = Lost()

    @property
    def lost(self) -> Lost:
        """The totals of everything dropped so far."""
        return self._lost

    @property
    def closing(self) -> bool:
        """Whether the queue was closed."""
        return self._closing

    def put(self, frame: Frame) -> None:
        """Queue a Frame without waiting."""
        with self._ready:
            if len(self._queue) >= self._most_frames:
                self._drop(self._queue.popleft().snapshot.events)
            self._queue.append(frame)
            self._ready.notify_all()

    def take(self) -> QueuedFrame | None:
        """Wait for the next Frame; None if the queue is closed and empty. The previously taken Frame counts as done."""
        with self._ready:
            self._busy = False
            self._ready.notify_all()
            while not self._queue and not self._closing:
                self._ready.wait()
            if not self._queue:
                return None
            self._busy = True
            gap, self._gap = self._gap, False
            events = tuple(self._orphaned_events)
            self._orphaned_events.clear()
            return QueuedFrame(self._queue.popleft(), gap, events, self._lost)

    def lose(self, frame: Frame) -> None:
        """Count a taken Frame as dropped; its events are returned with the next Frame."""
        with self._ready:
            later = tuple(self._orphaned_events)
            self._orphaned_events.clear()
            self._drop((*frame.snapshot.events, *later))

    def _drop(self, events: tuple[Event, ...]) -> None:
        """Count a dropped Frame and keep its events; beyond the limit, the oldest events are lost."""
        room = self._orphaned_events.maxlen or 0
        over = max(0, len(self._orphaned_events) + len(events) - room)
        self._orphaned_events.extend(events)
        self._gap = True
        self._lost = Lost(self._lost.frames + 1, self._lost.events + over)

    def drain(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until all Frames are done; return whether they are."""
        with self._ready:
            return self._ready.wait_for(lambda: not self._queue and not self._busy, seconds)

    def close(self) -> None:
        """Close the queue; ``take`` returns None when the queue is empty."""
        with self._ready:
            self._closing = True
            self._ready.notify_all()
