"""How busy a job keeps its GPUs over a window, even if other jobs also compute on them."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.diagnosis.facts.gpu import GpuFacts
from iotop_ai.diagnosis.facts.window import Window, mean
from iotop_ai.model.gpu.sharing import busy_parts, processes_of_others
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.time_shares import TimeShares
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Snapshot

OTHERS_WORK = 0.1
"""At or above this utilisation by others, a job shares its GPUs; below it, others merely have them open."""
_DEEPEST = 32
"""The most generations from a process up to the job."""
_UNREAD: Reading[GpuState] = Reading()


def gpu_busy(
    window: Window, job: Job, gpu: GpuFacts, jobs: int, own_part_known: bool | None, time: TimeShares | None
) -> tuple[float | None, bool]:
    """The utilisation of the job's GPUs by the job, 0..1 or None if unknown, and whether others may work on them too.

    jobs: the number of all jobs. own_part_known: the result of ``own_part_known``. time: the shares of the job's time.
    """
    busy = _utilisation_by_all(window, job, gpu, jobs)
    if own_part_known is None:
        return busy, False
    own = time.compute + time.collective if own_part_known and time is not None else None
    return own, own is None or (busy or 0.0) - own >= OTHERS_WORK


def _utilisation_by_all(window: Window, job: Job, gpu: GpuFacts, jobs: int) -> float | None:
    """The mean utilisation of the job's GPUs by all programs; None when unknown.

    If it is the only job and its GPUs are not visible, this is the mean utilisation of all GPUs in use.
    """
    own = job.gpus
    if own:
        return mean(
            [rates.busy_ratio for s in window.samples for uuid, rates in (s.gpu.value or {}).items() if uuid in own]
        )
    return gpu.busy_ratio if jobs == 1 and gpu.used and gpu.pids is None else None


def own_part_known(snapshot: Snapshot, job: Job) -> bool | None:
    """Whether the job's own part of the use of its GPUs is known; None if no other program is on them."""
    states = [state for uuid in job.gpus if (state := (snapshot.gpu.value or {}).get(uuid, _UNREAD).value) is not None]
    pids = pids_of(snapshot, job, [p.pid for state in states for p in state.processes or () if p.found])
    if not any(processes_of_others(state, pids) for state in states):
        return None
    by_gpu = [busy_parts(state, pids) for state in states]
    return all(gpu_parts is None or gpu_parts.own is not None for gpu_parts in by_gpu)


def pids_of(snapshot: Snapshot, job: Job, among: Sequence[int]) -> frozenset[int]:
    """The pids of the job's processes, and those pids of ``among`` that descend from them."""
    inside = {key.pid for key in job.members}
    stat = {} if snapshot.processes.value is None else snapshot.processes.value.stat
    parents: dict[int, int] = {}
    for pid in among:
        ancestor, steps = pid, 0
        if pid not in inside and not parents:
            parents = {key.pid: process_stat.ppid for key, process_stat in stat.items()}
        while ancestor not in inside and ancestor in parents and steps < _DEEPEST:
            ancestor, steps = parents[ancestor], steps + 1
        if ancestor in inside:
            inside.add(pid)
    return frozenset(inside)
