"""The rule for a machine on which nothing runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import itemgetter

from iotop_ai.diagnosis.facts.gather import Claim, Facts
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.window import Flags, share
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.model.block.counters import BlockInfo, block_totals, is_leaf
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.gpu.state import GpuRates
from iotop_ai.model.job.serving import may_rest
from iotop_ai.model.sample import Sample
from iotop_ai.model.signal_coverage import signal_groups

BASE = 0.95
WITHOUT_GPU = 0.8
"""The confidence with a GPU, and without one."""
ACTIVE_NS = 3_000_000_000
"""Activity without a pause for this long ends idleness."""
_AT = itemgetter(Sample._fields.index("at_ns"))


def nothing_runs(facts: Facts) -> tuple[Claim, ...]:
    """Nothing uses GPU, CPU or disks.

    Claim: idle: no training job is at work.
    Evidence: GPUs, if there are any; CPU of all cores and of each process; disks; waits.
    Threshold: GPU < 5 % and its link < 100 MB/s, CPU < 5 %, no process at half a core or more, disks < 1 MB/s and < 5 %
        busy, no process in state D; for 30 s, or since the monitor started. In addition, no job with GPUs or workers
        waits for data, starts, or has unexplained time, for >= 8 % of 10 s. For notebooks, servers and programs that
        wait at a terminal, only a wait for data counts, and only if it is at least as long as the unexplained time.
    Blind spot: a job that sleeps (in a barrier without spinning, stopped) looks the same if it has no GPU and no
        workers.
    """
    snapshot, limits = facts.snapshot, facts.limits
    if not (facts.gpu.absent or facts.gpu.visible) or snapshot.processes.value is None or snapshot.disks.value is None:
        return ()
    if any(_is_at_work(job, limits) for job in facts.jobs):
        return ()
    window = facts.window_over(limits.idle_window_s, ("block", "processes", "cpu"))
    inputs = (snapshot.disks.value, snapshot.own.pid, limits, facts.gpu.absent)
    flags: Flags = facts.cache.idle_samples.each(window.samples, inputs, lambda sample: _is_idle(sample, *inputs))
    is_hidden = "not root" in signal_groups(snapshot)[1]
    finding = Finding(
        "idle",
        Severity.INFO,
        WITHOUT_GPU if facts.gpu.absent else BASE,
        "",
        (
            ("gpus_all", float(facts.gpu.total)),
            ("cpu", facts.cpu_busy_ratio),
            ("job", facts.jobs[0].job.name if facts.jobs else ""),
        ),
        (Evidence("cpu.all.busy_ratio", facts.cpu_busy_ratio, "ratio", limits.idle_cpu),),
        advice=() if facts.jobs else (Advice("run_as_root" if is_hidden else "start_job"),),
    )
    newest = flags[bisect_right(window.samples, snapshot.at_ns - ACTIVE_NS, key=_AT) :]
    # The share of idle samples alone would keep the finding for most of the window after activity begins.
    level = 1.0 if not newest or any(newest) else 0.0
    return (Claim(finding, share(flags), len(flags), window.needed, level),)


def _is_at_work(job: JobFacts, limits: Thresholds) -> bool:
    """Whether a job has GPUs or workers, and waits for data, starts, or has unexplained time that is not a rest.

    A job that waits for a person or a client may rest.
    """
    if not (job.gpus or job.workers):
        return False
    wait, unexplained = job.stall or 0.0, 0.0 if job.time is None else job.time.unexplained
    startup = 0.0 if job.time is None else job.time.startup
    if may_rest(job.job, job.place):
        # If it is unknown whether the job listens for clients, it may be starting.
        starts = job.place.listening is None and not (job.job.notebook or job.place.waits_for_input)
        return wait >= max(limits.gate, unexplained) or (starts and startup >= limits.gate)
    return max(wait, unexplained, startup) >= limits.gate


def _gpu_works(rates: GpuRates, limits: Thresholds) -> bool:
    if rates.busy_ratio is None or rates.busy_ratio >= limits.idle_gpu:
        return True
    return max(rates.pcie_rx_bytes_per_s or 0.0, rates.pcie_tx_bytes_per_s or 0.0) >= limits.idle_link_bytes_per_s


def _is_idle(sample: Sample, infos: Mapping[str, BlockInfo], own_pid: int, limits: Thresholds, no_gpu: bool) -> bool:
    block, cpu = sample.block.value, sample.cpu.value
    processes, free = sample.processes.value, None if cpu is None else cpu.all.free_ratio
    if block is None or cpu is None or processes is None or free is None:
        return False
    if not no_gpu:
        gpus = sample.gpu.value
        if gpus is None or any(_gpu_works(rates, limits) for rates in gpus.values()):
            return False
    own = (sample.own.cpu_ratio or 0.0) / max(1, len(cpu.cores))
    # Time stolen by the hypervisor counts as used, because this machine had work for it.
    if 1.0 - free - own >= limits.idle_cpu:
        return False
    if any(key.pid != own_pid and (r.cpu_ratio or 0.0) >= limits.idle_thread for key, r in processes.rates.items()):
        return False
    if any(is_leaf(info) for info in infos.values()):
        totals = block_totals(block, infos.values())
        if totals.read_bytes_per_s is None or totals.write_bytes_per_s is None:
            return False
        if totals.read_bytes_per_s + totals.write_bytes_per_s >= limits.idle_bytes_per_s:
            return False
    if any((r.busy_ratio or 0.0) >= limits.idle_disk_busy for r in block.values()):
        return False
    return not any(key.pid != own_pid for key in sample.waits)
