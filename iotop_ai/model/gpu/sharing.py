"""GPUs that a job shares with other processes, so that the utilisation is not that of the job alone."""

from __future__ import annotations

from collections.abc import Collection

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.gpu.state import GpuProcess, GpuState

COMPUTE = "compute"


class GpuParts(NamedTuple):
    """How busy a GPU is for the job and for other processes, 0 to 1; None if unknown."""

    own: float | None = None
    others: float | None = None


def strangers(state: GpuState, pids: Collection[int]) -> list[GpuProcess]:
    """The compute processes on a GPU that do not belong to the job with these pids (in the monitor's /proc)."""
    listed = [one for one in state.processes or () if one.kind == COMPUTE]
    own = any(one.found and one.pid in pids for one in listed)
    # If no process of the job is found by pid, a process from another PID namespace may belong to the job.
    return [one for one in listed if (one.pid not in pids if one.found else own)]


def parts(state: GpuState, pids: Collection[int]) -> GpuParts | None:
    """How busy a GPU is for the job with these pids and for others; None if only the job computes."""
    others = [one.sm_percent for one in strangers(state, pids)]
    if not any(percent != 0 for percent in others):
        return None
    own = [one.sm_percent for one in state.processes or () if one.kind == COMPUTE and one.found and one.pid in pids]
    if not own or None in own or None in others:
        return GpuParts()
    return GpuParts(*(min(1.0, sum(one for one in found if one is not None) / 100) for found in (own, others)))
