"""Folders that even root may not list."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VERSION_3 = 0x20080522
_READS_EVERYTHING = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


@contextmanager
def unreadable(*folders: Path) -> Iterator[None]:
    """Make each listing of the folders fail with EACCES; their entries can still be opened by path.

    This thread, and the threads that it starts meanwhile, give up root's right to read everything.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, data) == 0
    effective = data[0]
    modes = {folder: folder.stat().st_mode for folder in folders}
    for folder in folders:
        folder.chmod(0o311)
    try:
        data[0] = effective & ~_READS_EVERYTHING
        assert libc.capset(header, data) == 0
        yield
    finally:
        data[0] = effective
        assert libc.capset(header, data) == 0
        for folder, mode in modes.items():
            folder.chmod(mode)
