"""Reads the memory of other processes, from /proc/PID/task/TID/mem, without waiting long for a read.

A process can make such a read wait as long as it likes, with userfaultfd, or with a mapping of a file on a FUSE
filesystem that the process itself serves. Only for a read of cmdline or environ does the kernel refuse memory that is
mapped from a file (mm/memory.c, FOLL_ANON).
"""

from __future__ import annotations

import errno
import os
import threading

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
        with self._lock:
            return self._read(pid, f"proc/{pid}/task/{tid}/mem", address, size)

    def close(self) -> None:
        """End the threads, without waiting for a read."""
        for worker in (self._worker, *self._stuck.values()):
            worker.close()

    def _read(self, pid: int, path: str, address: int, size: int) -> bytes:
        began = self._clock.monotonic_ns()
        if self._stuck or self._paused:
            for stuck_pid in [stuck_pid for stuck_pid, worker in self._stuck.items() if not worker.busy]:
                self._stuck.pop(stuck_pid).close()
            self._paused = {pid: until for pid, until in self._paused.items() if began < until}
        results: list[bytes] = []
        errors: list[Exception] = []

        def read() -> None:
            try:
                results.append(self._root.read_once(path, size, address))
            except (OSError, OverflowError) as error:  # the thread of the caller raises it again
                errors.append(error)

        refused = pid in self._stuck or pid in self._paused or len(self._stuck) >= MOST_STUCK
        if refused or not self._worker.submit(read):
            raise TimeoutError(errno.EAGAIN, "not read", path)
        ended = self._worker.wait(TIMEOUT_S)
        took = self._clock.monotonic_ns() - began
        self._note_time(pid, began, took)
        if not ended:
            # Close the worker only when its read has ended: if closed now, it might never begin the read.
            self._stuck[pid] = self._worker
            self._worker = BackgroundWorker("memory")
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path)
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
