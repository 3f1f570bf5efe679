"""Exit while an open file's disk or server does not answer.

The kernel closes the files of a process that exits, and the close of such a file (FUSE, NFS) waits for the server; the
shell would wait too. A second process that shares the table of open files delays that close until after our exit.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import signal
import sys
import time

CLONE_FILES = 0x400
_SIGCHLD = 17
_CLONE = {"x86_64": 56, "aarch64": 220}
"""Number of clone(2); on both architectures a child without a stack of its own continues as after fork."""
_POLL_MS = 10
_TERMINAL = (0, 1, 2)


class _PollFd(ctypes.Structure):
    """struct pollfd of poll(2)."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


def abandon_files() -> bool:
    """Hand the open files to a child that closes them after this process has exited; returns whether that worked.

    It must be the last call before the exit: until then the child costs memory, as after a fork.
    """
    number = _CLONE.get(platform.machine())
    if number is None:
        return False
    # PyDLL keeps the interpreter lock: the child has no other thread that could release it.
    libc = ctypes.PyDLL(None)
    parent = os.getpid()
    parent_exit = _PollFd(_exit_handle(parent), select.POLLIN, 0)
    # The child inherits our handlers; an exception from one would continue our work there.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    time.sleep(0)  # a thread that waits for the lock gets it now, before the clone
    child = libc.syscall(number, CLONE_FILES | _SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        # getppid() changes as soon as the parent's main thread ends, while another of its threads may still be ending.
        if parent_exit.fd >= 0:
            libc.poll(ctypes.byref(parent_exit), 1, -1)
        while parent_exit.fd < 0 and libc.getppid() == parent:
            libc.poll(None, 0, _POLL_MS)
        for handle in _TERMINAL:  # a reader of our output must not wait for the server
            libc.close(handle)
        libc._exit(0)
    sys.setswitchinterval(interval_s)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return bool(child > 0)


def _exit_handle(pid: int) -> int:
    """Return a pidfd, readable when all threads of the process have ended; -1 before Linux 5.3."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1
