"""Rules about unused GPUs: the training runs on the CPU, or a program only holds a GPU's memory."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.job_gpus import possible_gpus
from iotop_ai.diagnosis.facts.window import Flags, mean
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.gpu.sharing import COMPUTE
from iotop_ai.model.gpu.state import GpuState

BASE = 0.8
"""The confidence of both rules."""
FRAMEWORKS = ("torch", "tensorflow", "jax")


def _trains(facts: Facts, job: JobFacts) -> bool:
    """Whether the job certainly trains on the CPU: it has a framework or loaders, uses the CPU, and opens no GPU."""
    evidence = job.job.evidence
    if any(rank.worker_kind == "prep" for rank in job.job.ranks):
        return False  # it prepares a dataset, even if the program imports a framework
    can_train = "loader" in evidence or ("library" in evidence and job.job.framework in FRAMEWORKS)
    # A program that has opened a GPU's device file was built for a GPU and is about to use it.
    return can_train and "device" not in evidence and _work_level(facts, job) >= facts.limits.leave_level


def _may_use_a_gpu(facts: Facts, job: JobFacts) -> bool:
    """Whether the job uses a GPU, or may use one of those in use because the processes on them are hidden."""
    return bool(job.used_gpus or possible_gpus(job.job, facts.gpu))


def _work_level(facts: Facts, job: JobFacts) -> float:
    """The job's CPU use divided by the threshold."""
    return (job.cpu_ratio or 0.0) / facts.limits.trains


def _free_gpus(facts: Facts) -> tuple[Flags, tuple[int, ...]]:
    """For each sample, whether one of the GPUs that are free now was certainly idle; and the numbers of these GPUs.

    The result is ((), ()) if no GPU is free, or if it is unknown which GPUs are free.
    """
    limits, readings = facts.limits, facts.snapshot.gpu.value or {}
    window = facts.window_over(limits.unused_window_s, ("gpu",))
    free = {}
    for uuid, reading in readings.items():
        state = reading.value
        if state is None or state.mig or state.is_integrated:
            continue
        if state.processes is None or any(not process.found for process in state.processes):
            return (), ()
        if state.processes or uuid in facts.gpu.uuids:
            continue
        free[uuid] = state.number
    if not free:
        return (), ()
    flags = tuple(
        any((rates.busy_ratio if rates.busy_ratio is not None else 1.0) < limits.idle_gpu for rates in rows)
        for sample in window.samples
        if (rows := [r for uuid, r in (sample.gpu.value or {}).items() if uuid in free])
    )
    return flags, tuple(sorted(free.values()))


def job_uses_no_gpu(facts: Facts) -> tuple[Claim, ...]:
    """A job trains on the CPU while a GPU of this machine is free.

    Claim: no_gpu: the training does not use the GPU that is there.
    Evidence: the processes on each GPU (NVML), none of them the job's; the job's CPU, framework and loaders.
    Threshold: for 30 s a GPU has no process and is < 5 % busy, while the job uses >= 0.1 cores and is older than 15 s.
    Blind spot: it is silent where NVML lists processes that are not visible here, and about a job that may be on a GPU
        whose processes are hidden. A job meant for the CPU looks the same. A job that uses 1 of 8 GPUs counts as
        intended.
    """
    limits = facts.limits
    if not facts.gpu.visible or facts.gpu.absent:
        return ()
    on_cpu = [job for job in facts.jobs if not _may_use_a_gpu(facts, job) and _trains(facts, job)]
    on_cpu = [job for job in on_cpu if job.age_s is not None and job.age_s >= limits.settle_s]
    if not on_cpu:
        return ()
    flags, free = _free_gpus(facts)
    if not flags:
        return ()
    free_share = sum(flags) / len(flags)
    names = f"GPU {free[0]}" if len(free) == 1 else f"{len(free)} GPUs"
    out = []
    for job in on_cpu:
        inside = {key.pid for key in job.job.members}
        if inside & facts.gpu.on_gpu:
            continue
        args: Args = (
            ("job", job.job.name),
            ("job_pid", float(job.job.key.pid)),
            ("pid", float(job.job.ranks[0].key.pid)),
            ("framework", job.job.framework or ("torch" if "loader" in job.job.evidence else "")),
            ("cpu", job.cpu_ratio),
            ("free", names),
            ("gpus_all", float(facts.gpu.total)),
            ("memory", mean(_memory_total(facts, number) for number in free)),
        )
        evidence = (
            Evidence(f"jobs.{job.subject}.gpus", 0.0, "count", 1.0),
            Evidence(f"jobs.{job.subject}.cpu_ratio", job.cpu_ratio, "ratio", limits.trains),
            Evidence("gpus.free", float(len(free)), "count", 1.0),
        )
        certainty = confidence(BASE, 3 if "library" in job.job.evidence else 2)
        advice = (Advice("use_gpu", args),)
        finding = Finding("no_gpu", Severity.WARNING, certainty, job.subject, args, evidence, advice=advice)
        out.append(Claim(finding, free_share, len(flags), limits.least_samples, min(1.0, _work_level(facts, job))))
    return tuple(out)


def _memory_total(facts: Facts, number: int) -> float | None:
    """The memory of the GPU with this number, in bytes; None when unknown."""
    states = [r.value for r in (facts.snapshot.gpu.value or {}).values() if r.value is not None]
    return next((float(s.memory_total_bytes) for s in states if s.number == number and s.memory_total_bytes), None)


def gpu_is_held(facts: Facts) -> tuple[Claim, ...]:
    """A program holds a GPU's memory and has not used the GPU for a long time.

    Claim: no_gpu: a job that hangs, is forgotten or sits in a notebook keeps others from the GPU.
    Evidence: memory in use, the processes that hold it, and how long the GPU has been idle.
    Threshold: a GPU with a compute process has >= 512 MiB in use, and is < 5 % busy for 10 observed minutes. The
        finding is shown beside the verdict: only the owner knows whether the process is wanted.
    Blind spot: idle time before the monitor started; a GPU that computes for a moment every few minutes.
    """
    limits, out = facts.limits, []
    for uuid, reading in (facts.snapshot.gpu.value or {}).items():
        state, memory = reading.value, facts.carry.gpus.get(uuid)
        if state is None or memory is None or memory.idle_ns is None:
            continue
        idle_s = (facts.snapshot.at_ns - memory.idle_ns) / 1e9
        if idle_s < limits.gpu_held_s:
            continue
        pid, name, user = _holder(facts, state)
        used = None if state.memory_used_bytes is None else float(state.memory_used_bytes)
        args: Args = (
            ("what", "held"),
            ("gpu", f"GPU {state.number}"),
            ("gpus_all", float(facts.gpu.total)),
            ("used", used),
            ("idle_s", idle_s),
            ("task", name),
            ("user", user),
            ("pid", None if pid is None else float(pid)),
        )
        evidence = (
            Evidence(f"gpus.{state.number}.idle_s", round(idle_s, 1), "s", limits.gpu_held_s),
            Evidence(f"gpus.{state.number}.memory_used_bytes", used, "B", float(limits.gpu_used_bytes)),
        )
        advice = (Advice("look_into", (("pid", float(pid)), ("name", name))),) if pid is not None else ()
        finding = Finding("no_gpu", Severity.INFO, BASE, uuid, args, evidence, advice=advice)
        out.append(Claim(finding, 1.0, limits.least_samples, limits.least_samples))
    return tuple(out)


def _holder(facts: Facts, state: GpuState) -> tuple[int | None, str, str]:
    """The pid, name and user of the first visible compute process on a GPU; (None, "", "") if none is visible."""
    table = facts.snapshot.processes.value
    pids = {process.pid for process in state.processes or () if process.kind == COMPUTE and process.found}
    for key, info in table.info.items() if table is not None else ():
        if key.pid in pids:
            return key.pid, info.name, info.user
    return None, "", ""
