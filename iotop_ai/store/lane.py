"""A bounded queue of Frames to a thread of its own: who puts never waits, and what is lost is counted."""

from __future__ import annotations

import threading
from collections import deque

from iotop_ai.model.frame import Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.snapshot import Event

QUEUE = 120


class Taken(NamedTuple):
    """The next Frame. gap: Frames before it were dropped; orphans: their events."""

    frame: Frame
    gap: bool
    orphans: tuple[Event, ...]


class Lane:
    """When it is full the oldest Frame is dropped and its events are kept for the next."""

    def __init__(self, most: int = QUEUE) -> None:
        self._most = most
        self._queue: deque[Frame] = deque()
        self._orphans: list[Event] = []
        self._ready = threading.Condition()
        self._closing = self._gap = self._busy = False
        self.dropped = 0

    def put(self, frame: Frame) -> None:
        """Queue a Frame; returns at once."""
        with self._ready:
            if len(self._queue) >= self._most:
                self._orphans.extend(self._queue.popleft().snapshot.events)
                self._gap = True
                self.dropped += 1
            self._queue.append(frame)
            self._ready.notify_all()

    def take(self) -> Taken | None:
        """Wait for the next Frame; None when the lane is closed and empty. The one before counts as done with."""
        with self._ready:
            self._busy = False
            self._ready.notify_all()
            while not self._queue and not self._closing:
                self._ready.wait()
            if not self._queue:
                return None
            self._busy = True
            gap, self._gap = self._gap, False
            orphans, self._orphans = tuple(self._orphans), []
            return Taken(self._queue.popleft(), gap, orphans)

    def lose(self, frame: Frame) -> None:
        """Count a taken Frame as dropped; its events go to the next."""
        with self._ready:
            self._gap = True
            self.dropped += 1
            self._orphans = [*frame.snapshot.events, *self._orphans]

    def drained(self, seconds: float) -> bool:
        """Wait until everything that was put has been dealt with, at most ``seconds``; whether it has."""
        with self._ready:
            return self._ready.wait_for(lambda: not self._queue and not self._busy, seconds)

    def close(self) -> None:
        """Let the thread end once the queue is empty."""
        with self._ready:
            self._closing = True
            self._ready.notify_all()
