"""Rules about a job that does not wait for data: it has its data, it starts, or it writes a checkpoint."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, claim, confidence
from iotop_ai.diagnosis.facts.gpu_groups import power_of
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.mounts import mount_on
from iotop_ai.diagnosis.facts.time_window import largest_other
from iotop_ai.diagnosis.facts.window import at_least, mean
from iotop_ai.diagnosis.rules.job.common import BLIND, UNEXPLAINED, WEAK, is_unexplained, job_args, stall_evidence
from iotop_ai.model.block.counters import BlockKey
from iotop_ai.model.block.tree import disks_of_mount
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.job.programs import COMPILERS
from iotop_ai.model.sample import Sample

HEALTHY_BASE = 0.75
WITHOUT_GPU = 0.6
STARTING_BASE = 0.85
SAVE_BASE = 0.85
SAVE_WITHOUT_GPU = 0.8
"""The confidence of healthy, starting and checkpoint_write; WITHOUT_GPU is an upper limit for the first two."""
_DEEPEST = 8
"""The most generations from a compiler up to the job."""


def _is_calm(facts: Facts, job: JobFacts) -> bool:
    """Whether the job loses little time and trains most of the time, and its main thread is rarely blocked."""
    limits = facts.limits
    if job.stall is None or job.age_s is None or job.age_s < limits.settle_s:
        return False
    if job.stall >= limits.gate or (job.long_stall or 0.0) >= job.long_gate:
        return False
    time = job.time
    if time is not None and (time.compute < limits.decider or largest_other(time) >= limits.gate):
        return False  # the job must be seen to train most of the time
    if time is not None and job.loaders_compute and time.data + time.host >= limits.gate:
        return False  # a part of ``host`` may be a wait for loaders that compute
    if time is not None and (time.unexplained > UNEXPLAINED or is_unexplained(facts, job)):
        return False  # unexplained time may be a hidden wait for data
    return (job.main_disk_ratio or 0.0) < limits.main_share


def job_is_fed(facts: Facts) -> tuple[Claim, ...]:
    """The trainer finds its data ready.

    Claim: healthy: data loading does not limit the job.
    Evidence: samples of trainer and workers; GPU utilisation, if there is a GPU.
    Threshold: the job waits for data < 8 % of 10 s and < 5 % of 60 s; its trainer is in state D < 30 % of the time; its
        GPUs are >= 70 % busy, and draw >= 40 % of their power limit where it is known. A job without a GPU must have
        workers, and the rule is then at most 60 % sure. Where the job's time is counted, >= 50 % of it is compute,
        < 10 % is unexplained (without a GPU <= 25 %), and every other share is < 8 %. Where the loader processes
        compute, data and `host` together must be < 8 %.
    Blind spot: without a GPU the rule does not know how fast the training itself is.
    """
    out = []
    limits = facts.limits
    for job in facts.jobs:
        busy = job.gpu_busy
        runs = bool(job.workers) if busy is None else busy >= limits.gpu_fair
        power = power_of(facts, job)
        if (
            not runs
            or not _is_calm(facts, job)
            or (busy is not None and power is not None and power < limits.power_share)
        ):
            continue
        caps = [WITHOUT_GPU] if busy is None else []
        caps += [BLIND] if job.waits_hidden else []
        caps += [WEAK] if job.job.weak else []
        certainty = confidence(HEALTHY_BASE, 2 + (busy is not None), *caps)
        finding = Finding(
            "healthy",
            Severity.INFO,
            certainty,
            job.subject,
            (*job_args(facts, job), ("power", power)),
            stall_evidence(facts, job),
        )
        out.append(Claim(finding, 1.0, len(job.window.samples), job.window.needed))
    return tuple(out)


def compiler_below(facts: Facts, job: JobFacts) -> str:
    """The name of a compiler that runs below the job; "" if there is none."""
    table = facts.snapshot.processes.value
    if table is None:
        return ""
    parents = {key.pid: stat.ppid for key, stat in table.stat.items()}
    inside = {key.pid for key in job.job.members}
    for task in facts.tasks:
        if task.name not in COMPILERS or not (task.blocked_ratio or task.cpu_ratio or task.cpu_ratio is None):
            continue  # not a compiler, or a compiler that only waits
        ancestor, steps = task.ppid, 0
        while ancestor in parents and ancestor not in inside and steps < _DEEPEST:
            ancestor, steps = parents[ancestor], steps + 1
        if ancestor in inside:
            return task.name
    return ""


def _has_used_a_gpu(facts: Facts, job: JobFacts, age_s: float) -> bool:
    """Whether the job's GPUs (any GPU if they are unknown) worked in the last minute, after the start of the job."""
    own, began_ns = job.job.gpus, facts.snapshot.at_ns - age_s * 1e9
    if not own and facts.gpu.pids is not None:
        return False  # the processes on the GPUs are visible, and none of them belongs to the job
    for sample in facts.history:
        gpus = sample.gpu
        if gpus.at_ns is None or gpus.at_ns - (gpus.seconds or 0.0) * 1e9 < began_ns:
            continue
        for uuid, rates in (gpus.value or {}).items():
            if (not own or uuid in own) and (rates.busy_ratio or 0.0) >= facts.limits.idle_gpu:
                return True
    return False


def job_starts(facts: Facts) -> tuple[Claim, ...]:
    """A young job without loaders still imports, loads its weights or compiles.

    Claim: starting: it has not begun to train.
    Evidence: the job's age, loaders and GPUs; compilers below it; growth of its memory.
    Threshold: the job is younger than 20 minutes and has no loader. No GPU of the job (where its GPUs are not visible,
        no GPU at all) was >= 5 % busy in the last minute; time before the job's start does not count. A compiler runs
        below the job, or its memory grows by >= 5 MB/s.
    Blind spot: a job without loaders that keeps its data in memory grows as well.
    """
    limits, out = facts.limits, []
    if not facts.jobs:
        return ()
    for job in facts.jobs:
        if job.workers or job.age_s is None or job.age_s >= limits.starting_s or _has_used_a_gpu(facts, job, job.age_s):
            continue
        compiler, grown = compiler_below(facts, job), job.grown_bytes_per_s
        if not compiler and (grown or 0.0) < limits.growing_bytes_per_s * limits.leave_level:
            continue
        level = 1.0 if compiler else (grown or 0.0) / limits.growing_bytes_per_s
        name = f"jobs.{job.subject}"
        evidence = (
            Evidence(f"{name}.age_s", round(job.age_s, 1), "s", limits.starting_s),
            Evidence(f"{name}.grown_bytes_per_s", grown, "B/s", limits.growing_bytes_per_s),
        )
        args: Args = (*job_args(facts, job), ("age_s", job.age_s), ("compiler", compiler), ("grown", grown))
        certainty = confidence(STARTING_BASE, 3, *([WITHOUT_GPU] if facts.gpu.absent else []))
        finding = Finding("starting", Severity.INFO, certainty, job.subject, args, evidence, advice=(Advice("wait"),))
        out.append(Claim(finding, 1.0, len(job.window.samples), job.window.needed, level))
    return tuple(out)


def _checkpoint_write(
    facts: Facts, job: JobFacts, sample: Sample, blocked_ratio: float | None
) -> tuple[BlockKey, float] | None:
    """The device that is written while the trainer is blocked, and its bytes per second; None without a checkpoint.

    blocked_ratio: the share of the Sample in which the main thread waits for a disk; None when unknown.
    """
    limits = facts.limits
    if blocked_ratio is None or blocked_ratio < limits.decider:
        return None
    if sample.block.value is None or sample.processes.value is None:
        return None
    infos = facts.snapshot.disks.value or {}
    written = {
        key: rate
        for key, rates in sample.block.value.items()
        if (rate := rates.write_bytes_per_s or 0.0) >= limits.save_bytes_per_s
        and key.name in infos
        and infos[key.name].kind != "partition"
    }
    if not written:
        return None
    # Each layer below a file on a loop or stacked device is written too; the layer that holds the file comes first.
    job_disks = _disks_of_mounts(facts, job)
    best = max(written, key=lambda key: (key.name in job_disks, written[key]))
    rates = sample.processes.value.rates
    read = sum(rates[key].read_bytes_per_s or 0.0 for key in job.job.members if key in rates)
    if read >= limits.save_reads * written[best]:
        return None
    return best, written[best]


def _disks_of_mounts(facts: Facts, job: JobFacts) -> frozenset[str]:
    """The names of the disks that hold the job's mounts."""
    infos = facts.snapshot.disks.value or {}
    return facts.lazy.compute_once(
        f"disks of the mounts of {job.subject}",
        lambda: frozenset(name for mount in job.place.mounts for name in disks_of_mount(mount, infos)),
    )


def _checkpoint_claim(facts: Facts, job: JobFacts, lost: float) -> Claim:
    """The claim of a checkpoint that is visible in the job's time shares."""
    device, written = _written_disk(facts, job)
    seconds = sum(s.seconds or 0.0 for s in job.window.samples)
    args: Args = (
        *job_args(facts, job),
        ("device", device),
        ("mount", mount_on(device, facts.snapshot.disks.value or {})),
        ("write_bytes_per_s", written if device else job.write_bytes_per_s),
        ("lost", lost),
        ("seconds", lost * seconds),
        ("window_s", seconds),
    )
    evidence = (
        Evidence(f"jobs.{job.subject}.time.checkpoint", lost, "ratio", facts.limits.gate),
        Evidence(f"jobs.{job.subject}.write_bytes_per_s", job.write_bytes_per_s, "B/s"),
    )
    certainty = SAVE_BASE if job.gpu_busy is not None else SAVE_WITHOUT_GPU
    advice = (Advice("save_async", args),)
    finding = Finding(
        "checkpoint_write", Severity.WARNING, certainty, job.subject, args, evidence, advice=advice, lost_ratio=lost
    )
    return Claim(finding, 1.0, len(job.window.samples), job.window.needed, at_once=True)


def _written_disk(facts: Facts, job: JobFacts) -> tuple[str, float]:
    """The disk that takes what the job writes, and the bytes per second written to it; ("", 0.0) without one.

    A disk that holds one of the job's mounts comes first, then the disk with the most writes. A disk to which much less
    is written than the job writes does not count: the job may write to a network filesystem.
    """
    infos = facts.snapshot.disks.value or {}
    rates: dict[str, float] = {}
    tables = [sample.block.value for sample in job.window.samples if sample.block.value is not None]
    for table in tables:
        for key, block in table.items():
            if key.name in infos and infos[key.name].kind != "partition":
                rates[key.name] = rates.get(key.name, 0.0) + (block.write_bytes_per_s or 0.0) / len(tables)
    least = facts.limits.save_writes * (job.write_bytes_per_s or 0.0)
    written = [name for name, rate in rates.items() if rate and rate >= least]
    if not written:
        return "", 0.0
    job_disks = _disks_of_mounts(facts, job)
    best = max(written, key=lambda name: (name in job_disks, rates[name]))
    return best, rates[best]


def job_saves(facts: Facts) -> tuple[Claim, ...]:
    """The trainer is blocked while a disk is being written.

    Claim: checkpoint_write: the trainer waits until its checkpoint is on the disk.
    Evidence: samples of the trainer; bytes that the disk and the job write, and bytes that the job reads.
    Threshold: the share `checkpoint` is >= 8 % of 10 s; a disk is named if it writes >= 20 % of what the job writes.
        Where the job's time is not counted, at least 3 ticks of the last 10 s meet two conditions: the trainer is in
        state D in >= 50 % of the tick's samples, and the job reads less than 10 % of the bytes that the disk writes. In
        addition, the job's writes in the 10 s are >= 20 % of the bytes that the disk writes in these ticks.
    Blind spot: a checkpoint that a separate process writes, or that is written at less than 1 MB/s.
    """
    limits, out = facts.limits, []
    for job in facts.jobs:
        if job.time is not None:
            if job.time.checkpoint >= limits.gate:
                out.append(_checkpoint_claim(facts, job, job.time.checkpoint))
            continue
        saves = [
            (s, saved)
            for s, blocked_ratio in zip(job.window.samples, job.main_disk, strict=True)
            if (saved := _checkpoint_write(facts, job, s, blocked_ratio))
        ]
        if len(saves) < limits.save_ticks or job.write_bytes_per_s is None:
            continue
        seconds = sum(s.seconds or 0.0 for s in job.window.samples)
        whole = sum(bytes_per_s * (s.seconds or 0.0) for s, (_, bytes_per_s) in saves)
        if job.write_bytes_per_s * seconds < limits.save_writes * whole:
            continue
        key = saves[-1][1][0]
        rate = mean(bytes_per_s for _, (_, bytes_per_s) in saves)
        lost = mean(job.main_disk) or 0.0
        args: Args = (
            *job_args(facts, job),
            ("device", key.name),
            ("mount", mount_on(key.name, facts.snapshot.disks.value or {})),
            ("write_bytes_per_s", rate),
            ("lost", lost),
            ("seconds", sum(s.seconds or 0.0 for s, _ in saves)),
            ("window_s", seconds),
        )
        evidence = (
            Evidence(f"jobs.{job.subject}.ticks_saving", float(len(saves)), "count", float(limits.save_ticks)),
            Evidence(f"jobs.{job.subject}.main_disk_ratio", lost, "ratio"),
            Evidence(f"disks.{key.name}.write_bytes_per_s", rate, "B/s"),
            Evidence(f"jobs.{job.subject}.write_bytes_per_s", job.write_bytes_per_s, "B/s"),
        )
        certainty = SAVE_BASE if job.gpu_busy is not None else SAVE_WITHOUT_GPU
        finding = Finding(
            "checkpoint_write",
            Severity.WARNING,
            certainty,
            job.subject,
            args,
            evidence,
            advice=(Advice("save_async", args),),
            lost_ratio=lost,
        )
        flags = at_least(job.main_disk, limits.decider)
        out.append(claim(facts, finding, flags)._replace(share=1.0, at_once=True))
    return tuple(out)
