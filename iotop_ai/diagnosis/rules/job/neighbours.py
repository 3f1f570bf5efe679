"""Rules about a job that another program slows by using its device or its cores."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.block import base_of
from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.facts.neighbours import CHECK, RESYNC, UNSEEN, Neighbour, core_neighbour, disk_neighbour
from iotop_ai.diagnosis.rules.job.common import (
    caps,
    job_args,
    job_claim,
    loss_over_gate,
    lost_share,
    severity,
    stall_evidence,
)
from iotop_ai.diagnosis.rules.job.storage import family_count, wait_finding, waits_of
from iotop_ai.model.finding import Advice, Evidence, Finding

BASE = 0.85
NOT_SEEN = 0.5
"""The upper limit of the confidence when the I/O of the other programs is unreadable."""
_MOST_PIDS = 4
"""The most pids that a command lists; of more pids, it names only one."""


def _args(neighbour: Neighbour, resource: str) -> Args:
    return (
        ("other", neighbour.name),
        ("other_kind", neighbour.kind),
        ("other_pid", float(neighbour.pid) if neighbour.pid else None),
        ("other_pids", " ".join(map(str, neighbour.pids)) if len(neighbour.pids) <= _MOST_PIDS else ""),
        ("others", float(neighbour.process_count)),
        ("other_where", neighbour.where),
        ("theirs", neighbour.theirs),
        ("own", neighbour.own),
        ("group", neighbour.group),
        ("other_share", neighbour.share),
        ("what", resource),
    )


def _advice(neighbour: Neighbour, args: Args) -> tuple[Advice, ...]:
    if neighbour.kind == RESYNC:
        return (Advice("slow_resync", args),)
    if neighbour.kind == CHECK:
        return (Advice("wait_for_check", args),)
    if neighbour.kind == UNSEEN:
        return (Advice("run_as_root"), Advice("ask_for_share", args))
    return (Advice("calm_neighbour", args),)


def job_shares_its_device(facts: Facts) -> tuple[Claim, ...]:
    """A job's loaders are blocked by a device that other programs use heavily.

    Claim: noisy_neighbour: another program or container, a RAID resync or an iotop-ai check takes the device's time.
    Evidence: as storage_read; the job's bytes against the device's; the programs that move the rest.
    Threshold: as storage_read, whatever the await. Others have >= 40 % of the device's bytes and the job < 50 %. The
        device is slow or busy, or the job's readers are not in its queue. One program, or an iotop-ai check, accounts
        for the bytes of the others.
    Blind spot: it compares bytes, not requests. Where the I/O of others is unreadable, the rule infers it (at most
        50 % sure) from what was not in the device's queue before the window. A program's writes count when they enter
        the page cache.
    """
    out = []
    for wait in waits_of(facts, "noisy_neighbour"):
        neighbour = disk_neighbour(facts, wait.job, wait.device, idle_queue=True)
        if neighbour is None or wait.device is None:
            continue
        hidden = [NOT_SEEN] if neighbour.kind == UNSEEN else []
        certainty = confidence(
            BASE, 1 + family_count(facts, wait), *caps(wait.job, wait.share, facts.limits.decider_sure), *hidden
        )
        args = _args(neighbour, "disk")
        base = base_of(wait.device.info, facts.snapshot.disks.value or {})
        advice_args: Args = (*args, ("device", wait.device.name), ("scheduler", base.scheduler))
        name = f"disks.{wait.device.name}"
        evidence = (
            Evidence(f"{name}.others_ratio", neighbour.share, "ratio", facts.limits.other_share),
            Evidence(f"{name}.others_bytes_per_s", neighbour.theirs, "B/s"),
            Evidence(f"jobs.{wait.job.subject}.bytes_per_s", neighbour.own, "B/s"),
        )
        finding = wait_finding(
            facts, "noisy_neighbour", wait, certainty, _advice(neighbour, advice_args), args, evidence
        )
        out.append(job_claim(facts, wait.job, finding, wait.level))
    return tuple(out)


def job_shares_its_cores(facts: Facts) -> tuple[Claim, ...]:
    """A job's loaders are ready to compute, but other programs use the cores.

    Claim: noisy_neighbour: other programs take the CPU time that the loaders need.
    Evidence: as cpu_prep; CPU by program.
    Threshold: as cpu_prep. The workers wait for a core >= 30 % of the time, and 1.5 times as long as they have one;
        where the machine has a core for each worker, a wait that explains half of the loss is enough instead. Others
        use >= half of the busy cores, and one program >= 40 %.
    Blind spot: programs in other containers, or in other guests of the same host; any program, if the job cannot run
        on every core.
    """
    out, limits = [], facts.limits
    for job in facts.jobs:
        loss_level, running = loss_over_gate(facts, job), job.running
        if loss_level < limits.leave_level or running is None or running < limits.decider * limits.leave_level:
            continue
        neighbour = core_neighbour(facts, job)
        if neighbour is None:
            continue
        count = 2 + (job.gpu_busy is not None)
        certainty = confidence(BASE, count, *caps(job, running, limits.decider_sure))
        args: Args = (*job_args(facts, job), *_args(neighbour, "cpu"))
        name = f"jobs.{job.subject}"
        evidence = stall_evidence(
            facts,
            job,
            Evidence(f"{name}.worker_cpu_wait_ratio", job.worker_cpu_wait, "ratio", limits.cores_short),
            Evidence(f"{name}.worker_cpu_ratio", job.worker_cpu, "ratio"),
            Evidence("cpu.others_cores", neighbour.theirs, "count"),
            Evidence("cpu.others_ratio", neighbour.share, "ratio", limits.own_share),
        )
        finding = Finding(
            "noisy_neighbour",
            severity(facts, job),
            certainty,
            job.subject,
            args,
            evidence,
            advice=(Advice("calm_cpu", args),),
            lost_ratio=lost_share(job),
        )
        out.append(job_claim(facts, job, finding, min(loss_level, running / limits.decider)))
    return tuple(out)
