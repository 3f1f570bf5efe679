"""Waiting for something that another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(seen: Callable[[], object], what: str = "the awaited state", seconds: float = 60.0) -> None:
    """Wait until ``seen`` returns a true value; fail after this many seconds."""
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)
