"""Makes nameless files, from which a child reads its input or to which it writes its output."""

from __future__ import annotations

import os
from typing import IO


def memory_file(name: str) -> IO[bytes]:
    """Return a new, empty file in memory. Raises OSError. name: the name that the kernel shows for it.

    A Python built for a glibc before 2.27 has no memfd_create; the file is then a deleted file in the temporary folder.
    """
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create(name), "w+b")
    from tempfile import TemporaryFile  # slow to import, and rarely needed

    return TemporaryFile()
