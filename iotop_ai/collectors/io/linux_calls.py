"""Calls of Linux that some builds of Python lack, because they were built with the headers of an older system."""

from __future__ import annotations

import os
import signal
from typing import IO

_PIDFD_SEND_SIGNAL, _PIDFD_OPEN = 424, 434
"""The numbers of these system calls on all architectures: include/uapi/asm-generic/unistd.h."""


def memory_file(name: str) -> IO[bytes]:
    """Return a new, empty file in memory. Raises OSError. name: the name that the kernel shows for the file.

    A child reads its input from the file, or writes its output to it. A Python built for a glibc before 2.27 has no
    memfd_create; the file is then a deleted file in the temporary folder.
    """
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create(name), "w+b")
    from tempfile import TemporaryFile  # slow to import, and rarely needed

    return TemporaryFile()


def pidfd_open(pid: int) -> int:
    """Return a descriptor of the process, as pidfd_open(2). Raises OSError; before Linux 5.3 with ENOSYS."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    return _call(_PIDFD_OPEN, pid, 0)


def pidfd_send_signal(pidfd: int, number: int) -> None:
    """Send a signal to the process of a pidfd, as pidfd_send_signal(2). Raises OSError."""
    if hasattr(signal, "pidfd_send_signal"):
        signal.pidfd_send_signal(pidfd, number)
    else:
        _call(_PIDFD_SEND_SIGNAL, pidfd, number, None, 0)


def _call(number: int, *arguments: int | None) -> int:
    import ctypes  # slow to import, and rarely needed

    answer: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return answer
