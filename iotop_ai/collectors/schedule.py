"""Runs a collector when it is due and repeats its newest Reading in between."""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.base import Collector, take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.reading import Reading

EARLY_NS = 20_000_000
"""A tick may come this early, so that a 5 s collector runs in every fifth 1 s tick."""


class ScheduledCollector:
    """``reading`` reads the collector when it is due and otherwise repeats the newest Reading.

    A repeated Reading keeps its at_ns: equal times tell the rates that it is not new.
    """

    def __init__(self, collector: Collector[Any], clock: Clock) -> None:
        self.collector = collector
        self.field = collector.field
        self._clock = clock
        self._due_ns = 0
        self._newest: Reading[Any] = Reading()

    def reading(self, now_ns: int, at_step_ns: int = 1, took_step_ns: int = 1) -> Reading[Any]:
        """The Reading for a tick at ``now_ns``. at_step_ns, took_step_ns: as in ``take_reading``."""
        if now_ns + EARLY_NS >= self._due_ns:
            self._newest = take_reading(self.collector, self._clock, at_step_ns, took_step_ns)
            self._due_ns = now_ns + int(self.collector.every_s * 1e9)
        return self._newest

    def close(self) -> None:
        """Close the collector."""
        self.collector.close()
