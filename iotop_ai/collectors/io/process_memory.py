"""Reads the memory of other processes, and the files of /proc that need their memory map, without waiting long.

A process can make a read of /proc/PID/task/TID/mem wait as long as it likes, with userfaultfd, or with a mapping of a
file on a FUSE filesystem that the process itself serves. For a read of cmdline or environ, the kernel refuses memory
that is mapped from a file (mm/memory.c, FOLL_ANON), but takes the lock of the memory map, as for maps. A thread that
waits for a dead file server in mmap, munmap or a page fault may hold that lock.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.with_timeout import BackgroundWorker

TIMEOUT_S = 0.1
"""The longest wait for a read, in seconds. A read usually takes less than 0.1 ms."""
SLOW_S = 0.03
SLOW_READS = 2
PAUSE_FACTOR = 100
"""A read is slow if it takes SLOW_S seconds or longer.

After SLOW_READS slow reads in a row, the process is not read for PAUSE_FACTOR times the duration of the last one. A
single slow read is normal when all cores are busy.
"""
MOST_STUCK = 32
"""The most reads that may be stuck, each on its own thread; while there are so many, no memory is read."""


class ProcessMemory:
    """Reads the memory of processes on a thread. A process whose read is stuck is not read again until the read ends.

    Several threads may use it, but only one at a time reads.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._clock = Clock()
        self._lock = threading.Lock()
        self._worker = BackgroundWorker("memory")
        self._stuck: dict[int, BackgroundWorker] = {}
        """The thread of each stuck read, by PID."""
        self._slow: dict[int, int] = {}
        """The number of slow reads in a row, by PID; without the processes whose last read was fast."""
        self._paused: dict[int, int] = {}
        """The monotonic time, in nanoseconds, until which a process is not read, by PID."""

    def read(self, pid: int, tid: int, address: int, size: int) -> bytes:
        """Return at most ``size`` bytes of a task's memory.

        Raises OSError; TimeoutError if the read takes too long, or if the process is not read for now.
        """
        path = f"proc/{pid}/task/{tid}/mem"
        with self._lock:
            return self._read(pid, path, lambda: self._root.read_once(path, size, address))

    def read_file(self, pid: int, name: str, size: int | None = None) -> bytes:
        """Return the content of a file of /proc/PID, or what one read of ``size`` bytes returns.

        Raises the same as ``read``.
        """
        path = f"proc/{pid}/{name}"
        with self._lock:
            return self._read(
                pid, path, lambda: self._root.read(path) if size is None else self._root.read_once(path, size)
            )

    def read_files(self, pids: Sequence[int], name: str, size: int) -> dict[int, bytes | OSError]:
        """Return what one read of a file of /proc/PID returns for each process, or its error.

        The error is a TimeoutError in the cases of ``read``. The thread reads one process after the other, which takes
        far less time than to hand over each read.
        """
        out: dict[int, bytes | OSError] = {}
        with self._lock:
            left = [*pids]
            while left:
                out |= self._read_until_stuck(left, name, size)
                left = [pid for pid in left if pid not in out]
        return out

    def _read_until_stuck(self, pids: Sequence[int], name: str, size: int) -> dict[int, bytes | OSError]:
        """Return the contents and errors of ``read_files`` up to the first read that takes too long; at least one."""
        self._forget_ended()
        refused = [pid for pid in pids if pid in self._stuck or len(self._stuck) >= MOST_STUCK]
        if refused:
            return {pid: TimeoutError(errno.EAGAIN, "not read", name) for pid in refused}
        results: dict[int, bytes | OSError] = {}
        given_up: list[bool] = []

        def read() -> None:
            for pid in pids:
                try:
                    content = self._root.read_once(f"proc/{pid}/{name}", size)
                except OSError as error:
                    results[pid] = error.with_traceback(None)
                else:
                    results[pid] = content
                if given_up:
                    return

        if not self._worker.submit(read):
            return {pid: TimeoutError(errno.EAGAIN, "not read", name) for pid in pids}
        before = -1
        while not self._worker.wait(TIMEOUT_S) and len(results) > before:
            before = len(results)
        done = dict(results)
        if len(done) < len(pids):
            given_up.append(True)
            late = pids[len(done)]
            done[late] = self._leave_stuck(late, name)
        return done

    def _leave_stuck(self, pid: int, path: str) -> TimeoutError:
        """Leave the thread to its stuck read, and begin a new one; return the error for this read."""
        # Close the worker only when its read has ended: if closed now, it might never begin the read.
        self._stuck[pid], self._worker = self._worker, BackgroundWorker("memory")
        return TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path)

    def _forget_ended(self) -> None:
        for stuck_pid in [stuck_pid for stuck_pid, worker in self._stuck.items() if not worker.busy]:
            self._stuck.pop(stuck_pid).close()

    def close(self) -> None:
        """End the threads, without waiting for a read."""
        for worker in (self._worker, *self._stuck.values()):
            worker.close()

    def _read(self, pid: int, path: str, read_now: Callable[[], bytes]) -> bytes:
        began = self._clock.monotonic_ns()
        if self._stuck or self._paused:
            self._forget_ended()
            self._paused = {pid: until for pid, until in self._paused.items() if began < until}
        results: list[bytes] = []
        errors: list[Exception] = []

        def read() -> None:
            try:
                results.append(read_now())
            except (OSError, OverflowError) as error:  # the thread of the caller raises it again
                errors.append(error)

        refused = pid in self._stuck or pid in self._paused or len(self._stuck) >= MOST_STUCK
        if refused or not self._worker.submit(read):
            raise TimeoutError(errno.EAGAIN, "not read", path)
        ended = self._worker.wait(TIMEOUT_S)
        took = self._clock.monotonic_ns() - began
        self._note_time(pid, began, took)
        if not ended:
            raise self._leave_stuck(pid, path)
        if errors:
            raise errors[0]
        return results[0]

    def _note_time(self, pid: int, began_ns: int, took_ns: int) -> None:
        if took_ns < SLOW_S * 1e9:
            self._slow.pop(pid, None)
            return
        self._slow[pid] = self._slow.get(pid, 0) + 1
        if self._slow[pid] >= SLOW_READS:
            del self._slow[pid]
            self._paused[pid] = began_ns + took_ns * (1 + PAUSE_FACTOR)
