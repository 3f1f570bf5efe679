"""The reasons why no other class is the verdict: a RuledOut (class, template id, arguments) for each excluded class."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.block import DeviceFacts
from iotop_ai.diagnosis.facts.gather import Args, Facts
from iotop_ai.diagnosis.facts.gpu_groups import gpu_groups, only_others_use_gpus
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.process import Group, blocked_groups
from iotop_ai.diagnosis.facts.window import mean, share
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.model.block.counters import BlockKey, is_leaf
from iotop_ai.model.finding import Finding, RuledOut
from iotop_ai.model.verdict_class import CLASS_SPECS, State


def waiting_group(facts: Facts) -> Group | None:
    """The group of processes that is blocked most; None if no group is blocked."""
    groups = blocked_groups(facts.all_tasks, facts.limits)
    return max(groups, key=lambda g: g.blocked_ratio, default=None)


def slowest_device(facts: Facts) -> DeviceFacts | None:
    """The active device that is farthest above its normal await; None if no device is active."""
    return max(facts.devices, key=lambda d: (d.inflation or 0.0, d.busy_ratio or 0.0), default=None)


def unknown_disks(facts: Facts) -> tuple[int, int] | None:
    """(the number of disks without known rates in the window, the number of disks); None if no sample has rates.

    Only devices at the bottom of a stack count, because a loop device says nothing about the disks.
    """
    infos = facts.snapshot.disks.value or {}
    disks: dict[BlockKey, bool] | None = None
    for sample in reversed(facts.window.samples):
        if (table := sample.block.value) is None:
            continue
        if disks is None:
            disks = {key: False for key in table if (info := infos.get(key.name)) is not None and is_leaf(info)}
        for key in [key for key, known in disks.items() if not known]:
            disks[key] = key in table and table[key].read_bytes_per_s is not None
        if all(disks.values()):
            break
    return None if disks is None else (len(disks) - sum(disks.values()), len(disks))


def disks_are_known(facts: Facts) -> bool:
    """Whether the window has the rates of at least one disk, or the machine has no disk."""
    disks = unknown_disks(facts)
    return disks is not None and (not disks[1] or disks[0] < disks[1])


def _storage(facts: Facts) -> RuledOut | None:
    """Rule out storage_read if no disk is active, no disk is slow, or no process waits for a slow disk; else None."""
    device = slowest_device(facts)
    if device is None:
        disks = unknown_disks(facts)
        if not facts.snapshot.disks.value or disks is None or not disks_are_known(facts):
            return None
        return RuledOut("storage_read", "disks_idle", (("unknown", float(disks[0])),))
    if share(device.slow) < facts.limits.leave_share:
        if device.compared_await_ms is None or device.compared_await_ms > device.normal_ms:
            return None
        args: Args = (("device", device.name), ("await_ms", device.compared_await_ms), ("normal_ms", device.normal_ms))
        return RuledOut("storage_read", "disks_calm", args)
    if waiting_group(facts) is None and facts.snapshot.processes.value is not None:
        return RuledOut("storage_read", "no_process_waits", (("device", device.name),))
    return None


def _cpu(facts: Facts) -> RuledOut | None:
    """Rule out cpu_prep if even the busiest process that may feed the GPUs uses little CPU; else None."""
    if facts.snapshot.processes.value is None:
        return None
    top = facts.gpu_tasks.busiest()
    if top is None:
        return RuledOut("cpu_prep", "no_process_computes")
    if (top.cpu_ratio or 0.0) >= facts.limits.worker_busy:
        return None
    return RuledOut("cpu_prep", "cpu_low", (("task", top.name), ("cpu", top.cpu_ratio)))


def cpu_wait(job: JobFacts) -> float | None:
    """The mean share of time in which the job's trainers wait for a core; None when unknown."""
    ranks = [rank.key for rank in job.job.ranks]
    return mean(
        task.cpu_wait_ratio
        for sample in job.window.samples
        if sample.jobs.value is not None
        for key in ranks
        if (task := sample.jobs.value.tasks.get(key)) is not None
    )


def _cores_are_short(facts: Facts, job: JobFacts | None) -> bool:
    """Whether all cores are busy, or the trainers or loaders of the job wait for a core."""
    limits = facts.limits
    if (facts.cpu_busy_ratio or 0.0) >= limits.busy_cpu:
        return True
    if job is None:
        return False
    return (cpu_wait(job) or 0.0) >= limits.gate or (job.worker_cpu_wait or 0.0) >= limits.cores_short


def _class_about(finding: Finding) -> str:
    """The class with the same cause as the finding: storage_read for a disk, cpu_prep for the CPUs; else ""."""
    args = dict(finding.args)
    if finding.class_id == "unknown":
        limit = "disk" if args.get("slow") else args.get("limit")
        return {"disk": "storage_read", "cpu": "cpu_prep"}.get(str(limit), "")
    return "storage_read" if finding.class_id in _ABOUT_A_DISK and args.get("device") else ""


_ABOUT_A_DISK = ("failing_disk", "hung", "checkpoint_write")


def _job(job: JobFacts, limits: Thresholds, waits: bool) -> tuple[RuledOut | None, ...]:
    """The causes that certainly do not slow the job; None for a cause that may slow it.

    waits: whether a finding reports that the job waits for data. The finding stays for some seconds after the wait has
    ended; until it ends, the causes of that wait are not ruled out.
    """
    subject: Args = (("job", job.job.name),)
    if job.stall is None:
        return ()
    if job.stall < limits.gate:
        if waits:
            return ()
        return (
            RuledOut("storage_read", "no_wait", (*subject, ("stall", job.stall))),
            RuledOut("cpu_prep", "no_wait", (*subject, ("stall", job.stall))),
        )
    disk, running = job.disk, job.running
    blocked = RuledOut("storage_read", "workers_blocked", (*subject, ("share", disk)))
    computes = RuledOut("cpu_prep", "workers_run", (*subject, ("share", running)))
    mount = job.place.mounts[0].path if job.place.mounts else ""
    # If the job's time is counted, a part of the wait may be a cause as soon as it costs ``gate`` of the whole time.
    most = limits.decider if job.time is None else min(limits.decider, limits.gate / job.stall)
    return (
        blocked if disk is not None and disk < most else None,
        computes if running is not None and running < most else None,
        RuledOut("io_limit", "no_limit", subject) if not job.place.limits else None,
        RuledOut("network_fs", "path_local", (("mount", mount),)) if job.reads_locally else None,
    )


def _gpu(facts: Facts, lead: JobFacts | None) -> RuledOut | None:
    """Rule out gpu_bound if there is no GPU, or if the GPUs have idle time; else None."""
    if facts.gpu.absent:
        return RuledOut("gpu_bound", "no_gpu")
    busy = facts.gpu.busy_ratio
    if lead is not None and lead.gpu_busy is not None and not lead.shares_gpu:
        busy = lead.gpu_busy
    if busy is None or busy >= facts.limits.gpu_bound or only_others_use_gpus(facts):
        return None
    return RuledOut("gpu_bound", "gpu_low", (("busy", busy),))


def _throttle(facts: Facts) -> RuledOut | None:
    """Rule out gpu_throttle if the driver's counters show that heat and power do not lower the clocks; else None."""
    limits = facts.limits
    gpus = [gpu for group in gpu_groups(facts, limits.gpu_window_s) for gpu in group.gpus]
    fields = ("hw_thermal_ratio", "sw_thermal_ratio", "power_brake_ratio")
    shares = [ratio for gpu in gpus for field in fields if (ratio := gpu.mean(field)) is not None]
    if not shares or max(shares) >= limits.throttled_leave:
        return None
    return RuledOut("gpu_throttle", "clocks_free", (("share", max(shares)),))


def _comm_wait(facts: Facts, lead: JobFacts | None) -> RuledOut | None:
    """Rule out comm_wait if several busy GPUs draw as much power as computing needs; else, or if a rank of the leading
    job is late, return None."""
    if lead is not None and lead.late is not None:
        return None
    power, busy = facts.gpu.power_ratio, facts.gpu.busy_ratio
    if facts.gpu.used < 2 or power is None or busy is None or busy < facts.limits.gpu_bound:
        return None
    return RuledOut("comm_wait", "gpus_draw", (("power", power),)) if power >= facts.limits.spin_power_sure else None


def _smart(facts: Facts) -> RuledOut | None:
    """Rule out failing_disk if SMART is known for some disk and no disk is critical; else None."""
    smart = facts.snapshot.smart.value
    known = [r.value for r in (smart or {}).values() if r.value is not None and r.value.severity != "unknown"]
    # Once the finding about a critical disk is acknowledged, only the severity shows that the disk is critical.
    if not known or any(state.severity == "critical" for state in known):
        return None
    return RuledOut("failing_disk", "smart_fine", (("disks", float(len(known))),))


def ruled_out(facts: Facts, primary: Finding, active: frozenset[str], lead: JobFacts | None) -> tuple[RuledOut, ...]:
    """The reasons why other classes do not apply.

    There is no reason for a class that is active or could not be judged, for storage_read if the primary finding is
    about a disk, or for cpu_prep if the primary finding is about the CPUs or cores are short. lead: the leading job.
    """
    job = sampled_job(lead)
    waits = any(CLASS_SPECS[class_id].state is State.STARVED for class_id in active)
    waits_or_load = (_storage(facts), _cpu(facts)) if job is None else _job(job, facts.limits, waits)
    every = (*waits_or_load, _gpu(facts, lead), _throttle(facts), _comm_wait(facts, lead), _smart(facts))
    left_out = active | {_class_about(primary)} | ({"cpu_prep"} if _cores_are_short(facts, job) else set())
    return tuple(r for r in every if r is not None and r.class_id not in left_out)


def sampled_job(lead: JobFacts | None) -> JobFacts | None:
    """The job if its tasks were sampled, else None."""
    return lead if lead is not None and lead.stall is not None else None
