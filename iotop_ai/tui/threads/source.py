"""The thread that reads a source. It runs the pipeline, and the app receives the Frames as messages."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Protocol

from textual.message import Message

from iotop_ai.model.block.saturation import any_device_saturated
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.frame import Frame
from iotop_ai.store.source import Source
from iotop_ai.tui.messages import FrameReady, SourceEnded

log = logging.getLogger(__name__)


class MessageReceiver(Protocol):
    """The part of an app that a thread needs: a queue to which any thread may post."""

    def post_message(self, message: Message) -> bool:
        """Queue a message; returns False if the queue is closed."""
        ...


class SourceThread:
    """Runs ``frames`` to the end, and stops SMART queries while a disk is saturated.

    taps: called with every Frame on this thread, including those that the screen is too slow to show. The thread is a
    daemon, because a collector that is stuck in the kernel must not keep the program from ending.
    """

    def __init__(
        self,
        frames: Iterable[Frame],
        source: Source,
        app: MessageReceiver,
        taps: Iterable[Callable[[Frame], None]] = (),
    ) -> None:
        self._taps = tuple(taps)
        self._frames = frames
        self._source = source
        self._app = app
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)

    def start(self) -> None:
        """Start the thread. If this user has too many threads, the app ends with that error."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._app.post_message(SourceEnded(UnknownError(f"the machine is not read: {error}")))

    def stop(self, seconds: float) -> bool:
        """Close the source, and wait at most ``seconds`` for the thread; returns whether the thread has ended.

        If the thread was never started, the generator of the Frames is closed here. If it were left open, the
        interpreter would close it at exit, when no other thread runs any more, and the source could wait for one of its
        threads forever.
        """
        self._source.close()
        if self._thread.ident is None and isinstance(self._frames, Generator):
            self._frames.close()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        smart_held, waiting = False, None
        try:
            for frame in self._frames:
                if (busy := any_device_saturated(frame)) != smart_held:
                    smart_held = busy
                    self._source.suspend_smart_queries(busy)
                for tap in self._taps:
                    tap(frame)
                if waiting is None or not waiting.replace(frame):
                    waiting = FrameReady(frame)
                    self._app.post_message(waiting)
        except Exception as error:  # the app ends, and prints it as one line
            log.exception("the source failed")
            self._app.post_message(SourceEnded(error))
        else:
            self._app.post_message(SourceEnded())
