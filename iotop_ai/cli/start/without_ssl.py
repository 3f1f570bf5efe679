"""Import asyncio without ssl."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def ssl_hidden() -> Iterator[None]:
    """While open, ``import ssl`` fails, so asyncio loads as on a Python without OpenSSL.

    Textual's event loop serves the terminal only. Saves 4.5 MB and a twentieth of the time until keys respond; ssl can
    be imported afterwards. Does nothing when ssl or asyncio is already loaded.
    """
    if "ssl" in sys.modules or "asyncio" in sys.modules:
        yield
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # Python raises ImportError for a None here
    try:
        yield
    finally:
        del sys.modules["ssl"]
