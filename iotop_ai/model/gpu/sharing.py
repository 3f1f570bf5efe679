"""Which GPUs are in use, and how busy a shared GPU is for a job and for other processes."""

from __future__ import annotations

from collections.abc import Collection

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.gpu.state import GpuProcess, GpuState

COMPUTE = "compute"
USED_BYTES = 512 << 20
"""A GPU without a visible process counts as in use if at least this much of its memory is in use, because a container
hides processes."""


class GpuParts(NamedTuple):
    """How busy a GPU is for the job and for other processes, 0 to 1; None if unknown."""

    own: float | None = None
    others: float | None = None


def in_use(gpu: GpuState, busy: bool, used_bytes: int = USED_BYTES) -> bool:
    """Whether a GPU has a compute process or, if no process on it is visible, is busy or uses ``used_bytes`` or more.

    On a desktop the only processes are graphics processes; such a GPU is not in use.
    """
    if gpu.processes:
        return any(process.kind == COMPUTE for process in gpu.processes)
    return busy or (gpu.memory_used_bytes or 0) >= used_bytes


def processes_of_others(state: GpuState, pids: Collection[int]) -> list[GpuProcess]:
    """The compute processes on a GPU that do not belong to the job with these pids (in the monitor's /proc)."""
    listed = [process for process in state.processes or () if process.kind == COMPUTE]
    job_is_listed = any(process.found and process.pid in pids for process in listed)
    # If no process of the job is found by pid, a process from another PID namespace may belong to the job.
    return [process for process in listed if (process.pid not in pids if process.found else job_is_listed)]


def busy_parts(state: GpuState, pids: Collection[int]) -> GpuParts | None:
    """How busy a GPU is for the job with these pids and for others; None if no other process uses the SMs.

    Both parts are unknown if the share of one process is unknown, or if no process of the job is found.
    """
    others = [process.sm_percent for process in processes_of_others(state, pids)]
    if not any(percent != 0 for percent in others):
        return None
    own = [p.sm_percent for p in state.processes or () if p.kind == COMPUTE and p.found and p.pid in pids]
    if not own or None in own or None in others:
        return GpuParts()
    return GpuParts(*(min(1.0, sum(p for p in percents if p is not None) / 100) for percents in (own, others)))
