"""Have one filesystem written out, not everybody's: syncfs(2)."""

from __future__ import annotations

import ctypes
import os


def sync_filesystem_of(handle: int) -> None:
    """Write out what is dirty on the filesystem of an open file; blocks as long as its disk needs. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(handle):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
