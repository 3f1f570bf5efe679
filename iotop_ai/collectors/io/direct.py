"""Opens files with O_DIRECT, which bypasses the page cache, on filesystems that support it."""

from __future__ import annotations

import errno
import os

ALIGN = 4096
"""The alignment, in bytes, of buffers, offsets and sizes of direct I/O.

Direct I/O needs multiples of the device's block size, which is at most 4096 bytes.
"""


def open_direct(name: str, flags: int, folder: int | None = None) -> tuple[int, bool]:
    """Open a file; return (descriptor, whether it bypasses the page cache). Raises OSError.

    folder: the descriptor of the folder that a relative name starts at; None for the current folder. A file that is
    created has mode 0600.
    """
    flags |= os.O_CLOEXEC
    try:
        return os.open(name, flags | os.O_DIRECT, 0o600, dir_fd=folder), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.open(name, flags, 0o600, dir_fd=folder), False
