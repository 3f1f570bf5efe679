"""Rules about resources that run out: memory, shared memory, and space on a filesystem."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, claim, pressure_ratio
from iotop_ai.diagnosis.facts.mounts import is_boot
from iotop_ai.diagnosis.facts.window import at_least, either, mean
from iotop_ai.diagnosis.rules.job.common import shm_args
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity

MEMORY_BASE = 0.9
SURE = 0.95
_SWAP_PRESSURE = 0.5
"""Swapping counts if the memory pressure is unknown, or at least this part of ``Thresholds.memory_pressure``."""
_TIGHT = 0.1
"""If less than this part of a memory limit is left, the memory is nearly exhausted."""
_IMAGES = ("squashfs", "iso9660", "erofs")
"""Filesystems that are full by nature and cannot be written to."""


def memory_is_short(facts: Facts) -> tuple[Claim, ...]:
    """Programs wait for memory.

    Claim: mem_pressure: reclaiming or swapping slows the machine.
    Evidence: memory pressure (PSI), swapping, file pages that are read again.
    Threshold: some task waits >= 10 % of the time, or >= 1 MB/s are swapped in while some task waits >= 5 % of the time
        or PSI is unknown. Where more than 1 MB/s of file pages are read again and less than 1 MB/s is swapped in, the
        tasks must wait twice as long.
    Blind spot: without PSI the rule sees swapping only. File pages that are read again raise PSI too.
    """
    limits, window = facts.limits, facts.window
    swapped = [None if s.memory.value is None else s.memory.value.swap_in_bytes_per_s for s in window.samples]
    pressure = pressure_ratio(window, "memory")
    least = limits.memory_pressure * _SWAP_PRESSURE * (limits.leave_level if facts.is_active("mem_pressure", "") else 1)
    # Swapping that delays no task costs little, as into compressed memory (zram).
    swap_counts = pressure is None or pressure >= least
    swap = (mean(swapped) or 0.0) if swap_counts else 0.0
    if max((pressure or 0.0) / limits.memory_pressure, swap / limits.swap_bytes_per_s) < limits.leave_level:
        return ()
    pressures = [
        None if (p := (s.pressure.value or {}).get("memory")) is None else p.some_ratio for s in window.samples
    ]
    refaults = mean(None if s.memory.value is None else s.memory.value.refault_file_bytes_per_s for s in window.samples)
    # A wait for file pages concerns the page cache and not the programs' own memory.
    factor = 2.0 if (refaults or 0.0) > limits.swap_bytes_per_s and swap < limits.swap_bytes_per_s else 1.0
    flags = at_least(pressures, factor * limits.memory_pressure * limits.leave_level)
    if swap_counts:
        flags = either(flags, at_least(swapped, limits.swap_bytes_per_s * limits.leave_level))
    level = max((pressure or 0.0) / limits.memory_pressure / factor, swap / limits.swap_bytes_per_s)
    if level < limits.leave_level:
        return ()
    memory = facts.snapshot.memory.value
    largest, rss_bytes = _largest_process(facts)
    args: Args = (
        ("pressure", pressure),
        ("swap_in", mean(swapped)),
        ("available", None if memory is None else memory.available_bytes),
        ("total", None if memory is None else memory.total_bytes),
        ("task", largest),
        ("rss", rss_bytes),
        ("lost", pressure),
    )
    args += _tight_limit(facts)
    evidence = (
        Evidence("pressure.memory.some_ratio", pressure, "ratio", factor * limits.memory_pressure),
        Evidence("memory.swap_in_bytes_per_s", mean(swapped), "B/s", limits.swap_bytes_per_s),
        Evidence("memory.available_bytes", None if memory is None else memory.available_bytes, "B"),
    )
    advice = (Advice("less_memory", args),) if facts.jobs else ()
    finding = Finding(
        "mem_pressure", Severity.WARNING, MEMORY_BASE, "", args, evidence, advice=advice, lost_ratio=pressure
    )
    return (claim(facts, finding, flags, level),)


def _tight_limit(facts: Facts) -> Args:
    """The first job whose memory limit is nearly reached, with the limit and the room left; () if there is none."""
    for job in facts.jobs:
        limit, used, room = job.place.memory_limit_bytes, job.place.memory_used_bytes, job.place.memory_room_bytes
        if room is None and limit and used is not None:
            room = max(0, limit - used)
        if limit and room is not None and room < _TIGHT * limit:
            return (("job", job.job.name), ("memory_limit", float(limit)), ("memory_room", float(room)))
    return ()


def _largest_process(facts: Facts) -> tuple[str, float | None]:
    """The name and the resident bytes of the largest process; ("", None) when the processes are unknown."""
    table = facts.snapshot.processes.value
    if table is None or not table.stat:
        return "", None
    key = max(table.stat, key=lambda k: table.stat[k].rss_pages)
    info = table.info.get(key)
    return ("" if info is None else info.name), float(table.stat[key].rss_pages * table.page_bytes)


def shared_memory_is_full(facts: Facts) -> tuple[Claim, ...]:
    """A job's /dev/shm is full.

    Claim: shm_full: loaders cannot hand over their batches. They fail, or SIGBUS kills them.
    Evidence: used bytes of /dev/shm in the job's own mount namespace (statvfs).
    Threshold: >= 90 % used, until < 80 %; reported at once.
    Blind spot: the rule does not see a batch that is larger than the free space.
    """
    limits, out = facts.limits, []
    for job in facts.jobs:
        total, used = job.place.shm_total_bytes, job.place.shm_used_bytes
        if not total or used is None or used / total < limits.shm_leave:
            continue
        ratio = used / total
        full = ratio >= limits.shm_full
        args: Args = (
            ("job", job.job.name),
            ("job_pid", float(job.job.key.pid)),
            ("used", ratio),
            ("workers", float(job.workers)),
            *shm_args(facts, job),
        )
        evidence = (Evidence(f"jobs.{job.subject}.shm_used_ratio", round(ratio, 4), "ratio", limits.shm_full),)
        finding = Finding(
            "shm_full", Severity.CRITICAL, SURE, job.subject, args, evidence, advice=(Advice("larger_shm", args),)
        )
        out.append(Claim(finding, 1.0, 1, 1, 1.0 if full else limits.leave_level, at_once=full))
    return tuple(out)


def filesystem_is_full(facts: Facts) -> tuple[Claim, ...]:
    """A filesystem is full.

    Claim: fs_full: the next checkpoint or log line cannot be written.
    Evidence: used bytes and inodes of the mounted filesystems (statvfs).
    Threshold: >= 99 % of the bytes used and less than 1 GiB free, or >= 99 % of the inodes used; reported at once.
        Where it is known from which filesystems the jobs read, and this one is not among them, the finding ranks below
        the causes of lost time. A full /boot or /efi is shown beside the verdict. Read-only mounts do not count.
    Blind spot: quotas, and the blocks that a filesystem reserves for root. The rule cannot know where a job will write.
    """
    limits, out = facts.limits, []
    mounts = {m.path: m for info in (facts.snapshot.disks.value or {}).values() for m in info.mounts}
    # NFS and FUSE have no block device.
    mounts |= {m.path: m for m in facts.snapshot.mounts.value or ()}
    for path, reading in (facts.snapshot.filesystems.value or {}).items():
        usage, mount = reading.value, mounts.get(path)
        if usage is None or path == "/dev/shm":
            continue
        if mount is not None and (mount.read_only or mount.fstype in _IMAGES):
            continue
        used, inodes = usage.used_ratio, usage.inodes_used_ratio
        no_room = used is not None and used >= limits.full_ratio and usage.available_bytes < limits.full_bytes
        no_inodes = inodes is not None and inodes >= limits.full_ratio
        if not no_room and not no_inodes:
            continue
        args: Args = (
            ("mount", path),
            ("used", used),
            ("available", float(usage.available_bytes)),
            ("inodes", inodes if no_inodes else None),
        )
        evidence = (
            Evidence(f"filesystems.{path}.used_ratio", used, "ratio", limits.full_ratio),
            Evidence(f"filesystems.{path}.inodes_used_ratio", inodes, "ratio", limits.full_ratio),
        )
        severity = _full_severity(facts, path)
        finding = Finding("fs_full", severity, SURE, path, args, evidence, advice=(Advice("make_room", args),))
        out.append(Claim(finding, 1.0, 1, 1, at_once=True))
    return tuple(out)


def _full_severity(facts: Facts, path: str) -> Severity:
    """The severity of a full filesystem: INFO for /boot and /efi.

    For others, CRITICAL if a job reads from it or if no job's filesystems are known, else WARNING.
    """
    if is_boot(path):
        return Severity.INFO
    mounts = [mount.path for job in facts.jobs for mount in job.place.mounts]
    return Severity.WARNING if mounts and path not in mounts else Severity.CRITICAL
