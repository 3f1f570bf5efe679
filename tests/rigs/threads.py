"""A machine on which no thread can start."""

from __future__ import annotations

import threading


def no_thread(thread: threading.Thread) -> None:
    """Stand for ``Thread.start`` when the limit of threads is reached."""
    raise RuntimeError("can't start new thread")
