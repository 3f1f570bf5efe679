"""Decides which of the driver's samples are new, even after the wall clock was set back.

Source: nvml.h, nvmlSample_t and nvmlProcessUtilizationSample_t: timeStamp is the CPU's time in microseconds. The driver
usually takes it from the wall clock, so after the clock is set back by an hour, new samples look old for an hour.
"""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock

LEAST_BACKWARD_STEP_NS = 100_000_000
"""The smallest backward step of the clock that matters, in ns.

After a smaller step, the time stamps of new samples soon exceed the newest one again.
"""
MOST_AHEAD_US = 1_000_000
"""How far a sample may be ahead of our clock after a step, in microseconds.

Samples from before the step are further ahead.
"""
LATE_NS = 1_000_000_000
"""How much older than the previous reading a new sample may be, in ns, because the driver made it available late.

If a sample seems older, its time stamp is from another clock, or the wall clock was set forward after it.
"""


class SampleTimes:
    """Keeps the newest time stamp of one GPU's samples."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_ns = clock.monotonic_ns()
        self._offset_ns = clock.wall_ns() - self._asked_ns
        self._wall_us = self._since_ns = 0
        """The wall clock when the present reading began, and the time since the previous reading."""
        self._newest_us = self._after_us = 0
        """The newest time stamp so far, and its value when the present reading began."""
        self._limit_us: int | None = None
        """The latest time stamp that is accepted; None for no limit."""
        self._set_back = False
        """Whether the wall clock was ever set back."""

    def ask(self) -> int:
        """Begin a reading: return the time stamp after which samples are new, in microseconds."""
        wall_ns, now_ns = self._clock.wall_ns(), self._clock.monotonic_ns()
        now_us, offset_ns = wall_ns // 1000, wall_ns - now_ns
        previous_ask_us = now_us - (now_ns - self._asked_ns) // 1000
        stepped = offset_ns < self._offset_ns - LEAST_BACKWARD_STEP_NS
        # Only time stamps from the wall clock can be ahead of it now; those of another clock do not step.
        if stepped and self._newest_us > now_us:
            self._newest_us, self._set_back = previous_ask_us, True
        self._wall_us, self._since_ns = now_us, now_ns - self._asked_ns
        self._asked_ns, self._offset_ns = now_ns, offset_ns
        self._limit_us = now_us + MOST_AHEAD_US if self._set_back else None
        self._after_us = self._newest_us
        return self._newest_us

    def is_new(self, stamp_us: int) -> bool:
        """Whether a sample is newer than those of the previous reading. Marks a new sample as seen."""
        if stamp_us <= self._after_us or (self._limit_us is not None and stamp_us > self._limit_us):
            return False
        self._newest_us = max(self._newest_us, stamp_us)
        return True

    def age_ns(self, stamp_us: int) -> int:
        """Return how old a new sample was when the reading began; 0 if its time stamp is not from the wall clock."""
        age_ns = max(0, self._wall_us - stamp_us) * 1000
        return age_ns if age_ns <= self._since_ns + LATE_NS else 0
