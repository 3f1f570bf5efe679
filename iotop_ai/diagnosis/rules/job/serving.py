"""The rule about a server that waits for requests: its GPU is idle, but nothing is wrong."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.time_window import largest_other
from iotop_ai.diagnosis.facts.window import mean
from iotop_ai.diagnosis.rules.job.common import BLIND, job_args
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.job.serving import TRAINING_EVIDENCE

BASE = 0.7
WITHOUT_GPU = 0.5
"""The upper limit of the confidence when the job has no GPU or its use is unknown."""


def job_waits_for_requests(facts: Facts) -> tuple[Claim, ...]:
    """A program with a framework listens for clients, and sleeps.

    Claim: serving: it is an inference server without requests. Nothing starves.
    Evidence: its listening TCP sockets; the state of its main thread; CPU, reads and GPU.
    Threshold: it has one main process, no loaders and no launcher. Its main thread sleeps in a queue or socket >= 60 %
        of the last 60 s, or of the time observed so far if that is shorter. It uses < half a core, reads < 1 MB/s, and
        its GPU is < 70 % busy. Where the job's time is counted, and its GPU is >= 5 % busy or unknown, its wait for
        data and each other lost share are < 8 % or less than its unexplained time: the rest between requests is
        unexplained time, while the first rank of a training job, which listens too, has lost time.
    Blind spot: the rule treats a busy server like any job. It does not recognise a server behind a Unix socket or a
        message queue.
    """
    out, limits = [], facts.limits
    for job in facts.jobs:
        listening = job.place.listening
        if (
            job.workers
            or not listening
            or len(job.job.ranks) != 1
            or any(w in TRAINING_EVIDENCE for w in job.job.evidence)
        ):
            continue
        asleep = _asleep_share(facts, job)
        works = (job.cpu_ratio or 0.0) >= limits.idle_thread or (job.read_bytes_per_s or 0.0) >= limits.idle_bytes_per_s
        if asleep is None or works or (job.gpu_busy is not None and job.gpu_busy >= limits.gpu_fair):
            continue
        if _loses_time(facts, job):
            continue
        name = f"jobs.{job.subject}"
        evidence = (
            Evidence(f"{name}.listening", float(listening), "count", 1.0),
            Evidence(f"{name}.main_asleep_ratio", asleep, "ratio", limits.asleep_share),
            Evidence(f"{name}.cpu_ratio", job.cpu_ratio, "ratio", limits.idle_thread),
        )
        args: Args = (
            *job_args(facts, job),
            ("listening", float(listening)),
            ("connections", None if job.place.connections is None else float(job.place.connections)),
            ("asleep", asleep),
        )
        cap = [WITHOUT_GPU] if job.gpu_busy is None else []
        certainty = confidence(BASE, 3, *cap, *([BLIND] if job.waits_hidden else []))
        finding = Finding(
            "serving", Severity.INFO, certainty, job.subject, args, evidence, advice=(Advice("more_requests"),)
        )
        out.append(Claim(finding, 1.0, len(job.window.samples), job.window.needed, asleep / limits.asleep_share))
    return tuple(out)


def _loses_time(facts: Facts, job: JobFacts) -> bool:
    """Whether the job loses time, and at least as much as its unexplained time, which includes rests between requests.

    False if the job's time is not counted, or if its GPU is idle.
    """
    limits, time = facts.limits, job.time
    if time is None or (job.gpu_busy is not None and job.gpu_busy < limits.idle_gpu):
        return False
    return max(job.stall or 0.0, largest_other(time)) >= max(limits.gate, time.unexplained)


def _asleep_share(facts: Facts, job: JobFacts) -> float | None:
    """The share of the samples in which the job's main thread sleeps in a queue or a socket; None when unknown."""
    window = facts.window_over(facts.limits.serving_window_s, ("jobs",))
    shares = []
    for sample in window.samples:
        rates = None if sample.jobs.value is None else sample.jobs.value.jobs.get(job.job.key)
        if rates is not None and rates.main_queue_ratio is not None:
            shares.append(rates.main_queue_ratio + (rates.main_net_ratio or 0.0))
    return mean(shares)
