"""Rules with positive evidence that nothing is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, claim, confidence, gpu_args, gpu_evidence, may_count
from iotop_ai.diagnosis.facts.gpu_groups import OneGpu, gpu_groups, only_others_use_gpus
from iotop_ai.diagnosis.facts.process import blocked_tasks
from iotop_ai.diagnosis.facts.window import at_least, mean
from iotop_ai.diagnosis.rules.job.common import is_unexplained
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.job.serving import may_rest

BOUND_BASE = 0.8
BOUND_BY_SM = 0.95
HEALTHY_BASE = 0.75
WITHOUT_SIGNAL = 0.6
"""The confidence of gpu_bound and of healthy. The last figure is the upper limit when a signal is missing."""


def _most_blocked(facts: Facts) -> float | None:
    """The largest share of time for which a process that feeds the GPUs is blocked; None when unknown."""
    if facts.snapshot.processes.value is None:
        return None
    return max((t.blocked_ratio for t in facts.gpu_task_facts), default=0.0)


class _BusyGpus(NamedTuple):
    """The GPUs that are judged together: those of one job, or all GPUs in use if no job's GPUs are known."""

    args: Args
    subject: str
    busy: tuple[float | None, ...]
    """The mean utilisation in each sample."""
    power: float | None
    """The mean power divided by the power limit."""
    sm: float | None
    """The mean SM activity (GPM); None if the GPUs do not report it."""


def _gpus_to_judge(facts: Facts) -> list[_BusyGpus]:
    """The GPUs to judge. A job that shares a GPU with another program is left out: busy GPUs show nothing about it."""
    groups = gpu_groups(facts, facts.limits.window_s)
    if all(group.job is None for group in groups):
        sm = _mean_sm(facts, [gpu for group in groups for gpu in group.gpus])
        return [_BusyGpus(gpu_args(facts), "", facts.gpu.busy, facts.gpu.power_ratio, sm)]
    out = []
    for group in groups:
        if group.job is None or group.job.shares_gpu:
            continue
        uuids = {gpu.state.uuid for gpu in group.gpus}
        busy = tuple(
            mean(rates.busy_ratio for uuid, rates in (sample.gpu.value or {}).items() if uuid in uuids)
            for sample in facts.window.samples
        )
        args: Args = (
            ("job_pid", float(group.job.job.key.pid)),
            ("gpus", float(len(group.gpus))),
            ("gpus_all", float(facts.gpu.total)),
            ("gpu_busy", mean(busy)),
        )
        power = mean(gpu.power_ratio for gpu in group.gpus)
        out.append(_BusyGpus(args, group.subject, busy, power, _mean_sm(facts, group.gpus)))
    return out


def _mean_sm(facts: Facts, gpus: Sequence[OneGpu]) -> float | None:
    newest = facts.window.samples[-1].gpu.value if facts.window.samples else None
    if newest is None or all(rates.sm_ratio is None for rates in newest.values()):
        return None
    return mean(gpu.mean("sm_ratio") for gpu in gpus)


def gpus_compute(facts: Facts) -> tuple[Claim, ...]:
    """The GPUs are busy, and their power or SM activity confirms it.

    Claim: gpu_bound: the GPUs are the limit. They have all the data that they can take.
    Evidence: utilisation of the job's GPUs (of all GPUs in use where no job's GPUs are known); their power against its
        limit; their SM activity (GPM).
    Threshold: >= 90 % busy, and power >= 40 % of the limit or SM activity >= 50 %. SM activity >= 80 % raises the
        confidence. Below 50 % the verdict says that the kernels are too small to fill the GPU (DCGM user guide). A main
        thread that is always busy only spins while it waits for the GPU.
    Blind spot: without power and GPM a GPU that spins in a collective looks the same: at most 60 % sure. The rule
        claims nothing about a GPU on which two jobs work, or about other programs' GPUs beside a job without a GPU.
    """
    if not facts.gpu.used or only_others_use_gpus(facts):
        return ()
    return tuple(c for gpus in _gpus_to_judge(facts) if (c := _bound_claim(facts, gpus)) is not None)


def _bound_claim(facts: Facts, gpus: _BusyGpus) -> Claim | None:
    limits, power, sm = facts.limits, gpus.power, gpus.sm
    if power is not None and power < limits.power_share and (sm is None or sm < limits.sm_idle):
        return None
    busy, evidence = mean(gpus.busy), []
    level, flags = (busy or 0.0) / limits.gpu_bound, at_least(gpus.busy, limits.gpu_bound)
    if not may_count(facts, "gpu_bound", gpus.subject, flags, level):
        return None  # the claim needs the facts of every process on the GPUs, which are slow to make
    if busy is not None:
        evidence.append(Evidence("gpus.busy_ratio", busy, "ratio", limits.gpu_bound))
    if power is not None:
        evidence.append(Evidence("gpus.power_ratio", power, "ratio", limits.power_share))
    if sm is not None:
        evidence.append(Evidence("gpus.sm_ratio", sm, "ratio", limits.sm_idle))
    agrees = power is not None or (sm is not None and sm >= limits.sm_idle)
    small = sm is not None and sm < limits.sm_idle
    base = BOUND_BY_SM if sm is not None and sm >= limits.sm_busy else BOUND_BASE
    finding = Finding(
        "gpu_bound",
        Severity.INFO,
        confidence(base, 3, 1.0 if agrees else WITHOUT_SIGNAL),
        gpus.subject,
        (*gpus.args, ("power", power), ("sm", sm), ("small", float(small)), ("blocked", _most_blocked(facts))),
        tuple(evidence),
        advice=(Advice("larger_kernels" if small else "gpu_limits"),),
    )
    return claim(facts, finding, flags, level)


def gpus_fed(facts: Facts) -> tuple[Claim, ...]:
    """The GPUs are mostly busy and no process that feeds them waits.

    Claim: healthy: no process of the job waits for a device while the GPUs work.
    Evidence: utilisation of the GPUs in use; the time that the processes spend in state D.
    Threshold: GPU >= 70 %, power >= 40 % of the limit where known; D < 35 %. Only while no finding explains the time
        of a job, and no job with a GPU has >= 10 % unexplained time.
    Blind spot: short stalls between samples, and waits outside state D.
    """
    limits = facts.limits
    power = facts.gpu.power_ratio
    if facts.job_time_is_explained or not facts.gpu.used or (power is not None and power < limits.power_share):
        return ()
    if any(is_unexplained(facts, job) and not may_rest(job.job, job.place) for job in facts.jobs):
        return ()
    if facts.snapshot.processes.value is None or only_others_use_gpus(facts) or blocked_tasks(facts.gpu_tasks, limits):
        return ()
    flags = at_least(facts.gpu.busy, limits.gpu_fair)
    finding = Finding(
        "healthy",
        Severity.INFO,
        confidence(HEALTHY_BASE, 2 + (power is not None), 1.0 if facts.gpu.pids is not None else WITHOUT_SIGNAL),
        "",
        (*gpu_args(facts), ("power", power), ("blocked", _most_blocked(facts))),
        gpu_evidence(facts, limits.gpu_fair),
    )
    return (claim(facts, finding, flags, (facts.gpu.busy_ratio or 0.0) / limits.gpu_fair),)
