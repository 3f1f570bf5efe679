"""Cures with their numbers, as (template id, arguments); present/finding.py has the sentences."""

from __future__ import annotations

import math

from iotop_ai.diagnosis.devices import DeviceFacts, base_of
from iotop_ai.diagnosis.facts import Facts
from iotop_ai.diagnosis.jobs import JobFacts
from iotop_ai.diagnosis.tasks import Group
from iotop_ai.model.finding import Advice

_ROOM = 1.05
"""A copy needs a little more than the bytes in use."""
_MOST_LOST = 0.95
"""Above it what would be needed is a guess: almost nothing was delivered."""


def storage_advice(facts: Facts, device: DeviceFacts, lost: float, group: Group | None) -> tuple[Advice, ...]:
    """What helps against a slow disk, best first."""
    out = []
    copy = facts.late.once(f"copy {device.name}", lambda: _copy(facts, device))
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
    # The root filesystem holds more than a dataset, so its size says nothing about a copy.
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
        if shm is None or shm.available_bytes < used * _ROOM:
            return None
        best = shm.available_bytes, "/dev/shm", "memory"
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


def most_workers(facts: Facts) -> int | None:
    """DataLoader workers per training process that the cores allow; None when the cores are not known."""
    cores = facts.allowed_cores
    if cores is None:
        return None
    if facts.physical_cores is not None:
        cores = min(cores, facts.physical_cores)
    return max(1, math.floor(cores * facts.limits.core_share / max(1, facts.gpu.used)))


def worker_advice(facts: Facts, workers: int) -> tuple[Advice, ...]:
    """More workers where cores are idle, else cheaper work."""
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
"""Loaders per rank up to which more of them are proposed to keep more reads on their way: they cost little CPU."""


def job_cores(facts: Facts, job: JobFacts) -> float | None:
    """The cores that the job may use: by its CPU set, its quota and the machine; None when not known."""
    known = [
        float(cores)
        for cores in (job.place.allowed_cores, job.place.cpu_cores, facts.physical_cores, facts.allowed_cores)
        if cores is not None
    ]
    return min(known) if known else None


def job_worker_advice(facts: Facts, job: JobFacts, *, io: bool = False) -> tuple[Advice, ...]:
    """More loaders per rank where that helps, else cheaper work.

    io: they are blocked and not computing, so that there may be more of them than cores.
    """
    ranks = max(1, len(job.job.ranks))
    now = round(job.workers / ranks)
    cores = job_cores(facts, job)
    numbers = (("now", float(now)), ("cores", cores), ("ranks", float(ranks)))
    if io:
        then = max(2, min(_MOST_FOR_IO, now * 2))
        if then > now:
            return (Advice("more_readers", (*numbers, ("then", float(then)))),)
        return (Advice("more_reads_at_once", (("queue", None),)),)
    most = None if cores is None else max(1, math.floor(cores * facts.limits.core_share / ranks))
    short = (job.worker_cpu_wait or 0.0) >= facts.limits.cores_short
    if most is not None and most > now and not short and (facts.idle_cores or 0.0) >= 1.0:
        more = Advice("more_workers", (*numbers, ("then", float(most))))
        return (more,) if now else (more, Advice("worker_options"))
    if not now:
        return (Advice("one_worker", numbers), Advice("cheaper_transforms", (("cores", cores),)))
    return (Advice("cheaper_transforms", (("cores", cores),)),)
