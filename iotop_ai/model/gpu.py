"""GPUs as NVML shows them. Source: nvml.h; https://docs.nvidia.com/deploy/nvml-api/."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from iotop_ai.model.counter import delta, per_second
from iotop_ai.model.metric import Metric
from iotop_ai.model.reading import Reading


class GpuProcess(NamedTuple):
    """A process on a GPU as NVML names it (host pid). memory_bytes None: NVML does not say. kind: compute, graphics."""

    pid: int
    memory_bytes: int | None
    kind: str


class GpuState(NamedTuple):
    """One GPU at one moment. number: NVML's index. None: this GPU or driver does not say (NOT_SUPPORTED and kin).

    Percent as NVML gives it (integers 0..100); power in mW, energy in mJ since the driver was loaded.
    clock_reasons: bit mask of nvmlClocksEventReasons*.
    """

    uuid: str
    number: int
    name: str
    utilization_percent: int | None = None
    memory_activity_percent: int | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    temperature_celsius: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    energy_mj: int | None = None
    sm_mhz: int | None = None
    sm_max_mhz: int | None = None
    memory_mhz: int | None = None
    fan_percent: int | None = None
    performance_state: int | None = None
    clock_reasons: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    bus_id: str = ""
    mig: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None


GpuTable = Mapping[str, Reading[GpuState]]
"""UUID to the GPU's own Reading; a lost GPU keeps its key with status failed and a remedy."""


class GpuRates(NamedTuple):
    """One GPU in one interval: levels as ratios in base units, power as the mean from the energy counter."""

    busy_ratio: Annotated[float | None, Metric("ratio", "Share of time with at least one kernel running.", "GPU-Util")]
    memory_busy_ratio: Annotated[float | None, Metric("ratio", "Share of time its memory was read or written.")]
    memory_used_bytes: Annotated[float | None, Metric("B", "Memory in use, reserved left out where the driver tells.")]
    memory_total_bytes: Annotated[float | None, Metric("B", "Memory of the device.")]
    temperature_celsius: Annotated[float | None, Metric("celsius", "Core temperature.")]
    power_watts: Annotated[float | None, Metric("W", "Mean power, from the energy counter where there is one.")]
    power_limit_watts: Annotated[float | None, Metric("W", "Enforced power limit.")]
    sm_mhz: Annotated[float | None, Metric("MHz", "SM clock.")]


def gpu_rates(before: GpuTable | None, after: GpuTable, seconds: float | None) -> dict[str, GpuRates]:
    """Levels and rates of every GPU that answered; a GPU that did not is absent."""
    out = {}
    for uuid, reading in after.items():
        now = reading.value
        if now is None:
            continue
        old_reading = None if before is None else before.get(uuid)
        old = None if old_reading is None else old_reading.value
        own_s = seconds
        if old_reading is not None and old_reading.at_ns is not None and reading.at_ns is not None:
            own_s = (reading.at_ns - old_reading.at_ns) / 1e9
        mean_mw = per_second(delta(old.energy_mj, now.energy_mj), own_s) if old else None
        power_mw = now.power_mw if mean_mw is None else mean_mw
        out[uuid] = GpuRates(
            _scaled(now.utilization_percent, 100),
            _scaled(now.memory_activity_percent, 100),
            _scaled(now.memory_used_bytes, 1),
            _scaled(now.memory_total_bytes, 1),
            _scaled(now.temperature_celsius, 1),
            _scaled(power_mw, 1000),
            _scaled(now.power_limit_mw, 1000),
            _scaled(now.sm_mhz, 1),
        )
    return out


def _scaled(value: float | None, by: int) -> float | None:
    return None if value is None else value / by
