"""The I/O rates and the CPU use of all processes of a job together, over a window."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

from iotop_ai.diagnosis.facts.per_sample_cache import PerSampleCache
from iotop_ai.diagnosis.facts.window import Window
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.records import Job
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.sample import Sample

_Sums = tuple[float, float, float, float]
"""The sums over the job's processes in one Sample, in the order of the fields of ``JobMoved``."""


class JobMoved(NamedTuple):
    """How much a job reads, writes and computes: the means over a window of the sums over the job's processes.

    read, write: bytes per second from and to disks. rchar: bytes per second of all read calls. cpu: cores. A field is
    None when unknown.
    """

    read: float | None
    rchar: float | None
    write: float | None
    cpu: float | None


class JobSums:
    """For each job, the sums over its processes in each Sample, kept from one decision to the next."""

    def __init__(self) -> None:
        self._caches: dict[ProcessKey, PerSampleCache[_Sums]] = {}

    def keep_only(self, jobs: Iterable[ProcessKey]) -> None:
        """Drop the sums of other jobs."""
        self._caches = {key: kept for key in jobs if (kept := self._caches.get(key)) is not None}

    def totals(self, window: Window, job: Job, newest: ProcessTable | None) -> JobMoved:
        """The means over the Samples in which the processes were read again.

        The I/O is unknown if the I/O of any process of the job cannot be read. newest: the newest process table, which
        lists such processes; None when unknown, and then every field is None.
        """
        samples = tuple([s for s in window.samples if s.processes.value is not None and s.processes.renewed])
        if not samples:
            return JobMoved(None, None, None, None)
        members = job.members
        cache = self._caches.setdefault(job.key, PerSampleCache())
        sums = cache.each(samples, (members,), lambda sample: _sums(sample, members))
        read, rchar, write, cpu = (fsum(column) / len(samples) for column in zip(*sums, strict=True))
        if newest is None or not members.isdisjoint(newest.denied):
            return JobMoved(None, None, None, None if newest is None else cpu)
        return JobMoved(read, rchar, write, cpu)


def _sums(sample: Sample, members: frozenset[ProcessKey]) -> _Sums:
    listed = {} if sample.processes.value is None else sample.processes.value.rates
    read, rchar, write, cpu = 0.0, 0.0, 0.0, 0.0
    for row in [listed[key] for key in members if key in listed]:
        read += row.read_bytes_per_s or 0.0
        rchar += row.rchar_bytes_per_s or 0.0
        write += row.write_bytes_per_s or 0.0
        cpu += row.cpu_ratio or 0.0
    return read, rchar, write, cpu
