"""Runs actions on threads. A disk may answer late or never, which must not block the screen or the end of the
program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from textual.message import Message

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.store.source import Source


class ActionResult(Message):
    """An action has ended. answer: what the screen shows; it begins with "done: " or "failed: ". events: texts for the
    recording.
    """

    def __init__(self, answer: str, events: tuple[str, ...] = ()) -> None:
        self.answer = answer
        self.events = events
        super().__init__()

    @classmethod
    def of_action(cls, done: bool, text: str, events: tuple[str, ...] = ()) -> Self:
        """The result of an action on the machine. After a success, the recording gets ``events``, or ``text`` if there
        are none.
        """
        if not done:
            return cls(f"failed: {text}")
        return cls(f"done: {text}", events or (text,))


class ActionThreads:
    """Runs each action on a daemon thread, and posts the result."""

    def __init__(self, source: Source, post_message: Callable[[Message], bool]) -> None:
        self._source = source
        self._post_message = post_message
        self._threads: list[threading.Thread] = []

    def run(self, name: str, action: Callable[[], ActionResult]) -> str:
        """Start an action; returns the answer if it could not be started, otherwise "". name: the name of its
        thread.
        """

        def run_and_post() -> None:
            result = action()
            for event in result.events:  # added here, because the app may end before it handles the message
                self._source.add_event("action", event)
            self._post_message(result)

        thread = threading.Thread(None, run_and_post, name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # this user has too many threads
            result = ActionResult(f"failed: {error}")
            self._post_message(result)
            return result.answer
        self._threads = [*(other for other in self._threads if other.is_alive()), thread]
        return ""

    def running(self, name: str) -> bool:
        """Whether an action of this name is still running."""
        return any(thread.name == name and thread.is_alive() for thread in self._threads)

    def wait(self, seconds: float) -> None:
        """Wait at most ``seconds`` for all actions to end, so that the recording gets their events."""
        clock = Clock()
        end_ns = clock.monotonic_ns() + int(seconds * 1e9)
        for thread in self._threads:
            thread.join(max(0.0, (end_ns - clock.monotonic_ns()) / 1e9))
