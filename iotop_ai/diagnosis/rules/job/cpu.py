"""Rules about a job whose loaders compute or wait for the network, and about a job that has no loaders."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.neighbours import core_neighbour
from iotop_ai.diagnosis.facts.window import mean
from iotop_ai.diagnosis.rules.job.common import (
    caps,
    cause_level,
    job_args,
    job_claim,
    loss_over_gate,
    lost_share,
    reads_slow_disk,
    severity,
    stall_evidence,
)
from iotop_ai.diagnosis.verdict.advice import job_cores, job_idle_cores, job_worker_advice
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.machine.network import received_bytes_per_s

BASE = 0.85
SINGLE_BASE = 0.75
SINGLE_WITHOUT_GPU = 0.55
SINGLE_WITH_FEW_READS = 0.5
STREAM_BASE = 0.7
"""The confidence of cpu_prep, single_thread and object_stream; SINGLE_WITHOUT_GPU and SINGLE_WITH_FEW_READS are the
upper limits for single_thread without a GPU, and if the trainer reads little."""


def job_prepares_too_slowly(facts: Facts) -> tuple[Claim, ...]:
    """A job's loaders compute while the trainer waits for them.

    Claim: cpu_prep: decoding and transforming on the CPU is slower than the training.
    Evidence: samples of trainer and workers; the time that the workers have a core, and the time that they wait for
        one.
    Threshold: time lost; >= 50 % of the busy workers running. If the workers wait for a core >= 30 % of the time, there
        are too few cores, else too few workers. If the loader processes are on a CPU or wait for one >= 50 % of the
        time, a share `host` below 8 % and at most twice the share of the waits is added to the time lost, because work
        within next() counts as `host`. Where the job's time is counted, less than 50 % running is enough if running is
        the largest part of the wait and >= 8 % of the time, the loader processes are on a CPU or wait for one >= 50 %
        of the time, and the disk is not slow; the confidence is then at most 60 %.
    Blind spot: a worker that spins looks busy.
    """
    out, limits = [], facts.limits
    for job in facts.jobs:
        loss_level, running = loss_over_gate(facts, job), job.running
        if loss_level < limits.leave_level or running is None or not job.loads_off_main_thread:
            continue
        # Samples understate the reads of a worker that reads and then decodes, so a slow disk must be excluded.
        loaders_confirm = job.loaders_compute and not reads_slow_disk(facts, job)
        level = min(loss_level, cause_level(facts, job, running, loaders_confirm))
        if level < limits.leave_level or core_neighbour(facts, job) is not None:
            continue
        families = 2 + (facts.cpu_busy_ratio is not None) + (job.gpu_busy is not None)
        certainty = confidence(BASE, families, *caps(job, running, limits.decider_sure))
        evidence: tuple[Evidence, ...] = (
            Evidence(f"jobs.{job.subject}.worker_cpu_ratio", job.worker_cpu, "ratio"),
            Evidence(f"jobs.{job.subject}.worker_cpu_wait_ratio", job.worker_cpu_wait, "ratio", limits.cores_short),
            Evidence("cpu.all.busy_ratio", facts.cpu_busy_ratio, "ratio"),
        )
        if job.time is not None and job.handover:
            evidence += (Evidence(f"jobs.{job.subject}.time.host", job.time.host, "ratio", limits.gate),)
        out.append(_cpu_claim(facts, "cpu_prep", job, certainty, evidence, level))
    return tuple(out)


def _just_had_workers(facts: Facts, job: JobFacts) -> bool:
    """Whether the job had loaders a moment ago.

    A job then starts new loaders or ends; only a notebook may go on without loaders.
    """
    memory = facts.carry.memory.get(job.job.key)
    if memory is None:
        return False
    return (
        memory.last_worker_ended_ns is None
        or (facts.snapshot.at_ns - memory.last_worker_ended_ns) / 1e9 < facts.limits.respawn_most_s
    )


def job_loads_by_itself(facts: Facts) -> tuple[Claim, ...]:
    """A job without loader workers prepares its data in the training thread.

    Claim: single_thread: one thread loads, prepares and trains in turn.
    Evidence: samples of the trainer; the GPU is idle meanwhile.
    Threshold: no workers for 20 s; the trainer runs >= 30 % of the time (where the job's time is counted: >= 50 % of
        the time lost) and more than it is blocked; it uses at most 1.3 cores; GPU < 70 %, or none. If it reads less
        than 3 MB/s for each core that it uses, it may compute in Python instead: at most 50 % sure, and not critical.
    Blind spot: training on the CPU itself looks the same: without a GPU at most 55 % sure. A thread that spins while it
        waits for a busy GPU does not count.
    """
    out, limits = [], facts.limits
    for job in facts.jobs:
        loss_level, running = loss_over_gate(facts, job), job.running
        if loss_level < limits.leave_level or job.loads_off_main_thread:
            continue
        if running is None or running <= (job.disk or 0.0):
            continue
        if _just_had_workers(facts, job):
            continue
        busy = job.gpu_busy
        if (busy is not None and busy >= limits.gpu_fair) or (job.cpu_ratio or 0.0) > limits.thread_most:
            continue
        # If the job's time is counted, ``running`` is a share of the wait, else a share of the time.
        threshold = limits.main_share if job.time is None else None
        level = min(loss_level, running / (threshold or limits.decider))
        if level < limits.leave_level:
            continue
        cap = 1.0 if busy is not None else SINGLE_WITHOUT_GPU
        read = _little_read(facts, job)
        unsure = [] if read is None else [SINGLE_WITH_FEW_READS]
        certainty = confidence(SINGLE_BASE, 3 if busy is not None else 2, *caps(job, 1.0, 0.0), cap, *unsure)
        evidence = (Evidence(f"jobs.{job.subject}.main_running_ratio", job.main_running_ratio, "ratio", threshold),)
        claimed = _cpu_claim(facts, "single_thread", job, certainty, evidence, level)
        out.append(claimed if read is None else claimed._replace(finding=_with_doubt(claimed.finding, read)))
    return tuple(out)


def _little_read(facts: Facts, job: JobFacts) -> float | None:
    """The bytes per second that a job with a GPU reads, if they are few for the cores that it uses; else None."""
    read = max(job.read_bytes_per_s or 0.0, job.read_chars_per_s or 0.0)
    if job.gpu_busy is None or job.read_chars_per_s is None or not job.cpu_ratio:
        return None
    return read if read < facts.limits.decode_bytes_per_s * job.cpu_ratio else None


def _with_doubt(finding: Finding, read: float) -> Finding:
    """The finding about a trainer that reads little: it may compute in Python instead of loading."""
    args: Args = (*finding.args, ("little_read", read))
    advice = (*finding.advice, Advice("fewer_syncs", args))
    return finding._replace(severity=Severity.WARNING, args=args, advice=advice)


def _cpu_claim(
    facts: Facts, class_id: str, job: JobFacts, certainty: float, evidence: tuple[Evidence, ...], level: float
) -> Claim:
    args: Args = (
        *job_args(facts, job),
        ("idle_cores", job_idle_cores(facts, job)),
        ("cores", job_cores(facts, job)),
        ("quota", job.place.cpu_cores),
    )
    finding = Finding(
        class_id,
        severity(facts, job),
        certainty,
        job.subject,
        args,
        stall_evidence(facts, job, *evidence),
        advice=job_worker_advice(facts, job),
        lost_ratio=lost_share(job),
    )
    return job_claim(facts, job, finding, level)


def job_streams_from_far(facts: Facts) -> tuple[Claim, ...]:
    """A job's loaders wait for a server while the trainer waits.

    Claim: object_stream: the data comes over the network, too slowly.
    Evidence: samples of trainer and workers; bytes that the network links receive.
    Threshold: time lost; >= 50 % of the busy workers sleep in a socket, or sleep while >= 10 kB/s arrive on their own
        TCP connections. Connections between processes of the job do not count, nor do connections of Ray's processes
        within their machine (measured on Ray Data that decodes too slowly: counting these gave 16 % network and
        7 % CPU, leaving them out 0 and 39 %).
    Blind spot: a server on this machine (a cache, a proxy) counts like a remote one. Of sockets in a
        container's own network it sees only that a worker waits at one; it does not see data that others send to a
        port on which the job listens.
    """
    out, limits = [], facts.limits
    for job in facts.jobs:
        loss_level = loss_over_gate(facts, job)
        if loss_level < limits.leave_level or job.net is None or not (job.workers or job.time is not None):
            continue
        level = min(loss_level, job.net / limits.decider)
        if level < limits.leave_level:
            continue
        certainty = confidence(STREAM_BASE, 2 + (job.gpu_busy is not None), *caps(job, job.net, limits.decider_sure))
        received = job.place.received_bytes_per_s
        if received is None:
            received = mean(_received_rates(facts))
        args: Args = (*job_args(facts, job), ("net", job.net), ("received", received), ("peer", job.place.peer))
        evidence = stall_evidence(
            facts,
            job,
            Evidence(f"jobs.{job.subject}.waits_in_sockets_ratio", job.net, "ratio", limits.decider),
            Evidence("network.received_bytes_per_s", received, "B/s"),
        )
        advice = (Advice("more_connections", args), *job_worker_advice(facts, job, io=True))
        finding = Finding(
            "object_stream",
            Severity.WARNING,
            certainty,
            job.subject,
            args,
            evidence,
            advice=advice,
            lost_ratio=lost_share(job),
        )
        out.append(job_claim(facts, job, finding, level))
    return tuple(out)


def _received_rates(facts: Facts) -> list[float | None]:
    """The bytes per second that all network links receive, for each sample of the window; None when unknown."""
    links = facts.snapshot.network.value or {}
    return [received_bytes_per_s(links, sample.network.value or {}) for sample in facts.window.samples]
