"""Runs a collector only when it is due; the ticks in between get the newest Reading again."""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.base import Collector, take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.reading import Reading

EARLY_NS = 20_000_000
"""How long before its due time a collector may run, in nanoseconds.

Without this tolerance, a tick that comes slightly early would skip the collector.
"""


class ScheduledCollector:
    """Runs one collector according to its ``every_s``.

    A repeated Reading keeps its ``at_ns``. The code that computes rates sees the equal times and knows that the Reading
    is not new.
    """

    def __init__(self, collector: Collector[Any], clock: Clock) -> None:
        self.collector = collector
        self.field = collector.field
        self._clock = clock
        self._read_ns: int | None = None
        self._newest: Reading[Any] = Reading()

    def reading(self, now_ns: int, at_step_ns: int = 1, took_step_ns: int = 1) -> Reading[Any]:
        """Return the Reading for the tick at ``now_ns``: a new one if the collector is due, otherwise the newest one.

        at_step_ns, took_step_ns: the rounding steps, as in ``take_reading``.
        """
        # ``every_s`` may have changed since the last read: the new value applies at once.
        if self._read_ns is None or now_ns + EARLY_NS >= self._read_ns + int(self.collector.every_s * 1e9):
            self._newest = take_reading(self.collector, self._clock, at_step_ns, took_step_ns)
            self._read_ns = now_ns
        return self._newest

    def close(self) -> None:
        """Close the collector."""
        self.collector.close()
