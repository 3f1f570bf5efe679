"""Writes to a terminal that may take no output, because its connection hangs or a program above it is stopped."""

from __future__ import annotations

import contextlib
import os
import time

from iotop_ai.collectors.io.with_timeout import call_with_timeout

_PAUSE_S = 0.01
"""The pause in seconds after which a terminal without room is tried again."""


def open_again(handle: int) -> int | None:
    """Open a terminal a second time, for writes that do not wait; None for another file, or if it may not be opened.

    O_NONBLOCK belongs to the open file, so the shell's descriptors stay as they are.
    """
    if not os.isatty(handle):
        return None
    try:  # a terminal of another mount namespace has no path in /dev
        return os.open(f"/proc/self/fd/{handle}", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None


def write_in_time(handle: int, text: str, seconds: float) -> None:
    """Write the part of a text that a terminal takes within this time. Errors are ignored."""
    content = text.encode()
    own_handle = open_again(handle)
    if own_handle is None:
        with contextlib.suppress(OSError):
            call_with_timeout(seconds, "terminal", lambda: os.write(handle, content))
        return
    with contextlib.suppress(OSError):
        for _ in range(round(seconds / _PAUSE_S)):
            with contextlib.suppress(BlockingIOError):  # also if another thread waits in a write to the same terminal
                content = content[os.write(own_handle, content) :]
            if not content:
                break
            time.sleep(_PAUSE_S)
    os.close(own_handle)
