"""Tests whether busy GPUs of a job only wait for each other, and whether an idle GPU receives data.

NVML reports a GPU as busy while it waits for another GPU, and as idle while it only receives data.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.gpu.state import GpuState

BUSY = 0.9
"""A GPU with at least this utilisation counts as busy."""
IDLE = 0.05
"""A GPU whose utilisation is below this is idle."""
SPIN_POWER = 0.25
"""The share of the power limit below which busy GPUs only wait for each other; a waiting H100 draws about 14 %."""
SPIN_POWER_SURE = 0.4
"""Used instead of SPIN_POWER for GPUs whose tensor cores are idle or that get no batches."""
TENSOR_NONE = 0.02
"""Tensor cores whose activity is below this share are idle."""
SM_IDLE = 0.5
"""SMs whose activity is below this share are mostly idle. Source: NVIDIA, DCGM documentation, profiling metrics."""
LINK_FULL = 0.8
"""A PCIe link counts as full if it carries at least this share of its rate."""
LINK_BYTES_PER_S = 50e9
"""The practical rate of a PCIe generation 5 link with 16 lanes; each earlier generation has half the rate of the next.
"""
GEN_5 = 5
LANES = 16


def link_bytes_per_s(generation: int | None, width: int | None, best: float = LINK_BYTES_PER_S) -> float | None:
    """The bytes per second that a PCIe link can carry one way; None if its generation or width is unknown.

    best: the rate of generation 5 with 16 lanes
    """
    return best * (1 << generation) / (1 << GEN_5) * width / LANES if generation and width else None


def all_spin(gpus: Sequence[GpuState | None]) -> bool:
    """Whether all GPUs of a job are busy but draw too little power to compute, and their SMs are mostly idle.

    False with fewer than two GPUs, and if the utilisation or power of one is unknown. SM activity is ignored if it is
    unknown.
    """
    known = [gpu for gpu in gpus if gpu is not None]
    if len(known) < 2 or len(known) < len(gpus):
        return False
    return all(_spins(gpu) for gpu in known)


def _spins(gpu: GpuState) -> bool:
    if gpu.power_mw is None or not gpu.power_limit_mw or (gpu.utilization_percent or 0) < BUSY * 100:
        return False
    if gpu.gpm_sm_percent is not None and gpu.gpm_sm_percent >= SM_IDLE * 100:
        return False
    quiet = gpu.gpm_tensor_percent is not None and gpu.gpm_tensor_percent < TENSOR_NONE * 100
    return gpu.power_mw / gpu.power_limit_mw < (SPIN_POWER_SURE if quiet else SPIN_POWER)


def receives_at_link_rate(gpu: GpuState, received_bytes_per_s: float | None) -> bool:
    """Whether a GPU receives data at nearly the full rate of its PCIe link; False if unknown."""
    limit = link_bytes_per_s(gpu.pcie_generation, gpu.pcie_width)
    return limit is not None and (received_bytes_per_s or 0.0) >= LINK_FULL * limit
