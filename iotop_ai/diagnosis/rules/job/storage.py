"""Rules about a job whose loaders are blocked: by a device, a limit, the network or the page cache."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.block import DeviceFacts
from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.neighbours import disk_neighbour
from iotop_ai.diagnosis.facts.window import mean, share
from iotop_ai.diagnosis.memory.read_latency_baseline import JUDGED_KINDS
from iotop_ai.diagnosis.rules.job.common import (
    caps,
    cause_level,
    device_args,
    job_args,
    job_claim,
    loss_over_gate,
    lost_share,
    reads_slow_disk,
    severity,
    stall_evidence,
)
from iotop_ai.diagnosis.verdict.advice import job_worker_advice, storage_advice
from iotop_ai.diagnosis.verdict.nfs_advice import nfs_advice
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import block_totals, is_leaf
from iotop_ai.model.block.tree import disks_of_mount, leaves_below
from iotop_ai.model.finding import Advice, Evidence, Finding
from iotop_ai.model.job.records import IoLimit
from iotop_ai.model.sample import Sample

BASE = 0.85
FUSE_BASE = 0.75
THRASH_BASE = 0.9
LIMIT_BASE = 0.9
LIMIT_GUESS = 0.6
SERIAL_BASE = 0.75
NEARLY_SLOW = 0.6
WITHOUT_DEVICE = 0.5
"""The confidence. FUSE_BASE is for network_fs on FUSE, THRASH_BASE for cache_thrash, LIMIT_BASE and LIMIT_GUESS for
io_limit with a known limit and without one, SERIAL_BASE for loader_serial, and BASE for all others. NEARLY_SLOW and
WITHOUT_DEVICE are upper limits for storage_read."""
LEAST_READ_SHARE = 0.8
"""The machine's refaults count as the job's only if the job makes at least this part of all disks' reads."""


class Wait(NamedTuple):
    """A job that waits for blocked readers.

    device: the device that the job reads from; None if it is unknown. share: the blocked part of the job's wait. level:
    the main signal divided by its threshold.
    """

    job: JobFacts
    device: DeviceFacts | None
    share: float
    level: float


def disk_waits(facts: Facts) -> list[Wait]:
    """The jobs with a loss whose workers (the trainer if it has none) are mostly in state D while the trainer waits."""
    limits, out = facts.limits, []
    for job in facts.jobs:
        loss_level = loss_over_gate(facts, job)
        blocked, running = job.disk, job.running
        if loss_level < limits.leave_level or blocked is None:
            continue
        if job.workers or job.time is not None:
            level = min(loss_level, cause_level(facts, job, blocked, reads_slow_disk(facts, job)))
        else:
            level = min(loss_level, blocked / limits.main_share) if blocked >= (running or 0.0) else 0.0
            # Take the share of the wait, not of all time: while the trainer computes, it does not wait for the device.
            blocked = blocked / max(job.stall or 0.0, blocked) if blocked else 0.0
        if level >= limits.leave_level:
            out.append(Wait(job, facts.job_device(job), blocked, level))
    return out


def wait_finding(
    facts: Facts,
    class_id: str,
    wait: Wait,
    certainty: float,
    advice: tuple[Advice, ...],
    args: Args = (),
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    """A finding about a job with blocked readers: the common figures, followed by the figures of the class."""
    job = wait.job
    return Finding(
        class_id,
        severity(facts, job),
        certainty,
        job.subject,
        (*job_args(facts, job), *device_args(facts, wait.device), *args),
        stall_evidence(facts, job, *_device_evidence(facts, wait.device), *evidence),
        advice=advice,
        lost_ratio=lost_share(job),
    )


def _device_evidence(facts: Facts, device: DeviceFacts | None) -> tuple[Evidence, ...]:
    if device is None:
        return ()
    name, limits = f"disks.{device.name}", facts.limits
    if device.members:
        device = next(one for one in facts.devices if one.name == device.name)
    out = [Evidence(f"{name}.read_await_ms", device.read_await_ms, "ms", round(device.normal_ms, 3))]
    out.append(Evidence(f"{name}.read_bytes_per_s", device.read_bytes_per_s, "B/s"))
    out.append(Evidence(f"{name}.read_size_bytes", device.read_size_bytes, "B", limits.small_read_bytes))
    out.append(Evidence(f"{name}.queue_size", device.queue_size, "count"))
    return tuple(out)


def _slowing_limit(facts: Facts, wait: Wait) -> IoLimit | None:
    """The cgroup limit that slows the job's reads; None if there is none.

    The limit is on the device that the job reads from, or on a device below it. If the job's device is unknown, the
    limit may be on any device.
    """
    job, limits = wait.job, facts.limits
    near = limits.limit_leave if facts.is_active("io_limit", job.subject) else limits.limit_near
    reads = None if wait.device is None else wait.device.reads_per_s
    below = None if wait.device is None else _device_numbers(facts, wait.device)
    for limit in job.place.limits:
        # A limit on another device cannot slow the job, even if the job's read rate is near that limit.
        if below is not None and limit.device not in below:
            continue
        rate = {"read_bytes": job.read_bytes_per_s, "read_ios": reads}.get(limit.what)
        if rate is not None and abs(rate - limit.value) <= near * limit.value:
            return limit
    return None


def _device_numbers(facts: Facts, device: DeviceFacts) -> frozenset[str]:
    """The "major:minor" of a device, of its members and of all devices below them."""
    infos = facts.snapshot.disks.value or {}
    out, left = set(), [device.info, *(infos[name] for name in device.members if name in infos)]
    while left:
        info = left.pop()
        number = f"{info.major}:{info.minor}"
        if number not in out:
            out.add(number)
            left += [infos[name] for name in (*info.slaves, info.parent) if name in infos]
    return frozenset(out)


def _not_in_the_queue(facts: Facts, wait: Wait) -> bool:
    """Whether readers are blocked although the device is not slow and has few requests in its queue.

    If no device is known to deliver what the job reads, the disks of the job's mount are tested; all must be known.
    """
    blocked, limits = wait.job.blocked_tasks, facts.limits
    if blocked is None or blocked < facts.limits.decider or wait.job.remote_mount is not None:
        return False
    disks = _disks_of_mount(facts, wait.job) if wait.device is None else [wait.device]
    if disks is None or any((disk.inflation or 0.0) >= limits.inflation_slow for disk in disks):
        return False
    queues = [disk.queue_size for disk in disks if disk.queue_size is not None]
    part = limits.queue_leave if facts.is_active("io_limit", wait.job.subject) else limits.queue_share
    return len(queues) == len(disks) and sum(queues) < part * blocked


def _disks_of_mount(facts: Facts, job: JobFacts) -> list[DeviceFacts] | None:
    """The disks of the mount that the job reads from, without those that were idle in the whole window.

    None for a FUSE mount, if the disks are unknown (as those of a ZFS pool may be), or if one of the disks is of a kind
    without facts or has no known rates.
    """
    infos, tables = facts.snapshot.disks.value or {}, [s.block.value for s in facts.window.samples]
    if job.through_fuse or not job.place.mounts:
        return None
    names = disks_of_mount(job.place.mounts[0], infos)
    measured = {
        key.name
        for table in tables
        for key, rates in (table or {}).items()
        if key.name in names and infos[key.name].kind in JUDGED_KINDS and rates.reads_per_s is not None
    }
    return [d for d in facts.devices if d.name in names] if names and measured.issuperset(names) else None


def _refault_ratio(facts: Facts, wait: Wait) -> float | None:
    """The job's refaults (pages read again soon after they were dropped) divided by its reads; None when unknown.

    The kernel counts refaults for the whole machine. So the job must make most of all disks' reads, and the reads of
    other processes are subtracted.
    """
    read, infos = wait.job.read_bytes_per_s, facts.snapshot.disks.value
    window = facts.window_over(facts.limits.thrash_window_s, ("memory",))
    if not read or not infos:
        return None
    refault = mean(None if s.memory.value is None else s.memory.value.refault_file_bytes_per_s for s in window.samples)
    if refault is None or refault < facts.limits.leave_level * facts.limits.refault_ratio * read:
        # Even the refaults of the whole machine are too few.
        return None if refault is None else refault / read
    disk_reads = {
        s.at_ns: block_totals(s.block.value, infos.values()).read_bytes_per_s or 0.0
        for s in window.samples
        if s.block.value is not None
    }
    if not any(disk_reads.values()) or read < LEAST_READ_SHARE * (mean(disk_reads.values()) or 0.0):
        return None
    # All disks' reads lack those of a job on a loop device whose file is on a network or FUSE filesystem.
    leaves = () if wait.device is None else leaves_below(wait.device.name, infos)
    listed = wait.device is None or any(name in infos and is_leaf(infos[name]) for name in leaves)
    own = mean(_own_refault(s, wait.job, read, disk_reads.get(s.at_ns, 0.0), listed) for s in window.samples)
    return None if own is None else own / read


def _own_refault(sample: Sample, job: JobFacts, usual: float, all_disks: float, listed: bool) -> float | None:
    """Refaulted bytes per second that the reads of others do not explain; None when unknown.

    usual: the job's mean read rate, which is used if the sample does not have the job's reads. all_disks: the read rate
    of all disks. listed: whether it contains the job's reads.
    """
    if sample.memory.value is None or sample.memory.value.refault_file_bytes_per_s is None:
        return None
    if not listed:
        return max(0.0, sample.memory.value.refault_file_bytes_per_s - all_disks)
    rates_of = {} if sample.processes.value is None else sample.processes.value.rates
    reads = [rates.read_bytes_per_s for key in job.job.members if (rates := rates_of.get(key)) is not None]
    own = usual if None in reads or not reads else sum(value for value in reads if value is not None)
    return max(0.0, sample.memory.value.refault_file_bytes_per_s - max(0.0, all_disks - own))


def _class_of(facts: Facts, wait: Wait) -> str:
    """The class of a job with blocked readers: the most specific class that fits."""
    limits, device, subject = facts.limits, wait.device, wait.job.subject
    if wait.job.remote_mount is not None and device is None:
        return "network_fs"
    if _slowing_limit(facts, wait) is not None:
        return "io_limit"
    if disk_neighbour(facts, wait.job, device, idle_queue=_not_in_the_queue(facts, wait)) is not None:
        return "noisy_neighbour"
    if _not_in_the_queue(facts, wait):
        return "io_limit"
    refault_limit = limits.refault_leave if facts.is_active("cache_thrash", subject) else limits.refault_ratio
    if (_refault_ratio(facts, wait) or 0.0) >= refault_limit:
        return "cache_thrash"
    if device is None:
        return "storage_read"
    size_limit = limits.small_read_leave_bytes if facts.is_active("small_random", subject) else limits.small_read_bytes
    if device.read_size_bytes is not None and device.read_size_bytes < size_limit:
        return "small_random"
    slow = share(device.slow) >= limits.leave_share
    inflation_limit = limits.serial_leave if facts.is_active("loader_serial", subject) else limits.inflation_some
    is_quick = not device.serves_serially and not slow and (device.inflation or 0.0) < inflation_limit
    if is_quick and not device.is_capped:  # more reads at once would gain nothing from a capped volume
        return "loader_serial"
    return "storage_read"


def waits_of(facts: Facts, class_id: str) -> list[Wait]:
    """The jobs with blocked readers whose loss belongs to this class."""
    if not facts.jobs:
        return []
    waits = facts.lazy.compute_once("waits", lambda: [(_class_of(facts, wait), wait) for wait in disk_waits(facts)])
    return [wait for wait_class, wait in waits if wait_class == class_id]


def family_count(facts: Facts, wait: Wait) -> int:
    """The number of families of signals that agree: task states, device, pressure, GPU."""
    under_pressure = (facts.io_pressure_ratio or 0.0) >= facts.limits.pressure
    return 1 + (wait.device is not None) + under_pressure + (wait.job.gpu_busy is not None)


def job_waits_for_storage(facts: Facts) -> tuple[Claim, ...]:
    """A job's loaders are blocked by a device that answers slowly.

    Claim: storage_read: while the trainer waits, its loaders are blocked in reads of a slow device.
    Evidence: samples of trainer and workers; await of the device behind the job's files.
    Threshold: time lost; >= 50 % of the busy workers in state D (without workers: the trainer itself >= 30 %); await >=
        3 times normal, or a busy rotating disk. Where the job's time is counted, less than 50 % is enough if no other
        part of the wait is larger, this part is >= 8 % of the time, and the device is slow: at most 60 % sure.
        A network volume whose read rate is flat while it is busy is at its limit, whatever its await.
    Blind spot: an await of 1.5 to 3 times normal may come from queue depth or from a slow device: at most 60 % sure.
        Without a known device behind the files: at most 50 %.
    """
    out = []
    for wait in waits_of(facts, "storage_read"):
        device = wait.device
        slow = device is not None and share(device.slow) >= facts.limits.leave_share
        is_capped = device is not None and device.is_capped
        more = [] if slow or is_capped else [NEARLY_SLOW] if device is not None else [WITHOUT_DEVICE]
        upper_limits = (*caps(wait.job, wait.share, facts.limits.decider_sure), *more)
        certainty = confidence(BASE, family_count(facts, wait), *upper_limits)
        advice: tuple[Advice, ...] = (
            () if device is None else storage_advice(facts, device, lost_share(wait.job), None, wait.job)
        )
        if not slow and not is_capped and wait.job.workers:
            advice = (*job_worker_advice(facts, wait.job, io=True), *advice)
        capped: Args = (("capped", 1.0),) if is_capped else ()
        finding = wait_finding(facts, "storage_read", wait, certainty, advice, capped)
        out.append(job_claim(facts, wait.job, finding, wait.level))
    return tuple(out)


def job_reads_small(facts: Facts) -> tuple[Claim, ...]:
    """A job's loaders are blocked in many small reads.

    Claim: small_random: latency, not bandwidth, limits them.
    Evidence: as storage_read; mean size of the device's reads.
    Threshold: as storage_read, whatever the await; reads are below 48 KiB. The device need not be slow: small reads
        starve a fast one.
    Blind spot: metadata that the server caches, and requests that the kernel merges.
    """
    out = []
    for wait in waits_of(facts, "small_random"):
        certainty = confidence(BASE, family_count(facts, wait), *caps(wait.job, wait.share, facts.limits.decider_sure))
        size = None if wait.device is None else wait.device.read_size_bytes
        advice = (Advice("pack_files", (("read_size_bytes", size),)), *job_worker_advice(facts, wait.job, io=True))
        out.append(job_claim(facts, wait.job, wait_finding(facts, "small_random", wait, certainty, advice), wait.level))
    return tuple(out)


def job_reads_from_network(facts: Facts) -> tuple[Claim, ...]:
    """A job's loaders are blocked in a network or FUSE filesystem.

    Claim: network_fs: the filesystem's server, or the network path to it, is slow.
    Evidence: as storage_read; the filesystem of the job's open files; no local device delivers what the job reads.
    Threshold: as storage_read, whatever the await; no local device has 20 % of the bytes.
    Blind spot: a file that is closed again between two samples; a FUSE server with a local cache.
    """
    out = []
    for wait in waits_of(facts, "network_fs"):
        mount = wait.job.remote_mount
        if mount is None:
            continue
        base = FUSE_BASE if mount.fstype.startswith("fuse") else BASE
        certainty = confidence(
            base, 1 + family_count(facts, wait), *caps(wait.job, wait.share, facts.limits.decider_sure)
        )
        where: Args = (
            ("mount", mount.path),
            ("fstype", mount.fstype),
            ("source", mount.source),
            ("rchar", wait.job.read_chars_per_s),
        )
        advice = (
            *nfs_advice(facts, mount),
            Advice("stage_local", where),
            *job_worker_advice(facts, wait.job, io=True),
        )
        finding = wait_finding(facts, "network_fs", wait, certainty, advice, where)
        out.append(job_claim(facts, wait.job, finding, wait.level))
    return tuple(out)


def job_is_throttled(facts: Facts) -> tuple[Claim, ...]:
    """A limit set on the job, not the device, holds the job's reads back.

    Claim: io_limit: the loaders are blocked before their requests reach the device.
    Evidence: as storage_read; limits of the job's cgroup and its parents; the device's queue (for a filesystem on
        several disks, and for a stacked device that the kernel does not time, the queues of its members).
    Threshold: as storage_read, whatever the await. In addition, the read rate is within 15 % of a limit (io.max,
        blkio.throttle) on its device; or fewer than 0.3 requests are queued per blocked task while the await is below 3
        times normal (measured: 0.005 under a limit, 0.9 and above without one).
    Blind spot: a limit outside this machine (a cloud volume's) shows in the device's own await.
    """
    out = []
    for wait in waits_of(facts, "io_limit"):
        limit = _slowing_limit(facts, wait)
        base = LIMIT_GUESS if limit is None else LIMIT_BASE
        count = family_count(facts, wait) + (2 if limit is not None else 0)
        certainty = confidence(base, count, *caps(wait.job, wait.share, facts.limits.decider_sure))
        args: Args = (("blocked_tasks", wait.job.blocked_tasks), ("rate", wait.job.read_bytes_per_s))
        evidence: tuple[Evidence, ...] = (
            Evidence(f"jobs.{wait.job.subject}.blocked_tasks", wait.job.blocked_tasks, "count"),
        )
        if limit is not None:
            args += (("limit", float(limit.value)), ("what", limit.what), ("file", limit.file))
            rate = wait.job.read_bytes_per_s
            unit = "B/s"
            if limit.what == "read_ios":
                rate, unit = (None if wait.device is None else wait.device.reads_per_s), "1/s"
            evidence += (Evidence(f"jobs.{wait.job.subject}.{limit.what}", rate, unit, float(limit.value)),)
        advice = (Advice("raise_limit", args),)
        finding = wait_finding(facts, "io_limit", wait, certainty, advice, args, evidence)
        out.append(job_claim(facts, wait.job, finding, wait.level))
    return tuple(out)


def job_rereads_what_was_cached(facts: Facts) -> tuple[Claim, ...]:
    """A job reads again what the page cache just dropped.

    Claim: cache_thrash: the data almost fits into memory, and each epoch pushes out what the next epoch needs.
    Evidence: as storage_read; refaults of file pages against the job's reads.
    Threshold: over 30 s, the refaults, less the bytes that others read in the same tick, are >= 30 % of the bytes that
        the job reads. The job makes at least 80 % of all disks' reads.
    Blind spot: the kernel counts refaults for the whole machine, so the rule is silent if other programs read much.
    """
    out = []
    for wait in waits_of(facts, "cache_thrash"):
        refault = _refault_ratio(facts, wait)
        # Readahead that is dropped unread is read twice and may exceed the job's reads, so the ratio is at most 1.
        ratio = None if refault is None else min(1.0, refault)
        count = 1 + family_count(facts, wait)
        certainty = confidence(THRASH_BASE, count, *caps(wait.job, wait.share, facts.limits.decider_sure))
        memory = facts.snapshot.memory.value
        args: Args = (("refault", ratio), ("available", None if memory is None else memory.available_bytes))
        args += (("memory_limit", wait.job.place.memory_limit_bytes),)
        evidence = (Evidence("memory.refault_ratio", ratio, "ratio", facts.limits.refault_ratio),)
        finding = wait_finding(facts, "cache_thrash", wait, certainty, (Advice("more_cache", args),), args, evidence)
        out.append(job_claim(facts, wait.job, finding, wait.level))
    return tuple(out)


def job_asks_for_too_little(facts: Facts) -> tuple[Claim, ...]:
    """A job's loaders wait for a device that is not slow.

    Claim: loader_serial: too few reads are in flight at once. The device has headroom.
    Evidence: as storage_read; await; about as many requests are queued as loaders are blocked.
    Threshold: as storage_read, but await < 1.5 times normal; reads >= 48 KiB; not a rotating disk, and not a network
        volume whose read rate is flat while it is busy.
    Blind spot: "normal" is the value for the device's kind: a slow device with constant latency looks the same.
    """
    out = []
    for wait in waits_of(facts, "loader_serial"):
        count = family_count(facts, wait)
        certainty = confidence(SERIAL_BASE, count, *caps(wait.job, wait.share, facts.limits.decider_sure))
        args: Args = (("blocked_tasks", wait.job.blocked_tasks),)
        advice = job_worker_advice(facts, wait.job, io=True)
        finding = wait_finding(facts, "loader_serial", wait, certainty, advice, args)
        out.append(job_claim(facts, wait.job, finding, wait.level))
    return tuple(out)
