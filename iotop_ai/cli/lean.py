"""What asyncio loads and a monitor in a terminal never uses."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without_tls() -> Iterator[None]:
    """Textual's event loop speaks to the terminal alone: asyncio, when it is imported in here, goes without ssl.

    That is the state it has on a Python built without OpenSSL, which is 4.5 MB and a twentieth of the time until keys
    answer. Afterwards anybody may import ssl. Does nothing where either is loaded.
    """
    if "ssl" in sys.modules or "asyncio" in sys.modules:
        yield
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["ssl"]
