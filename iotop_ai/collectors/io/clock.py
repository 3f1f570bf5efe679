"""The only module that reads clocks, apart from code that runs in the user's Python or in a child of the disk check."""

from __future__ import annotations

import time


class Clock:
    """The clocks of the machine. Tests replace this class with their own clocks."""

    def monotonic_ns(self) -> int:
        """Return CLOCK_MONOTONIC in nanoseconds. Use this clock for arithmetic."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """Return Unix time in nanoseconds. Use this clock for times that the user reads."""
        return time.time_ns()

    def suspended_ns(self) -> int:
        """Return CLOCK_BOOTTIME minus CLOCK_MONOTONIC in nanoseconds: how long the machine has slept since boot."""
        monotonic_ns = time.monotonic_ns()  # read first; otherwise the result is below 0 if the machine never slept
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - monotonic_ns

    def process_ns(self) -> int:
        """Return the CPU time of this process in nanoseconds: user and system time of all threads."""
        return time.process_time_ns()

    def thread_ns(self) -> int:
        """Return the CPU time of the calling thread in nanoseconds."""
        return time.thread_time_ns()
