"""The caches that one fold keeps from decision to decision."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.own_pids import MonitorPids
from iotop_ai.diagnosis.facts.per_sample_cache import PerSampleCache
from iotop_ai.diagnosis.facts.process_columns import SampleColumns
from iotop_ai.diagnosis.facts.window import Intervals
from iotop_ai.model.block.counters import BlockKey


class FoldCache:
    """A cache and never state: a fold decides the same with a new one. Used by one thread."""

    __slots__ = ("active_devices", "idle_samples", "intervals", "monitor_pids", "process_columns")

    def __init__(self) -> None:
        self.active_devices: PerSampleCache[dict[BlockKey, None]] = PerSampleCache()
        self.idle_samples: PerSampleCache[bool] = PerSampleCache()
        self.intervals = Intervals()
        self.monitor_pids = MonitorPids()
        self.process_columns: PerSampleCache[SampleColumns] = PerSampleCache()
