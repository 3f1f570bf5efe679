"""A daemon thread that starts when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable


class LazyThread:
    """A daemon thread that is started once, by whichever caller of ``start`` comes first.

    If the thread cannot start, the next call tries again. Any thread may call the methods.
    """

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self._name = name
        self._run = run
        # Thread.start waits for the new thread, and another thread may call ``start`` meanwhile.
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def started(self) -> bool:
        """Whether the thread was started; it may have ended since."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread unless it has been started. Raises RuntimeError when this user has too many threads."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                    thread.start()
                    self._thread = thread

    def join(self, seconds: float) -> None:
        """Wait at most ``seconds`` for the end of the thread, if it was started."""
        if self._thread is not None:
            self._thread.join(seconds)
