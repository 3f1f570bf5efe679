"""Cures with their numbers, as (template id, arguments); present/verdict/headline.py has the sentences."""

from __future__ import annotations

import math

from iotop_ai.diagnosis.facts.block import DeviceFacts, base_of
from iotop_ai.diagnosis.facts.gather import Facts
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.process import Group
from iotop_ai.model.finding import Advice

_ROOM = 1.05
"""A copy needs slightly more space than the bytes in use."""
_MOST_LOST = 0.95
"""Above this share of lost time too little was delivered to estimate the rate that the GPUs need."""


def storage_advice(facts: Facts, device: DeviceFacts, lost: float, group: Group | None) -> tuple[Advice, ...]:
    """Cures for a slow disk, best first."""
    out = []
    copy = facts.lazy.once(f"copy {device.name}", lambda: _copy(facts, device))
    if copy is not None:
        out.append(copy)
    size = device.read_size_bytes
    if size is not None and size < facts.limits.small_read_bytes:
        out.append(Advice("pack_files", (("read_size_bytes", size),)))
    rate = device.read_bytes_per_s
    if rate and facts.gpu.used and lost < _MOST_LOST:
        out.append(Advice("needed_rate", (("device", device.name), ("rate", rate), ("needed", rate / (1 - lost)))))
    if not device.serial and (device.inflation or 0.0) < facts.limits.inflation_slow:
        out.append(Advice("more_reads_at_once", (("queue", float(group.doing) if group else None),)))
    if not out:
        out.append(Advice("faster_storage", (("device", device.name), ("rate", rate))))
    return tuple(out)


def _copy(facts: Facts, device: DeviceFacts) -> Advice | None:
    infos = facts.snapshot.disks.value or {}
    usage = {mount: r.value for mount, r in (facts.snapshot.filesystems.value or {}).items() if r.value is not None}
    source = facts.mount(device)
    # The root filesystem holds more than a dataset: its size is not that of the copy.
    if source in ("", "/") or source not in usage:
        return None
    used = usage[source].total_bytes - usage[source].free_bytes
    slow = base_of(device.info, infos).name
    best: tuple[int, str, str] | None = None
    for info in infos.values():
        base = base_of(info, infos)
        if base.name == slow or base.transport != "nvme":
            continue
        for mount in info.mounts:
            room = usage[mount.path].available_bytes if mount.path in usage and not mount.read_only else 0
            if room >= used * _ROOM and (best is None or room > best[0]):
                best = room, mount.path, info.label or info.name
    if best is None:
        shm = usage.get("/dev/shm")
        room = 0 if shm is None else _memory_room(facts, shm.available_bytes)
        if room < used * _ROOM:
            return None
        best = room, "/dev/shm", "memory"
    hours = used / device.read_bytes_per_s / 3600 if device.read_bytes_per_s else None
    return Advice(
        "copy_data",
        (
            ("source", source),
            ("bytes", float(used)),
            ("hours", hours),
            ("target", best[1]),
            ("target_device", best[2]),
            ("room", float(best[0])),
        ),
    )


def _memory_room(facts: Facts, shm_bytes: int) -> int:
    """The bytes that fit into a tmpfs of that size: limited by available memory and by the jobs' cgroups."""
    memory = facts.snapshot.memory.value
    known = [None if memory is None else memory.available_bytes, *(j.place.memory_room_bytes for j in facts.jobs)]
    return min([shm_bytes, *(room for room in known if room is not None)])


def most_workers(facts: Facts) -> int | None:
    """DataLoader workers per training process that the cores allow; None when the cores are unknown."""
    cores = facts.allowed_cores
    if cores is None:
        return None
    if facts.physical_cores is not None:
        cores = min(cores, facts.physical_cores)
    return max(1, math.floor(cores * facts.limits.core_share / max(1, facts.gpu.used)))


def worker_advice(facts: Facts, workers: int) -> tuple[Advice, ...]:
    """More workers where cores are idle, else cheaper transforms."""
    most = most_workers(facts)
    now = max(0, round(workers / max(1, facts.gpu.used)))
    out = []
    if most is not None and most > now and (facts.idle_cores or 0.0) >= 1.0:
        out.append(
            Advice(
                "more_workers",
                (
                    ("now", float(now)),
                    ("then", float(most)),
                    ("cores", float(facts.allowed_cores or 0)),
                    ("ranks", float(max(1, facts.gpu.used))),
                ),
            )
        )
        if not now:
            out.append(Advice("worker_options"))
    else:
        out.append(Advice("cheaper_transforms", (("cores", float(facts.allowed_cores or 0)),)))
    return tuple(out)


_MOST_FOR_IO = 16
"""Loaders per rank up to which more are proposed for more reads in flight: they cost little CPU."""


def job_cores(facts: Facts, job: JobFacts) -> float | None:
    """The number of cores that the job may use, by its CPU set, its quota and the machine; None when unknown."""
    known = [
        float(cores)
        for cores in (job.place.allowed_cores, job.place.cpu_cores, facts.physical_cores, facts.allowed_cores)
        if cores is not None
    ]
    return min(known) if known else None


def job_idle_cores(facts: Facts, job: JobFacts) -> float | None:
    """The number of idle cores that the job's CPU quota allows it to use; None when unknown."""
    idle, quota = facts.idle_cores, job.place.cpu_cores
    if idle is None or quota is None or job.cpu_ratio is None:
        return idle
    return min(idle, max(0.0, quota - job.cpu_ratio))


OTHER_WORKERS = (
    ("env", "faster_simulation"),
    ("ray", "ray_tasks"),
    ("prep", "more_processes"),
    ("pool", "more_processes"),
)
"""Kinds of workers that num_workers does not set, and the cure of each."""


def job_worker_advice(facts: Facts, job: JobFacts, *, io: bool = False) -> tuple[Advice, ...]:
    """More loaders per rank where that helps, else cheaper transforms.

    io: the loaders are blocked and do not compute, so that more of them than cores make sense.
    """
    ranks = max(1, len(job.job.ranks))
    now = round(job.workers / ranks)
    cores = job_cores(facts, job)
    numbers = (("now", float(now)), ("cores", cores), ("ranks", float(ranks)))
    kinds = {rank.worker_kind for rank in job.job.ranks}
    own = next((advice for kind, advice in OTHER_WORKERS if kind in kinds), "")
    if own:
        return (Advice(own, numbers),)
    if not now and job.loads_apart:
        return (Advice("parallel_calls" if job.job.framework == "tensorflow" else "more_threads", numbers),)
    if io:
        then = max(2, min(_MOST_FOR_IO, now * 2))
        if then > now:
            return (Advice("more_readers", (*numbers, ("then", float(then)))),)
        return (Advice("more_reads_at_once", (("queue", None),)),)
    most = None if cores is None else max(1, math.floor(cores * facts.limits.core_share / ranks))
    short = (job.worker_cpu_wait or 0.0) >= facts.limits.cores_short
    if most is not None and most > now and not short and (job_idle_cores(facts, job) or 0.0) >= 1.0:
        more = Advice("more_workers", (*numbers, ("then", float(most))))
        return (more,) if now else (more, Advice("worker_options"))
    if not now:
        return (Advice("one_worker", numbers), Advice("cheaper_transforms", (("cores", cores),)))
    return (Advice("cheaper_transforms", (("cores", cores),)),)
