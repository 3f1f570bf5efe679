"""The share of a disk's bytes that the verdict's job moves, where it is known."""

from __future__ import annotations

from iotop_ai.model.block.counters import UNKNOWN_BLOCK_RATES, BlockKey, BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.present.block import devices
from iotop_ai.present.block.devices import BlockDevice
from iotop_ai.present.job.current import current_job, job_mount
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.units import UNDEFINED, percent

_LEAST_COVERED = 0.75
"""The part of the interval between two readings of the cgroups that the disk's Samples must cover. They cannot cover
all of it, because cgroups and disks are read one after the other.
"""
_NEGLIGIBLE, _LARGEST_RATIO = 0.02, 1.3
"""_NEGLIGIBLE: writes that are at most this share of the reads are ignored. _LARGEST_RATIO: a job that reads more than
this multiple of the bytes read from the disk also reads from other places, so its share is unknown.
"""


def share_text(frame: Frame, view: View, device: BlockDevice) -> str:
    """The share of the verdict's job in the bytes that the disk reads and writes, in percent: "97"; "-" without I/O,
    "?" when unknown or without a job. The share is that of the latest interval of the disk or of the cgroups, even in
    accumulation mode.
    """
    device = device._replace(rates=(frame.sample.block.value or {}).get(device.key, UNKNOWN_BLOCK_RATES))
    total = _total_bytes_per_s(device.rates)
    if total == 0:
        return UNDEFINED
    job = current_job(frame)
    if job is None or total is None:
        return percent(None)
    share = _by_cgroup(frame, job, device)
    return percent(_by_reads(frame, view, job, device) if share is None else share)


def _total_bytes_per_s(rates: BlockRates | None) -> float | None:
    if rates is None or rates.read_bytes_per_s is None or rates.write_bytes_per_s is None:
        return None
    return rates.read_bytes_per_s + rates.write_bytes_per_s


def _by_cgroup(frame: Frame, job: Job, device: BlockDevice) -> float | None:
    """The job's share, from the kernel's counters of its cgroup on this disk; None if the job has no cgroup to itself,
    or when unknown.
    """
    table, rated = frame.snapshot.cgroups.value, frame.sample.cgroups
    path = None if table is None else table.jobs.get(job.key)
    group = None if table is None or path is None else table.groups.get(path)
    rates = None if path is None else (rated.value or {}).get(path)
    if group is None or group.io is None or rates is None or not rated.seconds or device.info is None:
        return None
    total = _mean_bytes_per_s(frame, device.key, rated.seconds)
    own = rates.devices.get(f"{device.info.major}:{device.info.minor}")
    if own is None:  # a cgroup lists a disk only after its first request there
        return 0.0 if total else None
    if not total or own.read_bytes_per_s is None or own.write_bytes_per_s is None:
        return None
    return min(1.0, (own.read_bytes_per_s + own.write_bytes_per_s) / total)


def _mean_bytes_per_s(frame: Frame, key: BlockKey, seconds: float) -> float | None:
    """The disk's mean rate of reads and writes together, in bytes per second, over the interval of the newest reading
    of cgroups; None when unknown. seconds: the length of that interval.
    """
    total = covered = 0.0
    in_interval = False
    for sample in reversed(frame.history):
        in_interval = in_interval or sample.cgroups.renewed
        if not in_interval or not sample.block.renewed:
            continue
        bytes_per_s = _total_bytes_per_s((sample.block.value or {}).get(key))
        if bytes_per_s is None or not sample.block.seconds:
            return None
        total += bytes_per_s * sample.block.seconds
        covered += sample.block.seconds
        if covered >= _LEAST_COVERED * seconds:
            return total / covered
    return None


def _by_reads(frame: Frame, view: View, job: Job, device: BlockDevice) -> float | None:
    """The job's share, from the bytes that its processes read; None when unknown.

    It is known only for the single disk that holds the job's files, and only if hardly anything is written, because
    writes reach the disk later.
    """
    mount, table, rated = job_mount(frame, job), frame.snapshot.processes.value, frame.sample.processes
    sources = [] if mount is None else devices.mount_disks(frame, view, mount)
    if table is None or rated.value is None or rated.seconds is None:
        return None
    if [devices.top_row_of(source.name, frame) for source in sources] != [device.name]:
        return None
    read, written = device.rates.read_bytes_per_s, device.rates.write_bytes_per_s
    if not read or written is None or written > _NEGLIGIBLE * read:
        return None
    own = 0.0
    for key in job.members:
        rates = rated.value.rates.get(key)
        if rates is None and key in table.io:
            continue  # it was idle
        if rates is None or rates.read_bytes_per_s is None:
            return None
        own += rates.read_bytes_per_s
    return None if own > _LARGEST_RATIO * read else min(1.0, own / read)
