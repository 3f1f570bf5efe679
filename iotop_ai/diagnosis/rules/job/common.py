"""The common parts of the rules about jobs: the lost time, arguments of sentences, evidence, limits of confidence."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.block import DeviceFacts
from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.time_window import largest_other
from iotop_ai.diagnosis.facts.window import share
from iotop_ai.diagnosis.rules.job.late import about_late_ranks
from iotop_ai.model.finding import Evidence, Finding, Severity
from iotop_ai.model.job.time_shares import DATA
from iotop_ai.model.verdict_class import RIVALS

WITHOUT_GPU = 0.75
BLIND = 0.55
WEAK = 0.6
UNCLEAR = 0.6
"""The upper limits of the confidence; ``caps`` chooses among them."""
_NAMES_RANKS = RIVALS - {"worker_respawn", "noisy_neighbour"}
"""The classes of a wait for data that only some ranks may have."""
UNEXPLAINED = 0.25
"""Above this share of unexplained time, a verdict is not sure."""


def is_unexplained(facts: Facts, job: JobFacts) -> bool:
    """Whether too much of the job's time is unexplained for an OK: its GPUs idle for no visible reason."""
    if job.time is None or job.gpu_busy is None:
        return False
    is_healthy = facts.is_active("healthy", job.subject) or facts.is_active("healthy", "")
    limit = facts.limits.unexplained_leave if is_healthy else facts.limits.unexplained
    return job.time.unexplained >= limit


def loss_over_gate(facts: Facts, job: JobFacts) -> float:
    """The lost share of time divided by its threshold; 1 or more counts as a loss. 0 while the job cannot be judged.

    It is also 0 if another share of the time, lost or unexplained, is clearly larger. A job that has just started is
    not judged, because it still imports and fills its queues.
    """
    limits = facts.limits
    if job.stall is None or job.age_s is None or job.age_s < limits.settle_s:
        return 0.0
    if job.time is not None:
        other = largest_other(job.time._replace(host=job.time.host - job.handover))
        if job.stall < limits.leave_level * max(other, job.time.unexplained):
            # The verdict explains the largest lost share. If most time is unexplained, the cause is unknown.
            return 0.0
    return max(job.stall / limits.gate, (job.long_stall or 0.0) / job.long_gate)


def cause_level(facts: Facts, job: JobFacts, part: float, is_backed: bool) -> float:
    """How clearly one cause explains the job's wait; from 1 on, it is named as the cause.

    The result is ``part`` divided by ``decider``. If the job's time is counted and ``is_backed`` is true, the result is
    at least the smaller of two quotients: ``part`` divided by the largest part, and the share of the whole time that is
    lost in ``part``, divided by ``gate``. So the largest part can be the cause even if it is below ``decider``.

    part: the part of the wait with this cause. is_backed: whether other signals show this cause too.
    """
    limits, level = facts.limits, part / facts.limits.decider
    largest = max(value or 0.0 for value in (job.disk, job.running, job.net, job.other))
    if job.time is None or not is_backed or not largest:
        return level
    return max(level, min(part / largest, part * lost_share(job) / limits.gate))


def reads_slow_disk(facts: Facts, job: JobFacts) -> bool:
    """Whether the device that the job reads from is slow."""
    device = facts.job_device(job)
    return device is not None and share(device.slow) >= facts.limits.leave_share


def lost_share(job: JobFacts) -> float:
    """The share of time lost; 0 when unknown."""
    return job.stall or 0.0


def severity(facts: Facts, job: JobFacts) -> Severity:
    """The severity of the job's loss: CRITICAL only if the loss is high and the use of the job's GPUs is known."""
    grave = lost_share(job) >= facts.limits.lost_high and job.gpu_busy is not None
    return Severity.CRITICAL if grave else Severity.WARNING


def caps(job: JobFacts, part: float, sure_part: float) -> list[float]:
    """The upper limits of the confidence.

    part: the part of the wait with this cause; below ``sure_part`` the cause is unclear.
    """
    out = []
    if job.gpu_busy is None:
        out.append(WITHOUT_GPU)
    if job.waits_hidden:
        out.append(BLIND)
    if job.job.weak:
        out.append(WEAK)
    if part < sure_part or (job.time is not None and job.time.unexplained > UNEXPLAINED):
        out.append(UNCLEAR)
    return out


def job_args(facts: Facts, job: JobFacts) -> Args:
    """Names, counts and shares of the job, for the sentences."""
    gpus = job.gpus if job.gpu_busy is not None else 0
    return (
        ("job", job.job.name),
        ("job_pid", float(job.job.key.pid)),
        ("task", _worker_name(facts, job)),
        ("pid", float((job.job.workers or (job.job.ranks[0].key,))[0].pid)),
        ("ranks", float(len(job.job.ranks))),
        ("tasks", float(job.workers or len(job.job.ranks))),
        ("tasks_all", float(job.workers or len(job.job.ranks))),
        ("workers", float(job.workers)),
        ("threads", float(not job.workers and job.loads_off_main_thread)),
        ("stall", job.stall),
        ("lost", lost_share(job)),
        ("disk_share", job.disk),
        ("run_share", job.running),
        ("cpu", job.worker_cpu if job.workers else job.main_running_ratio),
        ("cpu_wait", job.worker_cpu_wait),
        ("blocked", job.worker_disk if job.workers else job.main_disk_ratio),
        ("idle", job.worker_idle),
        ("gpus", float(gpus)),
        ("gpus_all", float(facts.gpu.total)),
        ("gpu_busy", job.gpu_busy),
        *_prepared_part(job),
    )


def _prepared_part(job: JobFacts) -> Args:
    """For a program that prepares a dataset: what takes most of its time, "data_cpu", and its share; else ()."""
    time = job.time
    if time is None or job.gpu_busy is not None or all(rank.worker_kind != "prep" for rank in job.job.ranks):
        return ()
    part = max(DATA, key=lambda name: getattr(time, name))
    return (("slowest_part", part), ("slowest_ratio", getattr(time, part)))


def _worker_name(facts: Facts, job: JobFacts) -> str:
    """The name of the job's first worker; the job's own name if it has no workers or the worker's name is unknown."""
    table = facts.snapshot.processes.value
    key = (job.job.workers or (job.job.ranks[0].key,))[0]
    info = None if table is None else table.info.get(key)
    return job.job.name if info is None or not job.workers else info.name


def device_args(facts: Facts, device: DeviceFacts | None) -> Args:
    """The device and its figures, for the sentences; () without a device. disks: the number of disks, if several."""
    if device is None:
        return ()
    return (
        ("device", device.name),
        ("label", device.info.label or device.name),
        ("mount", facts.mount(device)),
        ("read_bytes_per_s", device.read_bytes_per_s),
        ("read_size_bytes", device.read_size_bytes),
        ("await_ms", device.compared_await_ms),
        ("normal_ms", device.normal_ms),
        ("disk_busy", device.busy_ratio),
        ("queue", device.queue_size),
        *((("disks", float(len(device.members))),) if device.members else ()),
    )


_CONTAINERS = ("container ", "pod ")
"""The labels of jobs that run in a container begin with one of these."""


def shm_args(facts: Facts, job: JobFacts | None) -> Args:
    """The size of the job's /dev/shm and whether the job runs in a container, for the advice about /dev/shm.

    A monitor in a container sees only jobs in containers, although their cgroups show no id there. An LXC container
    does not count, because it mounts its /dev/shm itself and can change its size like a machine.

    job: None for a job that is gone. The size is then unknown, and so is whether it ran in a container, unless the
    monitor runs in one.
    """
    inside = facts.snapshot.host.container not in ("", "lxc")
    total = None if job is None else job.place.shm_total_bytes
    container = None if job is None and not inside else float(inside or _in_container(job))
    return (("total", None if total is None else float(total)), ("container", container))


def _in_container(job: JobFacts | None) -> bool:
    return job is not None and job.job.label.startswith(_CONTAINERS)


def gated_evidence(
    facts: Facts, job: JobFacts, short: tuple[str, float | None], long: tuple[str, float | None]
) -> tuple[Evidence, ...]:
    """The evidence of a lost share of time: over the short window, or over both if only the long one reaches its
    threshold.

    With both, the short figure has no threshold, because the finding does not rest on it. short, long: (metric, value).
    """
    limits, short_evidence = facts.limits, Evidence(*short, "ratio", facts.limits.gate)
    if (short[1] or 0.0) >= limits.gate or (long[1] or 0.0) < job.long_gate:
        return (short_evidence,)
    return (Evidence(*long, "ratio", job.long_gate), short_evidence._replace(threshold=None))


def stall_evidence(facts: Facts, job: JobFacts, *more: Evidence) -> tuple[Evidence, ...]:
    """The evidence of a loss: the share of time lost, the states of the workers meanwhile, then ``more``."""
    limits, name = facts.limits, f"jobs.{job.subject}"
    long = (f"{name}.long_stall_ratio", job.long_stall)
    out = [*gated_evidence(facts, job, (f"{name}.stall_ratio", job.stall), long)]
    if job.disk is not None:
        out.append(Evidence(f"{name}.waits_in_disk_ratio", job.disk, "ratio", limits.decider))
        out.append(Evidence(f"{name}.waits_in_running_ratio", job.running, "ratio", limits.decider))
    if job.worker_idle is not None:
        out.append(Evidence(f"{name}.worker_idle_ratio", job.worker_idle, "ratio"))
    if job.gpu_busy is not None:
        out.append(Evidence("gpus.busy_ratio", job.gpu_busy, "ratio", limits.gpu_fair))
    return (*out, *more)


def job_claim(facts: Facts, job: JobFacts, finding: Finding, level: float) -> Claim:
    """A claim that rests on means over the job's window: the level decides, not a share of the samples."""
    if finding.class_id in _NAMES_RANKS:
        finding = about_late_ranks(finding, job)
    samples = len(job.window.samples)
    return Claim(finding, 1.0, samples, job.window.needed, level)
