"""Syncs one filesystem instead of all of them, with syncfs(2)."""

from __future__ import annotations

import ctypes
import os


def sync_filesystem_of(handle: int) -> None:
    """Write out the dirty data of an open file's filesystem. Blocks until the disk is done. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(handle):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
