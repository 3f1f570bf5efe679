"""Detects that readings no longer arrive. A timer must call ``check``, because a missing reading causes no event."""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock

CHECK_S = 1.0
"""The seconds between two calls of ``StalenessWatch.check``."""
SILENT_INTERVALS = 3
"""Readings count as missing after this many intervals without one."""
LEAST_SILENCE_S = 2.0
"""The shortest delay in seconds that counts. Under load, readings at short intervals may be this late without
any fault.
"""


class StalenessWatch:
    """Measures the time since the last reading.

    Call ``note_reading`` at each reading, ``check`` LEAST_SILENCE_S after it unless another reading has arrived, and
    again every CHECK_S until the next one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reading_ns = self._checked_ns = clock.monotonic_ns()

    def note_reading(self) -> None:
        """Note that a reading has arrived."""
        self._reading_ns = self._checked_ns = self._clock.monotonic_ns()

    def check(self, interval_s: float) -> int | None:
        """The whole seconds since the last reading; None unless they exceed LEAST_SILENCE_S and SILENT_INTERVALS
        intervals.

        Time in which this program did not run, because it was stopped by Ctrl-Z or got no CPU, does not count.
        """
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._checked_ns > (LEAST_SILENCE_S + 0.5 * CHECK_S) * 1e9:  # this check is too late
            self._reading_ns = now_ns
        self._checked_ns = now_ns
        silent_s = (now_ns - self._reading_ns) / 1e9
        return int(silent_s) if silent_s > max(SILENT_INTERVALS * interval_s, LEAST_SILENCE_S) else None
