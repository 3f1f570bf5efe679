"""The finding when no rule applies or can be applied yet: CALM or BUSY if the figures show it, else UNSURE."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.block import DeviceFacts
from iotop_ai.diagnosis.facts.gather import Args, Facts, gpu_args
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.mounts import mount_on
from iotop_ai.diagnosis.facts.process import Group, group_tasks
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.diagnosis.verdict.ruled_out import (
    cpu_wait,
    disks_are_known,
    sampled_job,
    slowest_device,
    unknown_disks,
    waiting_group,
)
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity, SlowDisk
from iotop_ai.model.job.time_shares import DATA
from iotop_ai.model.signal_coverage import signal_groups
from iotop_ai.model.verdict_class import State

MEASURING, NOTHING_FITS = "measuring", "nothing fits"


class Since(NamedTuple):
    """The word of the state before a new finding, and the time when that state began.

    "" and None before the first verdict.
    """

    state: str
    at_ns: int | None


def unknown_finding(facts: Facts, reason: str, since: Since, lead: JobFacts | None, slow: SlowDisk | None) -> Finding:
    """The finding of class ``unknown``.

    reason: MEASURING or NOTHING_FITS. since: the state before this finding. lead: the leading job. slow: the verdict's
    slow disk.
    """
    snapshot = facts.snapshot
    group, device = waiting_group(facts), _device(facts, slow)
    args: Args = (("reason", reason), *gpu_args(facts), ("cpu", facts.cpu_busy_ratio))
    job = sampled_job(lead)
    if lead is not None:
        args += (("job_pid", float(lead.job.key.pid)),)
    if job is not None:
        shares = (("w_cpu", job.worker_cpu), ("w_blocked", job.worker_disk), ("w_idle", job.worker_idle))
        args += (("job", job.job.name), ("stall", job.stall), ("lost", job.stall), ("workers", float(job.workers)))
        args += shares if job.workers else ()
    if lead is not None:
        args += (("main_cpu_wait", cpu_wait(lead)), ("w_cpu_wait", lead.worker_cpu_wait))
        args += (("unexplained", None if lead.time is None else lead.time.unexplained),)
        args += () if lead.time is None else tuple((share, getattr(lead.time, share)) for share in DATA)
    evidence = []
    if facts.gpu.busy_ratio is not None:
        evidence.append(Evidence("gpus.busy_ratio", facts.gpu.busy_ratio, "ratio", facts.limits.gpu_fair))
    if facts.gpu.power_ratio is not None:
        args += (("power", facts.gpu.power_ratio),)
    args += (("gpu_known", 1.0 if facts.gpu.absent or facts.gpu.visible else 0.0),)
    unknown_count, _ = unknown_disks(facts) or (0, 0)
    args += (("disks_known", float(disks_are_known(facts))), ("disks_unknown", float(unknown_count)))
    if group is not None:
        blocked = group.blocked_ratio
        args += (("task", group.name), ("pid", float(group.pid)), ("tasks", float(group.alike_count)))
        args += (("blocked", blocked), ("write_bytes_per_s", group.write_bytes_per_s))
        evidence.append(Evidence(f"processes.{group.name}.blocked_ratio", blocked, "ratio", facts.limits.blocked))
    if device is not None:
        mount = mount_on(device.name, snapshot.disks.value or {})
        is_slow_disk = slow is not None and slow.device == device.name
        await_ms = slow.await_ms if slow is not None and is_slow_disk else device.compared_await_ms
        args += (
            ("device", device.name),
            ("mount", mount),
            ("await_ms", await_ms),
            ("normal_ms", device.normal_ms),
            ("slow", float(is_slow_disk and not _loaders_compute(job, facts.limits))),
        )
        args += (("disk_busy", device.busy_ratio),)
        evidence.append(Evidence(f"disks.{device.name}.await_ms", await_ms, "ms", device.normal_ms))
    if facts.cpu_busy_ratio is not None:
        evidence.append(Evidence("cpu.all.busy_ratio", facts.cpu_busy_ratio, "ratio"))
    advice: tuple[Advice, ...] = ()
    if reason != MEASURING:
        args += _calm_or_busy(facts, lead, group, since.state, slow)
        advice = _advice(facts, job, group)
    finding = Finding("unknown", Severity.INFO, 0.0, "", args, tuple(evidence), advice=advice)
    # An unchanged state keeps its start time. A new state starts now, and so does the first state.
    goes_on = finding.state.value == since.state and since.at_ns is not None
    return finding._replace(since_ns=since.at_ns if goes_on else snapshot.at_ns)


def _device(facts: Facts, slow: SlowDisk | None) -> DeviceFacts | None:
    """The slow disk if it is known, else the slowest device; None if no device is active."""
    matching = [device for device in facts.devices if slow is not None and device.name == slow.device]
    return matching[0] if matching else slowest_device(facts)


def _loaders_compute(job: JobFacts | None, limits: Thresholds) -> bool:
    """Whether the job's loaders compute while the trainer waits, which shows that a disk does not slow the job."""
    return job is not None and (job.stall or 0.0) >= limits.gate and (job.running or 0.0) >= limits.decider


def _advice(facts: Facts, job: JobFacts | None, group: Group | None) -> tuple[Advice, ...]:
    advice: tuple[Advice, ...] = ()
    _, missing = signal_groups(facts.snapshot)
    if "not root" in missing:
        advice += (Advice("run_as_root"),)
    if "PSI off" in missing:
        advice += (Advice("psi_on"),)
    if job is not None and (job.stall or 0.0) >= facts.limits.gate:
        advice += (_look_into(job.job.ranks[0].key.pid, job.job.name),)
    elif facts.gpu.used and facts.gpu.on_gpu:
        pid = min(facts.gpu.on_gpu)
        names = [task.name for task in facts.gpu_tasks.all() if task.key.pid == pid]
        advice += (_look_into(pid, names[0] if names else ""),)
    elif group is not None:
        advice += (_look_into(group.pid, group.name),)
    return advice


def _look_into(pid: int, name: str) -> Advice:
    return Advice("look_into", (("pid", float(pid)), ("name", name)))


def _calm_or_busy(facts: Facts, lead: JobFacts | None, group: Group | None, before: str, slow: SlowDisk | None) -> Args:
    """("state", CALM or BUSY) with the figures that show it; () for UNSURE, if a GPU is in use or something is slow or
    hidden.

    before: the word of the state so far.
    """
    snapshot, limits = facts.snapshot, facts.limits
    known = snapshot.processes.value is not None and snapshot.disks.value is not None and disks_are_known(facts)
    gpu_known = facts.gpu.absent or facts.gpu.visible
    if not known or not gpu_known or facts.gpu.used or facts.cpu_busy_ratio is None:
        return ()
    if lead is not None:
        # A job that has its data is not slow, even while its loaders read ahead. The class healthy needs more evidence.
        others_wait = group is not None and all(key.pid != group.pid for key in lead.job.members)
        explained = lead.time is None or lead.time.unexplained < limits.gate
        is_calm = lead.stall is not None and lead.stall < limits.gate and explained and not others_wait
        return (("state", State.CALM.value),) if is_calm else ()
    factor = limits.leave_level if before == State.BUSY.value else 1.0
    at_limit = _disk_at_limit(slow, limits.disk_busy * factor)
    if not at_limit and group is not None:
        return ()
    at_limit = at_limit or _cpu_at_limit(facts, factor) or _memory_at_limit(facts, before)
    return (("state", (State.BUSY if at_limit else State.CALM).value), *at_limit)


def _disk_at_limit(slow: SlowDisk | None, least_busy: float) -> Args:
    """The slow disk as the limit, with its rates; () without one, or if its busy ratio is below ``least_busy``."""
    if slow is None or (slow.busy_ratio or 0.0) < least_busy:
        return ()
    rates = (("read_bytes_per_s", slow.read_bytes_per_s), ("write_bytes_per_s", slow.write_bytes_per_s))
    return (("limit", "disk"), *rates)


def _cpu_at_limit(facts: Facts, factor: float) -> Args:
    """The CPUs as the limit, with the processes that use most of them; () if the CPUs are not at their limit.

    factor: multiplies the threshold, and is below 1 while the machine is already BUSY.
    """
    if (facts.cpu_busy_ratio or 0.0) < facts.limits.busy_cpu * factor:
        return ()
    busy = group_tasks(facts.all_tasks.busy(_LEAST_CPU), facts.snapshot.processes.value)
    busiest = max(busy, key=lambda group: (group.cpu_ratio or 0.0) * group.alike_count, default=None)
    cpu = facts.snapshot.cpu.value
    out: Args = (("limit", "cpu"), ("cores", None if cpu is None else float(len(cpu.cores))))
    if busiest is not None:
        used = (busiest.cpu_ratio or 0.0) * busiest.alike_count
        out += (
            ("top", busiest.name),
            ("top_pid", float(busiest.pid)),
            ("top_count", float(busiest.alike_count)),
            ("top_cpu", used),
        )
    return out


_LEAST_CPU = 0.05
"""In cores. A process that uses less than this does not keep the CPUs busy."""


def _memory_at_limit(facts: Facts, before: str) -> Args:
    """The memory as the limit, with its largest process; () if the memory is not at its limit."""
    memory = facts.snapshot.memory.value
    if memory is None or memory.available_bytes is None or not memory.total_bytes:
        return ()
    # The kernel does not count the cache of ZFS as available, although ZFS shrinks it for programs.
    pools = facts.snapshot.pools.value
    cache = 0 if pools is None or pools.arc is None else pools.arc.reclaimable_bytes or 0
    used = max(0.0, 1 - (memory.available_bytes + cache) / memory.total_bytes)
    limits = facts.limits
    if used < (limits.busy_memory_leave if before == State.BUSY.value else limits.busy_memory):
        return ()
    out: Args = (("limit", "memory"), ("memory_used", used), ("total", float(memory.total_bytes)))
    table = facts.snapshot.processes.value
    if table is None or not table.stat:
        return out
    key = max(table.stat, key=lambda one: table.stat[one].rss_pages)
    info = table.info.get(key)
    rss = float(table.stat[key].rss_pages * table.page_bytes)
    return (*out, ("top", "" if info is None else info.name), ("top_pid", float(key.pid)), ("rss", rss))
