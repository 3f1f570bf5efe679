"""Writes out the dirty data of one filesystem or one file, with syncfs(2) and fdatasync(2)."""

from __future__ import annotations

import ctypes
import errno
import os

_NO_FSYNC_ERRNOS = (errno.EINVAL, errno.EROFS, errno.EOPNOTSUPP)
"""The errors of filesystems that support no fsync, such as squashfs, erofs and iso9660. Their files are never dirty."""


def sync_filesystem_of(handle: int) -> None:
    """Write out the dirty data of an open file's filesystem. Blocks until the disk is done. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(handle):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write_out(handle: int) -> None:
    """Write out the dirty data of an open file, if it can have any. Raises OSError."""
    try:
        os.fdatasync(handle)
    except OSError as error:
        if error.errno not in _NO_FSYNC_ERRNOS:
            raise
