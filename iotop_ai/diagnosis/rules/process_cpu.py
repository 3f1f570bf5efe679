"""Rules about the CPU side of loading: workers that compute, or one thread that loads and trains."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, claim, confidence, gpu_args, gpu_evidence
from iotop_ai.diagnosis.facts.process import Group, TaskFacts, group_tasks
from iotop_ai.diagnosis.facts.window import Flags, below
from iotop_ai.diagnosis.verdict.advice import worker_advice
from iotop_ai.model.finding import Evidence, Finding, Severity
from iotop_ai.model.process.records import ProcessTable

BASE, SINGLE_BASE = 0.85, 0.75
"""The confidence of cpu_prep and of single_thread."""
WITHOUT_GPU, WITHOUT_MAPPING = 0.6, 0.5
"""The upper limits of both confidences: without a GPU, and when the processes on the GPUs are hidden."""
WAITING_CPU = 0.3
"""A training process that uses less CPU than this waits for its workers."""


def _prepares_data(facts: Facts, task: TaskFacts) -> bool:
    """Whether the process computes most of the time, rather than waiting in state D."""
    limits = facts.limits
    cpu = task.cpu_ratio or 0.0
    return cpu >= limits.worker_busy * limits.leave_level and cpu > task.blocked_ratio


def _evidence(facts: Facts, group: Group, threshold: float) -> tuple[Evidence, ...]:
    name = f"processes.{group.name}"
    out = [
        Evidence(f"{name}.cpu_ratio", group.cpu_ratio, "ratio", threshold),
        Evidence(f"{name}.blocked_ratio", group.blocked_ratio, "ratio", facts.limits.blocked),
        Evidence("cpu.all.busy_ratio", facts.cpu_busy_ratio, "ratio"),
    ]
    if facts.cpu_pressure_ratio is not None:
        out.append(Evidence("pressure.cpu.some_ratio", facts.cpu_pressure_ratio, "ratio"))
    return tuple(out)


def _args(facts: Facts, group: Group, lost: float) -> Args:
    return (
        ("task", group.name),
        ("pid", float(group.pid)),
        ("tasks", float(group.alike_count)),
        ("tasks_all", float(group.name_count)),
        ("cpu", group.cpu_ratio),
        ("blocked", group.blocked_ratio),
        ("idle_cores", facts.idle_cores),
        ("cores", None if facts.allowed_cores is None else float(facts.allowed_cores)),
        ("lost", lost),
        *gpu_args(facts),
    )


def workers_compute(facts: Facts) -> tuple[Claim, ...]:
    """Loader workers compute all the time while the GPUs wait.

    Claim: cpu_prep: decoding and transforming on the CPU is slower than the GPUs.
    Evidence: CPU of the workers (children of a process on a GPU, or processes with the name of a DataLoader worker)
        against their time in state D; GPU; without a GPU, a parent that uses little CPU.
    Threshold: worker CPU >= 70 % of a core and above its share of time in state D; GPU < 70 %; time lost >= 8 %. Where
        the processes on the GPUs are not visible (a container), workers are recognised by DataLoader's names. There,
        several processes of one name at >= 90 % of a core beside a GPU < 30 % count with low confidence. Only while no
        job's time is explained.
    Blind spot: a starved worker that spins looks busy. In a container the rule may take another program for a worker.
    """
    limits, table = facts.limits, facts.snapshot.processes.value
    if not facts.window.samples or table is None or facts.job_time_is_explained:
        return ()
    busy = facts.gpu.busy_ratio
    with_gpu = facts.gpu.used > 0 and busy is not None
    mapped = with_gpu and facts.gpu.pids is not None
    # If the processes on the GPUs are unknown, loaders are recognised by their names only.
    candidates = facts.gpu_tasks.busy(limits.worker_busy * limits.leave_level) if mapped else facts.gpu_tasks.loaders()
    workers = [t for t in candidates if _prepares_data(facts, t) and _is_worker(facts, t, with_gpu)]
    guessed = _alike_groups(facts, table) if with_gpu and facts.gpu.pids is None else ()
    out = []
    for group in (*group_tasks(workers, table), *guessed):
        cpu = group.cpu_ratio or 0.0
        lost = 1 - busy if with_gpu and busy is not None else min(1.0, cpu)
        if lost < limits.gate:
            continue
        gpu_limit = limits.gpu_starved if group in guessed else limits.gpu_fair
        flags: Flags = below(facts.gpu.busy, gpu_limit) if with_gpu else (True,) * len(facts.window.samples)
        cap = WITHOUT_MAPPING if group in guessed else 1.0 if with_gpu else WITHOUT_GPU
        evidence = _evidence(facts, group, limits.worker_busy) + gpu_evidence(facts, gpu_limit)
        families = 2 + with_gpu if facts.cpu_busy_ratio is not None else 1 + with_gpu
        finding = Finding(
            "cpu_prep",
            Severity.WARNING,
            confidence(BASE, families, cap),
            group.name,
            _args(facts, group, lost),
            evidence,
            advice=worker_advice(facts, group.alike_count),
            lost_ratio=lost,
        )
        out.append(claim(facts, finding, flags, cpu / limits.worker_busy))
    return tuple(out)


def _alike_groups(facts: Facts, table: ProcessTable) -> tuple[Group, ...]:
    """Groups of two or more processes of one name that each keep a core busy, without the known DataLoader names."""
    busy = facts.limits.thread_busy * facts.limits.leave_level
    tasks = (t for t in facts.tasks if not t.is_loader and (t.cpu_ratio or 0.0) >= busy and _prepares_data(facts, t))
    return tuple(
        g for g in group_tasks(tasks, table) if g.alike_count > 1 and (g.cpu_ratio or 0.0) >= facts.limits.thread_busy
    )


def _is_worker(facts: Facts, task: TaskFacts, with_gpu: bool) -> bool:
    """Whether the process makes data for another process and does not itself train.

    with_gpu: whether a GPU is in use and its utilisation is known.
    """
    if with_gpu and facts.gpu.pids is not None:
        return task.key.pid not in facts.gpu.on_gpu
    if not task.is_loader:
        return False
    parent = next((t for t in facts.tasks if t.key.pid == task.ppid), None)
    # A parent without activity is not listed, so an unlisted parent waits.
    return with_gpu or parent is None or (parent.cpu_ratio or 0.0) < WAITING_CPU


def one_thread_loads(facts: Facts) -> tuple[Claim, ...]:
    """One thread prepares all data while the GPUs idle.

    Claim: single_thread: the training process loads its data itself, on one core.
    Evidence: a process on an idle GPU that uses about one core and has no busy or waiting child; where the processes on
        the GPUs are not visible, the only process that keeps a core busy.
    Threshold: CPU 90 to 130 % of a core; GPU < 30 %; no child above 10 % CPU or 35 % in D. Only while no finding
        explains the time of a job.
    Blind spot: other single-threaded work of the job (start-up, validation) looks the same. So does a thread that spins
        in cudaStreamSynchronize; for that reason the GPU must be idle.
    """
    limits, table = facts.limits, facts.snapshot.processes.value
    busy = facts.gpu.busy_ratio
    if table is None or not facts.gpu.used or busy is None or facts.job_time_is_explained:
        return ()
    mapped = facts.gpu.pids is not None
    one_core = [
        t
        for t in facts.gpu_task_facts
        if limits.thread_busy * limits.leave_level <= (t.cpu_ratio or 0.0) <= limits.thread_most
        and (t.cpu_ratio or 0.0) > t.blocked_ratio
        and not t.is_loader
        and (not mapped or t.key.pid in facts.gpu.on_gpu)
        and not any(c.ppid == t.key.pid and ((c.cpu_ratio or 0) > 0.1 or c.blocked_ratio > 0.35) for c in facts.tasks)
    ]
    if not mapped and len(one_core) != 1:
        return ()
    out = []
    for group in group_tasks(one_core, table):
        finding = Finding(
            "single_thread",
            Severity.WARNING,
            confidence(SINGLE_BASE, 3, 1.0 if mapped else WITHOUT_MAPPING),
            group.name,
            _args(facts, group, 1 - busy),
            _evidence(facts, group, limits.thread_busy) + gpu_evidence(facts, limits.gpu_starved),
            advice=worker_advice(facts, 0),
            lost_ratio=1 - busy,
        )
        flags = below(facts.gpu.busy, limits.gpu_starved)
        out.append(claim(facts, finding, flags, (group.cpu_ratio or 0.0) / limits.thread_busy))
    return tuple(out)
