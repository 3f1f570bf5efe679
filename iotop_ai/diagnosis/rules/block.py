"""Rules about block devices: processes that wait for them, and disks that fail."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.block import DeviceFacts
from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, claim, confidence, gpu_args, gpu_evidence
from iotop_ai.diagnosis.facts.mounts import fullest_mount_on
from iotop_ai.diagnosis.facts.process import Group, blocked_groups
from iotop_ai.diagnosis.facts.window import Flags, below, both, share
from iotop_ai.diagnosis.verdict.advice import storage_advice
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity

BASE = 0.85
"""The confidence when all signals agree. The next five constants are its upper limits."""
WITHOUT_GPU = 0.6
WITHOUT_MAPPING = 0.75
"""The limit while it is unknown which processes are on the GPUs."""
WITHOUT_IO = 0.55
"""The limit while the reads of the waiting processes are unknown."""
ALMOST_NORMAL = 0.6
"""The limit if the await is above normal, but the device is not slow."""
THREAD_ONLY = 0.5
"""The limit if no process waits for the disk and only one thread is busy."""
HOT = frozenset({"hot", "nvme-temperature"})
"""Health rules about heat. A disk is too hot, but not failing, if no other critical rule applies to it."""


class _Stall(NamedTuple):
    """A group of processes that waits (None if unknown), the device that it waits for, and the share of time lost."""

    group: Group | None
    device: DeviceFacts
    lost: float


def slowest(devices: list[DeviceFacts]) -> DeviceFacts | None:
    """The device to name; None for no devices.

    Devices with no device below come first; of these, the device that is farthest above its normal await.
    """
    return max(devices, key=lambda d: (not d.info.slaves, d.inflation or 0.0), default=None)


def devices_read_by(group: Group, devices: list[DeviceFacts], part: float) -> list[DeviceFacts]:
    """The devices on which the group makes at least ``part`` of all reads; all devices if its reads are unknown.

    [] if the group reads nothing or writes more than it reads.
    """
    read = group.read_bytes_per_s
    if read is None:
        return devices
    if read <= 0 or read < (group.write_bytes_per_s or 0.0):
        return []
    return [d for d in devices if d.read_bytes_per_s is not None and read >= part * d.read_bytes_per_s]


def _lost_share(facts: Facts, blocked: float) -> float:
    """The share of time in which processes are blocked, at most the GPUs' idle share."""
    busy = facts.gpu.busy_ratio
    return min(1 - busy, blocked) if facts.gpu.used and busy is not None else blocked


def _args(facts: Facts, stall: _Stall) -> Args:
    group, device = stall.group, stall.device
    out: Args = (
        ("device", device.name),
        ("label", device.info.label or device.name),
        ("mount", facts.mount(device)),
        ("read_bytes_per_s", device.read_bytes_per_s),
        ("read_size_bytes", device.read_size_bytes),
        ("await_ms", device.compared_await_ms),
        ("normal_ms", device.normal_ms),
        ("disk_busy", device.busy_ratio),
        ("lost", stall.lost),
        *gpu_args(facts),
    )
    if group is not None:
        out += (
            ("task", group.name),
            ("pid", float(group.pid)),
            ("tasks", float(group.alike_count)),
            ("tasks_all", float(group.name_count)),
            ("blocked", group.blocked_ratio),
        )
    return out


def _evidence(facts: Facts, stall: _Stall, await_limit: float, gpu_limit: float) -> tuple[Evidence, ...]:
    device, group = stall.device, stall.group
    disk = f"disks.{device.name}"
    out = [Evidence(f"{disk}.read_await_ms", device.compared_await_ms, "ms", round(await_limit, 3))]
    if device.serves_serially:
        out.append(Evidence(f"{disk}.busy_ratio", device.busy_ratio, "ratio", facts.limits.disk_busy))
    out.append(Evidence(f"{disk}.read_bytes_per_s", device.read_bytes_per_s, "B/s"))
    if group is not None:
        out.append(
            Evidence(f"processes.{group.name}.blocked_ratio", group.blocked_ratio, "ratio", facts.limits.blocked)
        )
    if facts.gpu.used:
        out.extend(gpu_evidence(facts, gpu_limit))
    if facts.io_pressure_ratio is not None:
        out.append(Evidence("pressure.io.some_ratio", facts.io_pressure_ratio, "ratio", facts.limits.pressure))
    return tuple(out)


def _family_count(facts: Facts, has_group: bool) -> int:
    """The number of families of signals that agree: device, blocked processes, I/O pressure, GPU."""
    under_pressure = (facts.io_pressure_ratio or 0.0) >= facts.limits.pressure
    return 1 + has_group + under_pressure + bool(facts.gpu.used)


def _caps(facts: Facts, group: Group | None) -> list[float]:
    caps = []
    if not facts.gpu.used:
        caps.append(WITHOUT_GPU)
    elif facts.gpu.pids is None:
        caps.append(WITHOUT_MAPPING)
    if group is not None and group.read_bytes_per_s is None:
        caps.append(WITHOUT_IO)
    return caps or [1.0]


def _finding(facts: Facts, stall: _Stall, evidence: tuple[Evidence, ...], severe: bool, certainty: float) -> Finding:
    return Finding(
        "storage_read",
        Severity.CRITICAL if severe else Severity.WARNING,
        certainty,
        stall.device.name,
        _args(facts, stall),
        evidence,
        advice=storage_advice(facts, stall.device, stall.lost, stall.group),
        lost_ratio=stall.lost,
    )


def processes_wait_for_disk(facts: Facts) -> tuple[Claim, ...]:
    """Processes wait for a device that is slower than is normal for its kind.

    Claim: storage_read: the processes that feed the GPUs (without a GPU: any process) wait for reads.
    Evidence: their share of time in state D; await of the device that carries their reads; GPU; I/O pressure.
    Threshold: D >= 50 %; await >= 3 times normal (1.5 where the read rate is flat at >= 95 % busy; for a rotating disk
        %util >= 80 and await >= 20 ms, the classic rule); GPU < 70 %; time lost >= 8 %. Only while no finding
        explains the time of a job.
    Blind spot: it does not see waits in poll for a worker's answer. A limit on the process (io.max) leaves the device
        idle. A read from a network filesystem has no device.
    """
    limits = facts.limits
    if facts.job_time_is_explained:
        return ()
    out = []
    slow = [
        d
        for d in facts.devices
        if share(d.slow) >= limits.leave_share or (d.is_flat and share(d.above_normal) >= limits.leave_share)
    ]
    for group in blocked_groups(facts.gpu_tasks, limits) if slow else ():
        device = slowest(devices_read_by(group, slow, limits.carried_share))
        lost = _lost_share(facts, group.blocked_ratio)
        if device is None or lost < limits.gate:
            continue
        clearly_slow = share(device.slow) >= limits.leave_share
        flags: Flags = device.slow if clearly_slow else device.above_normal
        if facts.gpu.used:
            flags = both(flags, below(facts.gpu.busy, limits.gpu_fair))
        factor = limits.inflation_slow if clearly_slow else limits.inflation_some
        await_limit = limits.disk_await_ms if device.serves_serially else factor * device.normal_ms
        stall = _Stall(group, device, lost)
        caps = [*_caps(facts, group), 1.0 if clearly_slow else ALMOST_NORMAL]
        certainty = confidence(BASE, _family_count(facts, has_group=True), *caps)
        evidence = _evidence(facts, stall, await_limit, limits.gpu_fair)
        finding = _finding(facts, stall, evidence, severe=False, certainty=certainty)
        out.append(claim(facts, finding, flags, group.blocked_ratio / limits.blocked))
    return tuple(out)


def gpu_idle_while_disk_saturated(facts: Facts) -> tuple[Claim, ...]:
    """The GPUs idle while a disk is saturated and the CPU side waits or spins on one thread.

    Claim: storage_read: data loading limits the job.
    Evidence: GPU utilisation; workers in state D, or one busy CPU thread; %util and await of a device.
    Threshold: GPU < 30 %; workers in state D, or a thread >= 90 % of a core; %util >= 80 and await >= 20 ms, critical
        at %util 99 and 50 ms. A device that serves in parallel needs await >= 8 times normal instead. A rotating disk
        needs workers in state D, since 20 ms is normal for it under load. Only while no finding explains the time of a
        job.
    Blind spot: without workers in state D the disk may be busy for another program: low confidence.
    """
    limits = facts.limits
    if not facts.gpu.used or facts.job_time_is_explained:
        return ()
    idle = below(facts.gpu.busy, limits.gpu_starved)
    device = slowest([d for d in facts.devices if share(d.saturated) >= limits.leave_share])
    if device is None or share(idle) < limits.leave_share:
        return ()
    waiting = blocked_groups(facts.gpu_tasks, limits)
    group = next((g for g in waiting if devices_read_by(g, [device], limits.carried_share)), None)
    spinning = [t for t in facts.gpu_task_facts if limits.thread_busy <= (t.cpu_ratio or 0.0) <= limits.thread_most]
    if group is None and (device.serves_serially or not spinning):
        return ()
    busy = facts.gpu.busy_ratio
    lost = _lost_share(facts, group.blocked_ratio if group else 1.0)
    if busy is None or lost < limits.gate:
        return ()
    await_limit = limits.disk_await_ms if device.serves_serially else limits.inflation_severe * device.normal_ms
    stall = _Stall(group, device, lost)
    evidence = _evidence(facts, stall, await_limit, limits.gpu_starved)
    if spinning:
        top = max(spinning, key=lambda t: t.cpu_ratio or 0.0)
        evidence += (Evidence(f"processes.{top.name}.cpu_ratio", top.cpu_ratio, "ratio", limits.thread_busy),)
    caps = [*_caps(facts, group), 1.0 if group else THREAD_ONLY]
    certainty = confidence(BASE, _family_count(facts, has_group=group is not None), *caps)
    severe = share(device.critical) >= limits.enter_share
    level = 1.0 if group is None else group.blocked_ratio / limits.blocked
    return (claim(facts, _finding(facts, stall, evidence, severe, certainty), both(idle, device.saturated), level),)


def disk_fails(facts: Facts) -> tuple[Claim, ...]:
    """A disk reports that it fails.

    Claim: failing_disk: the disk's own health report is critical.
    Evidence: SMART (overall status, pre-fail attributes, critical warning bits).
    Threshold: severity critical (docs/health.md), reported at once. A disk that is only too hot needs cooling, not
        replacement. The finding stays if the disk no longer answers or drops off its bus.
    Blind spot: about a quarter of failed disks gave no warning (Backblaze, 2016). Without permission SMART is unknown.
    """
    out = []
    for name, reading in (facts.snapshot.smart.value or {}).items():
        state = reading.value
        if state is None or state.severity != "critical":
            continue
        rules = [judgement.rule for judgement in state.judgements if judgement.severity == "critical"]
        hot = 1.0 if rules and HOT.issuperset(rules) else None
        args: Args = (
            ("device", name),
            ("mount", fullest_mount_on(name, facts.snapshot)),
            ("reasons", ", ".join(state.reasons)),
            ("model", state.model),
            ("rules", " ".join(rules)),
            ("hot", hot),
        )
        evidence = (
            Evidence(f"smart.{name}.critical", 1.0, "count", 1.0),
            *(
                Evidence(f"smart.{name}.{field}", float(value), "count", 0.0)
                for field in ("reallocated", "pending", "uncorrectable", "media_errors")
                if (value := getattr(state, field))
            ),
        )
        advice = (Advice("cool_disk" if hot else "replace_disk", (("device", name), ("hot", hot))),)
        finding = Finding("failing_disk", Severity.CRITICAL, 0.95, name, args, evidence, advice=advice)
        out.append(Claim(finding, 1.0, 1, 1, at_once=True))
    return tuple(out)
