"""The order of jobs: by the number of their GPUs, then by their current CPU use and I/O, then by age."""

from __future__ import annotations

import math

BYTES_OF_A_CORE = 100e6
"""The I/O rate, in bytes per second, that counts as much as one fully used core."""
_LEAST_WORK = 0.05
"""The work, in cores, up to which the level is 0."""


def work_level(cores: float | None, bytes_per_s: float | None) -> int:
    """A job's CPU use and I/O on a logarithmic scale: 0 up to a twentieth of a core, 1 below twice that, and so on.

    Whole levels keep the order of two jobs stable if they work about equally.
    """
    work = (cores or 0.0) + (bytes_per_s or 0.0) / BYTES_OF_A_CORE
    return 0 if work <= _LEAST_WORK else 1 + int(math.log2(work / _LEAST_WORK))


def job_order(gpus: int, level: int, start_ticks: int) -> tuple[int, int, int]:
    """A sort key that puts the most important job first; of two equal jobs, the older one."""
    return -gpus, -level, start_ticks
