"""A machine on which no thread can start."""

from __future__ import annotations

import threading


def no_thread(thread: threading.Thread) -> None:
    """Replace ``Thread.start`` as if the limit of threads were reached."""
    raise RuntimeError("can't start new thread")
