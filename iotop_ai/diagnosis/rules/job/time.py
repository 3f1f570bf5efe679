"""Rules about the shares of a job's time: its main thread delays the GPU, a compiler runs, or the job stands still."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.time_window import largest_other
from iotop_ai.diagnosis.rules.job.common import gated_evidence, job_args, job_claim
from iotop_ai.diagnosis.rules.job.phase import compiler_below
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.job.serving import may_rest
from iotop_ai.model.job.time_shares import TimeShares

HOST_BASE = 0.8
COMPILE_BASE = 0.9
HUNG_BASE = 0.9
"""The confidence of each class: host_bound, compiling and hung."""
_TRAINED_MS = 1000
"""A job has trained if at least this much of its time was counted as compute, collective or transfer."""


def _evidence(job: JobFacts, time: TimeShares, name: str, limit: float) -> tuple[Evidence, ...]:
    return (
        Evidence(f"jobs.{job.subject}.time.{name}", getattr(time, name), "ratio", limit),
        *_more_evidence(job, time),
    )


def _more_evidence(job: JobFacts, time: TimeShares) -> tuple[Evidence, ...]:
    subject = f"jobs.{job.subject}"
    return (
        Evidence(f"{subject}.time.compute", time.compute, "ratio"),
        Evidence(f"{subject}.stall_ratio", time.data, "ratio"),
        Evidence(f"{subject}.main_running_ratio", job.main_running_ratio, "ratio"),
    )


def main_thread_holds_up_gpu(facts: Facts) -> tuple[Claim, ...]:
    """The GPU idles while the job's main thread runs and nothing is loaded.

    Claim: host_bound: the GPU is delayed by Python, launches of small kernels or synchronisations, not by data.
    Evidence: samples of the trainer while the GPU idles; no reads; no worker for which the trainer waits.
    Threshold: the share `host` is >= 8 % of 10 s or 5 % of 60 s, and the largest lost share; a GPU must be visible. If
        the job's loader processes are on a CPU or wait for one >= 50 % of the time, the share must be 8 % of 10 s: a
        smaller share may be next() itself, which takes the batches (measured: two trainers that lost 7 and 11 % in
        next() had a share `host` of 5 and 6 %).
    Blind spot: a main thread that decodes data already in memory looks the same.
    """
    limits, out = facts.limits, []
    for job in facts.jobs:
        time = job.time
        if time is None or job.gpu_busy is None or job.age_s is None or job.age_s < limits.settle_s:
            continue
        if max(time.data, time.unexplained) > time.host or largest_other(time) > time.host:
            continue
        long = 0.0 if job.long_time is None or job.loaders_compute else job.long_time.host
        level = max(time.host / limits.gate, long / job.long_gate)
        if level < limits.leave_level or job.handover:
            continue
        args: Args = (
            *job_args(facts, job),
            ("lost", time.host),
            ("running", job.main_running_ratio),
            ("worker_idle", _idle_workers(facts, job)),
            ("framework", job.job.framework),
        )
        name = f"jobs.{job.subject}.time"
        finding = Finding(
            "host_bound",
            Severity.WARNING,
            confidence(HOST_BASE, 3 if time.unexplained < limits.gate else 2),
            job.subject,
            args,
            (
                *gated_evidence(facts, job, (f"{name}.host", time.host), (f"{name}.long_host", long)),
                *_more_evidence(job, time),
            ),
            advice=(Advice("fewer_syncs", args), Advice("compile_model", args)),
            lost_ratio=time.host,
        )
        out.append(job_claim(facts, job, finding, level))
    return tuple(out)


def _idle_workers(facts: Facts, job: JobFacts) -> float | None:
    """The share of time for which the job's loaders are idle, if they are idle most of the time; else None."""
    idle = job.worker_idle if job.workers else None
    return idle if idle is not None and idle >= facts.limits.workers_rest else None


def job_compiles(facts: Facts) -> tuple[Claim, ...]:
    """A compiler runs in a process that the job started, and the job does not train.

    Claim: compiling: the compiler makes kernels. The training goes on afterwards.
    Evidence: compilers among the processes that the job started.
    Threshold: the share `compile` is >= 50 % of 10 s; before the job's first step, the share `startup` while a compiler
        runs. The job may have any age.
    Blind spot: compilers inside the process (XLA, Triton's own): their time is unexplained.
    """
    limits, out = facts.limits, []
    for job in facts.jobs:
        time = job.time
        if time is None:
            continue
        # Before the first step of a job that compiles, the time of its start counts as compiling.
        compiles = max(time.compile, time.startup if compiler_below(facts, job) else 0.0)
        if compiles < limits.phase_share * limits.leave_level:
            continue
        args: Args = (*job_args(facts, job), ("compile", compiles), ("framework", job.job.framework))
        finding = Finding(
            "compiling",
            Severity.INFO,
            confidence(COMPILE_BASE, 3),
            job.subject,
            args,
            _evidence(job, time, "compile" if compiles == time.compile else "startup", limits.phase_share),
            advice=(Advice("keep_compiled", args),),
        )
        out.append(job_claim(facts, job, finding, compiles / limits.phase_share))
    return tuple(out)


def _has_trained(facts: Facts, job: JobFacts) -> bool:
    """Whether there is a sign that the job made steps while it was watched."""
    jobs, steps = facts.snapshot.jobs.value, facts.snapshot.steps.value or {}
    if job.workers or not job.job.members.isdisjoint(steps):
        return True
    counts = None if jobs is None else jobs.times.get(job.job.key)
    return counts is not None and counts.compute + counts.collective + counts.transfer >= _TRAINED_MS


def job_does_not_move(facts: Facts) -> tuple[Claim, ...]:
    """The job has made no progress for a minute, or it is stopped.

    Claim: hung: its loader is deadlocked, a rank is lost or a lock is never released; or a signal, a debugger or a
        frozen cgroup stopped it.
    Evidence: CPU time, reads, writes and GPU of its processes; the state of its main thread; a sign that it has trained
        before.
    Threshold: for 60 s, and in each 10 s of them, each of its training processes, with all processes below it, uses <
        0.01 cores and moves < 32 KiB/s, while the job holds GPUs or has loaders; or it is stopped >= 50 % of 10 s. A
        job that is not stopped must have loaders, or have used a GPU or reported steps while watched. Notebooks and
        programs that wait at a terminal do not count, nor do jobs that listen for clients and have neither a launcher
        nor loaders.
    Blind spot: a rank that spins in a collective for a lost peer seems to make progress. The rule misses a job without
        loaders that stood still before it was watched. A server of which no process of the job listens looks like a
        job.
    """
    limits, out = facts.limits, []
    for job in facts.jobs:
        time = job.time
        if time is None or max(time.hung, time.stopped) < limits.phase_share * limits.leave_level:
            continue
        stopped = time.stopped >= time.hung
        if not stopped and (may_rest(job.job, job.place) or not _has_trained(facts, job)):
            continue
        name = "stopped" if stopped else "hung"
        args: Args = (*job_args(facts, job), ("stopped", float(stopped)), ("main", float(job.job.ranks[0].key.pid)))
        finding = Finding(
            "hung",
            Severity.CRITICAL,
            confidence(HUNG_BASE, 3),
            job.subject,
            args,
            _evidence(job, time, name, limits.phase_share),
            advice=(Advice("continue_job" if stopped else "dump_stacks", args),),
            lost_ratio=getattr(time, name),
        )
        out.append(job_claim(facts, job, finding, getattr(time, name) / limits.phase_share))
    return tuple(out)
