"""Opens files past the page cache (O_DIRECT), where the filesystem can."""

from __future__ import annotations

import errno
import os

ALIGN = 4096
"""Buffers, offsets and sizes of direct I/O are multiples of the device's block size, which is not larger."""


def open_direct(name: str, flags: int, folder: int | None = None) -> tuple[int, bool]:
    """(descriptor, whether it bypasses the page cache). Raises OSError."""
    flags |= os.O_CLOEXEC
    try:
        return os.open(name, flags | os.O_DIRECT, 0o600, dir_fd=folder), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.open(name, flags, 0o600, dir_fd=folder), False
