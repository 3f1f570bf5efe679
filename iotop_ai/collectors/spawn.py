"""Children are started with no signal blocked, whatever the thread that starts them has blocked."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def nothing_blocked() -> Iterator[None]:
    """While the block runs, this thread blocks no signal; a child inherits that."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
