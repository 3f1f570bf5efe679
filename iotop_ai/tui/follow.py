"""The thread that follows a source: Frames come out of the pipeline here and reach the app as messages."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from textual.message import Message

from iotop_ai.diagnosis.saturation import saturated
from iotop_ai.model.frame import Frame
from iotop_ai.store.recording import Source
from iotop_ai.tui.messages import FrameReady, SourceEnded

log = logging.getLogger(__name__)


class Takes(Protocol):
    """What the follower needs of an app: a message box that any thread may drop into."""

    def post_message(self, message: Message) -> bool:
        """Queue a message; False when the box is closed."""
        ...


class Follower:
    """Runs ``frames`` to its end on a daemon thread; the source is held back from SMART while a device is saturated.

    tap: gets every Frame on that thread, also those that the screen is too slow to show.

    A daemon, because a collector stuck in the kernel must not keep the program from ending.
    """

    def __init__(
        self, frames: Iterable[Frame], source: Source, app: Takes, tap: Callable[[Frame], None] | None = None
    ) -> None:
        self._tap = tap
        self._frames = frames
        self._source = source
        self._app = app
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Close the source and wait at most ``seconds`` for the thread; whether it has ended."""
        self._source.close()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        held, waiting = False, None
        try:
            for frame in self._frames:
                if (busy := saturated(frame)) != held:
                    held = busy
                    self._source.hold_smart(held)
                if self._tap is not None:
                    self._tap(frame)
                if waiting is None or not waiting.renewed(frame):
                    waiting = FrameReady(frame)
                    self._app.post_message(waiting)
        except Exception as error:  # shown as one line by the front; the thread has nobody above it
            log.exception("the source broke")
            self._app.post_message(SourceEnded(error))
        else:
            self._app.post_message(SourceEnded())
