"""Which GPUs a job uses, and how busy it keeps them over a window, even if other programs also compute on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from iotop_ai.diagnosis.facts.gpu import GpuFacts
from iotop_ai.diagnosis.facts.window import Window, mean
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.model.gpu.sharing import busy_parts, processes_of_others
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.time_shares import TimeShares
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

_COVERED = 0.9
"""A GPU counts as idle over a window only if the samples cover at least this part of the window."""
OTHERS_WORK = 0.1
"""At or above this utilisation by others, a job shares its GPUs; below it, others merely have them open."""
_DEEPEST = 32
"""The most generations from a process up to the job."""
_UNREAD: Reading[GpuState] = Reading()


def owner_of_hidden(jobs: Collection[Job], gpu: GpuFacts, works: Callable[[Job], bool]) -> ProcessKey | None:
    """The job that uses the GPUs, if the processes on the GPUs are hidden; None if they are visible.

    It is the only job that may use a GPU and works; None if no job is like this, or several are. If the machine has
    only one job, it need not work. A job that opens no GPU uses none: the hidden processes are those of another user or
    container.
    """
    if gpu.pids is not None:
        return None
    owners = [job.key for job in jobs if job.may_use_gpu and (len(jobs) == 1 or works(job))]
    return owners[0] if len(owners) == 1 else None


def job_gpus(job: Job, gpu: GpuFacts, owner: ProcessKey | None) -> frozenset[str]:
    """The UUIDs of the job's GPUs. If its GPUs are not visible and it is the owner of hidden GPUs, all GPUs in use."""
    return job.gpus or (frozenset(gpu.uuids) if job.key == owner else frozenset())


def possible_gpus(job: Job, gpu: GpuFacts) -> frozenset[str]:
    """The UUIDs of the GPUs that may be the job's: all in use if the processes on them are hidden.

    A job that opens no GPU has none.
    """
    return frozenset(gpu.uuids) if gpu.pids is None and job.may_use_gpu else frozenset()


def held_gpus(long: Window, job: Job, uuids: frozenset[str], limits: Thresholds) -> frozenset[str]:
    """Those of the job's GPUs (the result of ``job_gpus``) that are only held: idle over the whole window, while their
    rank used another GPU.

    TensorFlow and JAX hold all GPUs that they can see.
    """
    by_rank = [rank.gpus for rank in job.ranks] if job.gpus else [tuple(uuids)] if len(job.ranks) == 1 else []
    if not any(len(own) > 1 for own in by_rank):
        return frozenset()
    if sum(sample.seconds or 0.0 for sample in long.samples) < _COVERED * long.seconds:
        return frozenset()
    busy = {uuid: [_busy_of(sample, uuid) for sample in long.samples] for uuid in uuids}
    used = {uuid for uuid in uuids if any((ratio or 0.0) >= limits.idle_gpu for ratio in busy[uuid])}
    idle = {uuid for uuid in uuids if all(ratio is not None and ratio < limits.idle_gpu for ratio in busy[uuid])}
    kept = {uuid for own in by_rank for uuid in own if uuid not in idle or used.isdisjoint(own)}
    return uuids - kept


def _busy_of(sample: Sample, uuid: str) -> float | None:
    rates = (sample.gpu.value or {}).get(uuid)
    return None if rates is None else rates.busy_ratio


def gpu_busy(
    window: Window, uuids: frozenset[str], own_part_known: bool | None, time: TimeShares | None
) -> tuple[float | None, bool]:
    """The utilisation of the job's GPUs by the job, 0..1 or None if unknown, and whether others may work on them too.

    uuids: the GPUs that the job uses. own_part_known: the result of ``own_part_known``. time: the job's time shares.
    """
    busy = mean(
        [rates.busy_ratio for s in window.samples for uuid, rates in (s.gpu.value or {}).items() if uuid in uuids]
    )
    if own_part_known is None:
        return busy, False
    own = time.compute + time.collective if own_part_known and time is not None else None
    return own, own is None or (busy or 0.0) - own >= OTHERS_WORK


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
