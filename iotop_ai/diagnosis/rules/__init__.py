"""The rules, one file a family. The order is that of precedence: what stands first names the state."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.diagnosis.facts import Claim, Facts
from iotop_ai.diagnosis.rules.cpu import one_thread_loads, workers_compute
from iotop_ai.diagnosis.rules.gpu import gpus_compute, gpus_fed
from iotop_ai.diagnosis.rules.health import slow_disk_gets_worse
from iotop_ai.diagnosis.rules.idle import nothing_runs
from iotop_ai.diagnosis.rules.storage import disk_fails, gpu_idle_while_disk_saturated, processes_wait_for_disk

Rule = Callable[[Facts], tuple[Claim, ...]]

RULES: tuple[Rule, ...] = (
    processes_wait_for_disk,
    gpu_idle_while_disk_saturated,
    workers_compute,
    one_thread_loads,
    gpus_compute,
    gpus_fed,
    nothing_runs,
    disk_fails,
    slow_disk_gets_worse,
)

PRECEDENCE = ("storage_read", "cpu_prep", "single_thread", "gpu_bound", "healthy", "idle", "failing_disk", "unknown")
"""Which class names the state when several hold. A failing disk does so only when nothing but unknown is left."""
