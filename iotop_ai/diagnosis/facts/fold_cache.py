"""The caches that a fold keeps from one decision to the next."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.own_pids import MonitorPids
from iotop_ai.diagnosis.facts.per_sample_cache import PerSampleCache
from iotop_ai.diagnosis.facts.process_columns import SampleColumns
from iotop_ai.diagnosis.facts.window import Intervals
from iotop_ai.model.block.counters import BlockKey


class FoldCache:
    """The caches of one fold, for use by one thread. They only save time: with empty caches a fold decides the same."""

    __slots__ = ("active_devices", "idle_samples", "intervals", "monitor_pids", "process_columns")

    def __init__(self) -> None:
        self.active_devices: PerSampleCache[dict[BlockKey, None]] = PerSampleCache()
        self.idle_samples: PerSampleCache[bool] = PerSampleCache()
        self.intervals = Intervals()
        self.monitor_pids = MonitorPids()
        self.process_columns: PerSampleCache[SampleColumns] = PerSampleCache()
