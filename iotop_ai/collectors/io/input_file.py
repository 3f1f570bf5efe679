"""Opens files for reading, without waiting if the file is a named pipe that has no writer."""

from __future__ import annotations

import os
from typing import BinaryIO


def open_input(path: str, *, folder: int | None = None, flags: int = 0) -> BinaryIO:
    """Open a file for reading. Raises OSError, also for a folder.

    folder: the descriptor of the folder that a relative path starts at; None for the current folder. flags: more flags
    of open(2). A read of an empty named pipe with a writer returns None.
    """

    # os.fdopen raises an error for a folder and leaves its descriptor open; open() closes it.
    def opener(name: str, base_flags: int) -> int:
        return os.open(name, base_flags | os.O_NONBLOCK | os.O_CLOEXEC | flags, dir_fd=folder)

    return open(path, "rb", opener=opener)
