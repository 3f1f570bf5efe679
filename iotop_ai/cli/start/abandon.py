"""Lets the process exit although the disk or server of an open file does not answer.

When a process exits, the kernel closes its files. On FUSE and NFS the close waits for the server, and the shell would
wait too. A second process that shares the table of open files delays that close until this process has exited.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import signal
import sys
import time

from iotop_ai.collectors.io.linux_calls import pidfd_open

CLONE_FILES = 0x400
_SIGCHLD = 17
_CLONE = {"x86_64": 56, "aarch64": 220}
"""The system call number of clone(2). On both architectures a child without its own stack continues as after fork."""
_POLL_MS = 10
_STANDARD_STREAMS = (0, 1, 2)


class _PollFd(ctypes.Structure):
    """The struct pollfd of poll(2)."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


def abandon_files() -> bool:
    """Hand the open files to a child that closes them after this process has exited; return whether that worked.

    Call this function immediately before the exit, because the child costs memory until then, as after a fork.
    """
    number = _CLONE.get(platform.machine())
    if number is None:
        return False
    # PyDLL keeps the interpreter lock during a call. The child needs the lock and has no other thread that could
    # release it.
    libc = ctypes.PyDLL(None)
    parent = os.getpid()
    parent_exit = _PollFd(_exit_handle(parent), select.POLLIN, 0)
    # The child inherits our signal handlers, and an exception from a handler would continue our program in the child.
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # from here to the clone, no waiting thread requests the lock
    time.sleep(0)  # a thread that waits for the lock gets it before the clone
    child = libc.syscall(number, CLONE_FILES | _SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        # getppid() changes as soon as the parent's main thread ends, when other threads of the parent may still be
        # running.
        if parent_exit.fd >= 0:
            libc.poll(ctypes.byref(parent_exit), 1, -1)
        while parent_exit.fd < 0 and libc.getppid() == parent:
            libc.poll(None, 0, _POLL_MS)
        for handle in _STANDARD_STREAMS:  # a reader of our output must not wait for the server
            libc.close(handle)
        libc._exit(0)
    sys.setswitchinterval(interval_s)
    signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    return bool(child > 0)


def _exit_handle(pid: int) -> int:
    """Return a pidfd, which is readable once all threads of the process have ended; -1 before Linux 5.3."""
    try:
        return pidfd_open(pid)
    except OSError:
        return -1
