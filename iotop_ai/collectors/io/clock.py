"""The only reader of clocks outside the training process."""

from __future__ import annotations

import time


class Clock:
    """The machine's clocks. Tests pass their own."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC in ns, for arithmetic."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """Unix time in ns, for people."""
        return time.time_ns()

    def suspended_ns(self) -> int:
        """CLOCK_BOOTTIME less CLOCK_MONOTONIC in ns: how long the machine has slept since it was started."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()

    def process_ns(self) -> int:
        """CPU time of this process, all threads, user and system, in ns."""
        return time.process_time_ns()

    def thread_ns(self) -> int:
        """CPU time of the calling thread in ns."""
        return time.thread_time_ns()
