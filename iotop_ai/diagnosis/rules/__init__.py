"""The rules: one file for each kind of device, or for each kind of wait of a job."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.diagnosis.facts.gather import Claim, Facts
from iotop_ai.diagnosis.rules.block import disk_fails, gpu_idle_while_disk_saturated, processes_wait_for_disk
from iotop_ai.diagnosis.rules.block_hung import disk_does_not_answer
from iotop_ai.diagnosis.rules.gpu.collective import gpus_wait_for_each_other, one_gpu_is_late
from iotop_ai.diagnosis.rules.gpu.fault import gpu_breaks
from iotop_ai.diagnosis.rules.gpu.healthy import gpus_compute, gpus_fed
from iotop_ai.diagnosis.rules.gpu.link_and_memory import gpu_link_is_full_or_degraded, gpu_memory_is_full
from iotop_ai.diagnosis.rules.gpu.throttle import gpu_is_throttled
from iotop_ai.diagnosis.rules.gpu.unused import gpu_is_held, job_uses_no_gpu
from iotop_ai.diagnosis.rules.health import disk_gives_errors, slow_disk_gets_worse
from iotop_ai.diagnosis.rules.idle import nothing_runs
from iotop_ai.diagnosis.rules.job.cpu import job_loads_by_itself, job_prepares_too_slowly, job_streams_from_far
from iotop_ai.diagnosis.rules.job.exit import job_ended_badly
from iotop_ai.diagnosis.rules.job.neighbours import job_shares_its_cores, job_shares_its_device
from iotop_ai.diagnosis.rules.job.phase import job_is_fed, job_saves, job_starts
from iotop_ai.diagnosis.rules.job.serving import job_waits_for_requests
from iotop_ai.diagnosis.rules.job.storage import (
    job_asks_for_too_little,
    job_is_throttled,
    job_reads_from_network,
    job_reads_small,
    job_rereads_what_was_cached,
    job_waits_for_storage,
)
from iotop_ai.diagnosis.rules.job.time import job_compiles, job_does_not_move, main_thread_holds_up_gpu
from iotop_ai.diagnosis.rules.job.workers import job_restarts_its_workers
from iotop_ai.diagnosis.rules.machine_full import filesystem_is_full, memory_is_short, shared_memory_is_full
from iotop_ai.diagnosis.rules.process_cpu import one_thread_loads, workers_compute

Rule = Callable[[Facts], tuple[Claim, ...]]

RULES: tuple[Rule, ...] = (
    gpu_breaks,
    job_ended_badly,
    job_does_not_move,
    filesystem_is_full,
    shared_memory_is_full,
    memory_is_short,
    job_starts,
    job_compiles,
    job_waits_for_requests,
    job_uses_no_gpu,
    gpu_is_throttled,
    gpu_link_is_full_or_degraded,
    gpus_wait_for_each_other,
    job_saves,
    one_gpu_is_late,
    job_restarts_its_workers,
    job_reads_from_network,
    job_is_throttled,
    job_rereads_what_was_cached,
    job_shares_its_device,
    job_shares_its_cores,
    job_reads_small,
    job_asks_for_too_little,
    job_waits_for_storage,
    job_prepares_too_slowly,
    job_streams_from_far,
    job_loads_by_itself,
    main_thread_holds_up_gpu,
    processes_wait_for_disk,
    gpu_idle_while_disk_saturated,
    workers_compute,
    one_thread_loads,
    gpu_memory_is_full,
    gpus_compute,
    job_is_fed,
    gpus_fed,
    nothing_runs,
    gpu_is_held,
    disk_does_not_answer,
    disk_fails,
    slow_disk_gets_worse,
    disk_gives_errors,
)
