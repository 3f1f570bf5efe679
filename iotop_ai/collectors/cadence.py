"""When a collector is due, and its newest Reading in between."""

from __future__ import annotations

from iotop_ai.collectors.base import Collector, take
from iotop_ai.collectors.clock import Clock
from iotop_ai.model.reading import Reading
from iotop_ai.model.typed import Any

EARLY_NS = 20_000_000
"""A tick that comes this little before its time still counts, so that a 5 s collector at 1 s ticks runs each fifth."""


class Paced:
    """A collector with its rhythm: ``reading`` reads it when due and repeats the newest Reading otherwise.

    A repeated Reading keeps its at_ns, by which the rates know that nothing was read again.
    """

    def __init__(self, collector: Collector[Any], clock: Clock) -> None:
        self.collector = collector
        self.field = collector.field
        self._clock = clock
        self._due_ns = 0
        self._newest: Reading[Any] = Reading()

    def reading(self, now_ns: int, fine_ns: int = 1, took_fine_ns: int = 1) -> Reading[Any]:
        """The Reading for a tick at ``now_ns``; its times as fine as ``take`` has it."""
        if now_ns + EARLY_NS >= self._due_ns:
            self._newest = take(self.collector, self._clock, fine_ns, took_fine_ns)
            self._due_ns = now_ns + int(self.collector.every_s * 1e9)
        return self._newest

    def close(self) -> None:
        """Close the collector."""
        self.collector.close()
