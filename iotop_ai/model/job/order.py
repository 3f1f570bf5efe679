"""The order of jobs: by the GPUs that they hold, then by what they compute and move now, then by age."""

from __future__ import annotations

import math

BYTES_OF_A_CORE = 100e6
"""Bytes per second that weigh as much as a busy core."""
_LEAST = 0.05


def work_level(cores: float | None, bytes_per_s: float | None) -> int:
    """How much a job works, in doublings above a twentieth of a core; 0 below.

    In steps, so that two jobs that work about equally keep their order.
    """
    work = (cores or 0.0) + (bytes_per_s or 0.0) / BYTES_OF_A_CORE
    return 0 if work <= _LEAST else 1 + int(math.log2(work / _LEAST))


def job_order(gpus: int, level: int, start_ticks: int) -> tuple[int, int, int]:
    """A sort key, the most important job first; of equal ones the older."""
    return -gpus, -level, start_ticks
