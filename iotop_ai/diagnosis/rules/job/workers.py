"""The rule about loader workers that are restarted for each epoch."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.rules.job.common import BLIND, job_args, job_claim
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.fold_state import WorkerRestart

BASE = 0.9
WITHOUT_GPU = 0.85
"""The upper limit of the confidence when the use of the job's GPUs is unknown."""
_QUIET = 3.0
"""The finding ends after this many epochs of the usual length without a restart."""


def _costly(restarts: Sequence[WorkerRestart], limits: Thresholds) -> list[WorkerRestart]:
    """The restarts that cost enough: a second, or a share of an epoch that is worth a claim."""
    if len(restarts) < limits.respawn_turns:
        return []
    epoch_s = (restarts[-1].at_ns - restarts[0].at_ns) / 1e9 / (len(restarts) - 1)
    return [one for one in restarts if one.lost_s >= min(limits.respawn_s, limits.long_gate * epoch_s)]


def job_restarts_its_workers(facts: Facts) -> tuple[Claim, ...]:
    """A job ends all of its loader workers after each epoch and starts new ones.

    Claim: worker_respawn: the training waits while the new workers start, import and fill their queues.
    Evidence: start times of the workers; samples of trainer and workers right after a start.
    Threshold: all workers of the first rank are replaced twice, and each time >= 1 s or >= 5 % of an epoch is lost. The
        sum is >= 5 % of the time since the first restart, and at least half of all lost time. If a job has no workers
        for n > 3 s, only 3/n of the time lost meanwhile counts.
    Blind spot: a validation that has its own loader looks like a restart. Epochs of more than ten minutes are missed.
        In epochs of less than 4 s, slow loaders look like restarts.
    """
    out, limits = [], facts.limits
    now = facts.snapshot.at_ns
    for job in facts.jobs:
        memory = facts.carry.memory.get(job.job.key)
        if memory is None:
            continue
        restarts = _costly(memory.restarts, limits)
        if len(restarts) < limits.respawn_turns:
            continue
        period_s = (restarts[-1].at_ns - restarts[0].at_ns) / 1e9 / (len(restarts) - 1)
        # The current epoch has not ended, so it counts as an epoch of the usual length.
        span_s = period_s * len(restarts)
        if period_s <= 0 or (now - restarts[-1].at_ns) / 1e9 > _QUIET * period_s + limits.respawn_most_s:
            continue
        cost_s = sum(restart.lost_s for restart in restarts)
        whole_s = cost_s + sum(restart.other_s for restart in memory.restarts)
        ratio = min(1.0, cost_s / span_s)
        level = min(ratio / limits.long_gate, cost_s / whole_s / 0.5)
        name = f"jobs.{job.subject}"
        evidence = (
            Evidence(f"{name}.worker_turns", float(len(restarts)), "count", float(limits.respawn_turns)),
            Evidence(f"{name}.lost_at_turns_ratio", ratio, "ratio", limits.long_gate),
            Evidence(f"{name}.lost_a_turn_s", cost_s / len(restarts), "s", limits.respawn_s),
            Evidence(f"{name}.epoch_s", period_s, "s"),
        )
        args: Args = (
            *(pair for pair in job_args(facts, job) if pair[0] != "lost"),
            ("lost", ratio),
            ("turn_s", cost_s / len(restarts)),
            ("epoch_s", period_s),
            ("turns", float(len(restarts))),
        )
        limit = [WITHOUT_GPU] if job.gpu_busy is None else []
        finding = Finding(
            "worker_respawn",
            Severity.WARNING,
            confidence(BASE, 3, *limit, *([BLIND] if job.waits_hidden else [])),
            job.subject,
            args,
            evidence,
            advice=(Advice("keep_workers", args),),
            lost_ratio=ratio,
        )
        out.append(job_claim(facts, job, finding, level))
    return tuple(out)
