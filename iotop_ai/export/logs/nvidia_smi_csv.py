"""GPU figures under nvidia-smi's field names and in its formats, for programs that read its logs.

Source: ``nvidia-smi --help-query-gpu`` and the outputs of drivers 535 to 570.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from iotop_ai.model.errors import UsageError
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuState

UNKNOWN = "[N/A]"
MIB = 1 << 20
DEFAULT = "timestamp,utilization.gpu,memory.used,temperature.gpu,power.draw,pcie.link.width.current"
_REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
"""The bits of NVML's mask of reasons for a lower clock, by nvidia-smi's names."""
_COMPUTE = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}


class GpuLine(NamedTuple):
    """One GPU at one moment. state: None if the GPU does not answer. total: the number of GPUs."""

    wall_ns: int
    uuid: str
    state: GpuState | None
    detail: GpuDetail | None
    total: int


Value = int | float | str | None


class Field(NamedTuple):
    """A field of --query-gpu.

    unit: printed after each value and in the title; "" for none. digits: the number of decimals. unknown: printed
    instead of an unknown value.
    """

    name: str
    value: Callable[[GpuLine], Value]
    unit: str = ""
    digits: int = 0
    unknown: str = UNKNOWN

    @property
    def title(self) -> str:
        """The field's column title with its unit, such as "power.draw [W]"."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    def text(self, line: GpuLine, *, units: bool = True) -> str:
        """The value as nvidia-smi prints it."""
        value = self.value(line)
        if value is None or value == "":
            return self.unknown
        text = f"{value:.{self.digits}f}" if isinstance(value, float) else str(value)
        return f"{text} {self.unit}" if units and self.unit else text


def _state(name: str) -> Callable[[GpuLine], Value]:
    return lambda line: None if line.state is None else getattr(line.state, name)


def _detail(name: str) -> Callable[[GpuLine], Value]:
    return lambda line: None if line.detail is None else getattr(line.detail, name)


def _mib(name: str) -> Callable[[GpuLine], Value]:
    def value(line: GpuLine) -> Value:
        size = None if line.state is None else getattr(line.state, name)
        return None if size is None else int(size) // MIB

    return value


def _watts(value_of: Callable[[GpuLine], Value]) -> Callable[[GpuLine], Value]:
    def value(line: GpuLine) -> Value:
        milliwatts = value_of(line)
        return milliwatts / 1000 if isinstance(milliwatts, int) else None

    return value


def _word(value_of: Callable[[GpuLine], Value], yes: str, no: str) -> Callable[[GpuLine], Value]:
    def value(line: GpuLine) -> Value:
        flag = value_of(line)
        return None if flag is None else yes if flag else no

    return value


def _reason(bit: int) -> Callable[[GpuLine], Value]:
    def value(line: GpuLine) -> Value:
        mask = None if line.state is None else line.state.clock_reasons
        return None if mask is None else "Active" if mask & bit else "Not Active"

    return value


def _mask(line: GpuLine) -> Value:
    mask = None if line.state is None else line.state.clock_reasons
    return None if mask is None else f"0x{mask:016X}"


def _pstate(line: GpuLine) -> Value:
    number = None if line.state is None else line.state.performance_state
    return None if number is None else f"P{number}"


def _timestamp(line: GpuLine) -> Value:
    at = datetime.fromtimestamp(line.wall_ns // 1_000_000 / 1000)
    return f"{at:%Y/%m/%d %H:%M:%S}.{line.wall_ns // 1_000_000 % 1000:03d}"


def _compute_mode(line: GpuLine) -> Value:
    mode = None if line.detail is None else line.detail.compute_mode
    return None if mode is None else _COMPUTE.get(mode)


_ALL = (
    Field("timestamp", _timestamp),
    Field("driver_version", _detail("driver")),
    Field("count", lambda line: line.total),
    Field("name", _state("name")),
    Field("uuid", lambda line: line.uuid),
    Field("pci.bus_id", _state("bus_id")),
    Field("index", _state("number")),
    Field("vbios_version", _detail("vbios")),
    Field("persistence_mode", _word(_detail("persistence"), "Enabled", "Disabled")),
    Field("compute_mode", _compute_mode),
    Field("compute_cap", _detail("compute_capability")),
    Field("pstate", _pstate),
    Field("pcie.link.gen.current", _state("pcie_generation")),
    Field("pcie.link.gen.gpucurrent", _state("pcie_generation")),
    Field("pcie.link.gen.max", _state("pcie_max_generation")),
    Field("pcie.link.gen.gpumax", _detail("device_max_generation")),
    Field("pcie.link.width.current", _state("pcie_width")),
    Field("pcie.link.width.max", _state("pcie_max_width")),
    Field("fan.speed", _state("fan_percent"), "%"),
    Field("utilization.gpu", _state("utilization_percent"), "%"),
    Field("utilization.memory", _state("memory_activity_percent"), "%"),
    Field("memory.total", _mib("memory_total_bytes"), "MiB"),
    Field("memory.reserved", _mib("memory_reserved_bytes"), "MiB"),
    Field("memory.used", _mib("memory_used_bytes"), "MiB"),
    Field("memory.free", _mib("memory_free_bytes"), "MiB"),
    Field("temperature.gpu", _state("temperature_celsius")),
    Field("temperature.gpu.tlimit", _state("margin_celsius")),
    Field("temperature.memory", _state("memory_celsius"), unknown="N/A"),
    Field("power.draw", _watts(_state("power_mw")), "W", 2),
    Field("power.limit", _watts(_detail("limit_mw")), "W", 2),
    Field("enforced.power.limit", _watts(_state("power_limit_mw")), "W", 2),
    Field("power.default_limit", _watts(_detail("default_limit_mw")), "W", 2),
    Field("power.min_limit", _watts(_detail("least_limit_mw")), "W", 2),
    Field("power.max_limit", _watts(_detail("most_limit_mw")), "W", 2),
    Field("clocks.current.sm", _state("sm_mhz"), "MHz"),
    Field("clocks.current.memory", _state("memory_mhz"), "MHz"),
    Field("clocks.max.sm", _state("sm_max_mhz"), "MHz"),
    Field("clocks.max.memory", _state("memory_max_mhz"), "MHz"),
    Field("clocks_event_reasons.active", _mask),
    *(Field(f"clocks_event_reasons.{name}", _reason(bit)) for name, bit in _REASONS.items()),
    Field("ecc.mode.current", _word(_detail("ecc"), "Enabled", "Disabled")),
    Field("ecc.errors.corrected.volatile.total", _detail("ecc_corrected")),
    Field("ecc.errors.corrected.aggregate.total", _detail("ecc_corrected_total")),
    Field("ecc.errors.uncorrected.volatile.total", _detail("ecc_uncorrected")),
    Field("ecc.errors.uncorrected.aggregate.total", _detail("ecc_uncorrected_total")),
    Field("retired_pages.pending", _word(_detail("pages_pending"), "Yes", "No")),
    Field("mig.mode.current", _word(_state("mig"), "Enabled", "Disabled")),
)
FIELDS = {field.name: field for field in _ALL}
ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.max.mem": "clocks.max.memory",
    "retired_pages.pending_retirement": "retired_pages.pending",
}


def fields_of(query: str) -> list[Field]:
    """The fields of a query, in its order. Raises UsageError for an unknown field."""
    out = []
    for part in query.split(","):
        name = part.strip().lower()
        # Since driver 535, nvidia-smi accepts the old name (throttle) and prints the new name (event).
        name = ALIASES.get(name, name).replace("clocks_throttle_reasons.", "clocks_event_reasons.")
        if name not in FIELDS:
            raise UsageError(f"{part.strip()!r} is not a field; gpu-log --help-query lists all fields")
        out.append(FIELDS[name])
    return out


def csv_header(fields: Sequence[Field], *, units: bool = True) -> str:
    """The header line, without its newline."""
    return ", ".join(field.title if units else field.name for field in fields)


def csv_line(fields: Sequence[Field], line: GpuLine, *, units: bool = True) -> str:
    """The line of one GPU, without its newline."""
    return ", ".join(field.text(line, units=units) for field in fields)


def json_object(fields: Sequence[Field], line: GpuLine) -> dict[str, Value]:
    """The figures of one GPU in the units of the titles; an unknown figure is None."""
    return {field.title: value if (value := field.value(line)) != "" else None for field in fields}
