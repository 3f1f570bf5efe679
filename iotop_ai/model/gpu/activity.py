"""Tests whether busy GPUs of a job only wait for each other, and whether an idle GPU receives data.

NVML counts a GPU as busy while it waits for another one, and as idle while it only receives data.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.gpu.state import GpuState

BUSY = 0.9
"""From this utilisation on a GPU is never idle."""
SPIN_POWER = 0.25
"""Part of the power limit below which GPUs that are never idle only spin; an H100 draws about 14 % then."""
SPIN_POWER_SURE = 0.4
"""The same limit where the tensor cores are idle or no batch arrives."""
TENSOR_NONE = 0.02
"""Tensor cores below this activity are idle."""
SM_IDLE = 0.5
"""Below this SM activity a GPU is used ineffectively. Source: NVIDIA, DCGM documentation, profiling metrics."""
LINK_FULL = 0.8
"""Share of a PCIe link's rate at which the link counts as full."""
LINK_BYTES_PER_S = 50e9
"""Practical rate of PCIe generation 5 x16; each earlier generation has half the rate of the next one."""
GEN_5 = 5
LANES = 16


def link_bytes_per_s(generation: int | None, width: int | None, best: float = LINK_BYTES_PER_S) -> float | None:
    """Bytes per second that a PCIe link carries one way; None when unknown. best: generation 5 with 16 lanes."""
    return best * (1 << generation) / (1 << GEN_5) * width / LANES if generation and width else None


def all_spin(gpus: Sequence[GpuState | None]) -> bool:
    """Whether all GPUs of a job are never idle and draw too little to compute; False with one GPU or when unknown."""
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
    """Whether a GPU receives data at nearly the full rate of its PCIe link; False when unknown."""
    most = link_bytes_per_s(gpu.pcie_generation, gpu.pcie_width)
    return most is not None and (received_bytes_per_s or 0.0) >= LINK_FULL * most
