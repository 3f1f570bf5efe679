"""The caches that ``engine.fold`` keeps from one decision to the next."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.job_moved import JobSums
from iotop_ai.diagnosis.facts.per_sample_cache import PerSampleCache
from iotop_ai.diagnosis.facts.process_columns import SampleColumns
from iotop_ai.diagnosis.facts.process_tree import MonitorPids, ProcessTrees
from iotop_ai.model.block.counters import BlockKey


class FoldCache:
    """The caches for one sequence of Snapshots, for use by one thread.

    They only save time: with empty caches the decisions are the same.
    """

    __slots__ = (
        "active_devices",
        "idle_samples",
        "job_sums",
        "monitor_pids",
        "process_columns",
        "process_trees",
    )

    def __init__(self) -> None:
        self.active_devices: PerSampleCache[dict[BlockKey, None]] = PerSampleCache()
        self.idle_samples: PerSampleCache[bool] = PerSampleCache()
        self.job_sums = JobSums()
        self.monitor_pids = MonitorPids()
        self.process_columns: PerSampleCache[SampleColumns] = PerSampleCache()
        self.process_trees = ProcessTrees()
