"""The fast figures of one GPU: a list of questions, of which the slow ones have a slower rhythm.

Source: nvml.h (https://docs.nvidia.com/deploy/nvml-api/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iotop_ai.collectors.nvml_door import Door
from iotop_ai.collectors.nvml_gpm import Gpm
from iotop_ai.collectors.nvml_processes import Processes
from iotop_ai.model.gpu import GpuEarlier, GpuState
from iotop_ai.model.record import NamedTuple

SLOW_EVERY = 5
"""A slow call is asked in every fifth sweep."""
GAP_PERCENT = 10
_SM, _MEMORY, _CORE_SENSOR = 1, 2, 0
_UTILIZATION_SAMPLES = 1
_TX, _RX = 0, 1
_DOUBLE, _UINT, _ULONG, _ULONGLONG, _SIGNED_LL, _SIGNED, _USHORT = range(7)
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_ALL_LINKS = 0xFFFFFFFF

FIELDS = {
    "memory_celsius": 82,
    "power_cap_ns": 74,
    "sync_boost_ns": 76,
    "sw_thermal_ns": 269,
    "hw_thermal_ns": 270,
    "power_brake_ns": 271,
    "pcie_tx_bytes": 197,
    "pcie_rx_bytes": 198,
    "nvlink_tx_kib": 138,
    "nvlink_rx_kib": 139,
}
"""Our name to NVML_FI_DEV_*; the two of NVLink summed over all links by their scope."""
_NARROW_IS_UNKNOWN = ("pcie_tx_bytes", "pcie_rx_bytes")
"""A byte counter of 32 bits wraps several times a second under load, so its growth means nothing."""

Figures = Mapping[str, Any]


class Question(NamedTuple):
    """Some figures that one call gives. label: the call whose cost decides its rhythm. rare: slow by its nature."""

    label: str
    ask: Callable[[str], Figures]
    rare: bool = False


class Held(NamedTuple):
    """The newest answer and the one before it, with their times."""

    figures: Figures
    at_ns: int
    before: Figures
    before_at_ns: int | None


class StateReader:
    """Asks the questions and keeps what must outlast a sweep: slow answers, sample counts. Used by one thread."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._held: dict[tuple[str, int], Held] = {}
        self._fields: dict[str, list[str]] = {}
        self._samples: dict[str, tuple[int, int, int]] = {}
        self._sweeps: dict[str, int] = {}
        self.gpm = Gpm(door)
        self._processes = Processes(door)
        get = door.get

        def one(field: str, function: str) -> Question:
            return Question(function, lambda uuid: {field: get(uuid, function)})

        self._questions = (
            Question("nvmlDeviceGetUtilizationRates", self._busy),
            Question("nvmlDeviceGetMemoryInfo_v2", self._memory),
            Question(
                "nvmlDeviceGetTemperatureV",
                lambda uuid: {
                    "temperature_celsius": door.newer(
                        uuid, "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", _CORE_SENSOR
                    )
                },
            ),
            one("margin_celsius", "nvmlDeviceGetMarginTemperature"),
            one("power_mw", "nvmlDeviceGetPowerUsage"),
            one("power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit"),
            one("energy_mj", "nvmlDeviceGetTotalEnergyConsumption"),
            Question("nvmlDeviceGetClockInfo.sm", lambda uuid: {"sm_mhz": self._clock(uuid, _SM, "sm")}),
            Question(
                "nvmlDeviceGetClockInfo.memory", lambda uuid: {"memory_mhz": self._clock(uuid, _MEMORY, "memory")}
            ),
            one("fan_percent", "nvmlDeviceGetFanSpeed"),
            one("performance_state", "nvmlDeviceGetPerformanceState"),
            Question(
                "nvmlDeviceGetCurrentClocksEventReasons",
                lambda uuid: {
                    "clock_reasons": door.newer(
                        uuid, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
                    )
                },
            ),
            one("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
            one("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
            one("pcie_replays", "nvmlDeviceGetPcieReplayCounter"),
            Question("nvmlDeviceGetSamples", self._gaps),
            Question("nvmlDeviceGetFieldValues", self._field_values),
            Question("nvmlGpmSampleGet", self.gpm.figures),
            Question("nvmlDeviceGetComputeRunningProcesses_v3", self._running),
            Question("nvmlDeviceGetMigDeviceHandleByIndex", self._instances),
            Question("nvmlDeviceGetPcieThroughput", self._throughput, rare=True),
        )

    def read(self, uuid: str, base: GpuState) -> GpuState:
        """The GPU now, on top of what never changes. Raises GpuGone, Unavailable."""
        sweep = self._sweeps.get(uuid, 0)
        self._sweeps[uuid] = sweep + 1
        figures: dict[str, Any] = {}
        earlier: list[GpuEarlier] = []
        for i, question in enumerate(self._questions):
            own_rhythm = question.rare or self._door.slow(question.label)
            held = self._held.get((uuid, i))
            if not own_rhythm or held is None or sweep % SLOW_EVERY == 0:
                if question.rare and not self._needed(figures):
                    continue
                asked = question.ask(uuid)
                now_ns = self._door.clock.monotonic_ns()
                before, before_ns = ({}, None) if held is None else (held.figures, held.at_ns)
                held = self._held[uuid, i] = Held(asked, now_ns, before, before_ns)
            figures.update(held.figures)
            if own_rhythm:
                earlier += _earlier(held)
        return base._replace(**figures, earlier=tuple(earlier))

    def close(self) -> None:
        """Give back what was allocated in the library; what was counted stays."""
        self._held.clear()
        self._fields.clear()
        self.gpm.close()

    def _busy(self, uuid: str) -> Figures:
        rates = self._door.get(uuid, "nvmlDeviceGetUtilizationRates")
        if rates is None:
            return {"utilization_percent": None, "memory_activity_percent": None}
        return {"utilization_percent": _percent(rates.gpu), "memory_activity_percent": _percent(rates.memory)}

    def _memory(self, uuid: str) -> Figures:
        memory = self._door.memory(uuid)
        return {
            "memory_total_bytes": None if memory is None else memory.total,
            "memory_used_bytes": None if memory is None else memory.used,
            "memory_free_bytes": None if memory is None else memory.free,
            "memory_reserved_bytes": getattr(memory, "reserved", None),
        }

    def _clock(self, uuid: str, which: int, word: str) -> Any:
        return self._door.get(uuid, "nvmlDeviceGetClockInfo", which, label=f"nvmlDeviceGetClockInfo.{word}")

    def _gaps(self, uuid: str) -> Figures:
        """Counts the driver's own samples (about 6 a second), each once; those of before we watched are left out."""
        taken, gaps, newest = self._samples.get(uuid, (0, 0, 0))
        found = self._door.get(uuid, "nvmlDeviceGetSamples", _UTILIZATION_SAMPLES, newest)
        if found is not None:
            kind, samples = found
            member = _member(kind)
            for sample in samples:
                if sample.timeStamp <= newest:
                    continue
                if uuid in self._samples:
                    taken += 1
                    gaps += getattr(sample.sampleValue, member) < GAP_PERCENT
            newest = max([newest, *(sample.timeStamp for sample in samples)])
            self._samples[uuid] = taken, gaps, newest
        elif self._door.never(uuid, "nvmlDeviceGetSamples"):
            return {"busy_samples": None, "gap_samples": None}
        return {"busy_samples": taken, "gap_samples": gaps}

    def _field_values(self, uuid: str) -> Figures:
        names = self._fields.setdefault(uuid, list(FIELDS))
        if not names:
            return {}
        asked = [(FIELDS[n], _ALL_LINKS) if n.startswith("nvlink") else FIELDS[n] for n in names]
        values = self._door.get(uuid, "nvmlDeviceGetFieldValues", asked)
        if values is None:
            return dict.fromkeys(FIELDS)
        out: dict[str, Any] = dict.fromkeys(FIELDS)
        for name, value in zip(list(names), values, strict=True):
            if value.nvmlReturn == 0:
                out[name] = self._value(name, value)
            elif value.nvmlReturn in (2, 3, 13, 25, 26):  # it never answers this one: not asked again
                names.remove(name)
        return out

    def _value(self, name: str, value: Any) -> int | None:
        if value.valueType == _UINT and name in _NARROW_IS_UNKNOWN:
            return None
        number = int(getattr(value.value, _member(value.valueType)))
        # Boards without the sensor have been seen to say 0 instead of NOT_SUPPORTED.
        return None if name == "memory_celsius" and number <= 0 else number

    def _running(self, uuid: str) -> Figures:
        return {"processes": self._processes.of(uuid)}

    def _instances(self, uuid: str) -> Figures:
        return {"instances": self.gpm.instances(uuid)}

    def _throughput(self, uuid: str) -> Figures:
        get = self._door.get
        return {
            "pcie_tx_kib_per_s": get(uuid, "nvmlDeviceGetPcieThroughput", _TX),
            "pcie_rx_kib_per_s": get(uuid, "nvmlDeviceGetPcieThroughput", _RX),
        }

    @staticmethod
    def _needed(figures: Figures) -> bool:
        """Whether nothing that does not wait 20 ms tells the PCIe rate."""
        return figures.get("pcie_tx_bytes") is None and figures.get("gpm_pcie_tx_mib_per_s") is None


def _earlier(held: Held) -> list[GpuEarlier]:
    out = []
    for field, value in held.figures.items():
        if value is None:
            continue
        before = held.before.get(field)
        number = before if type(before) is int and type(value) is int else None
        out.append(GpuEarlier(field, held.at_ns, held.before_at_ns, number))
    return out


def _member(kind: int) -> str:
    return _MEMBERS[kind] if 0 <= kind < len(_MEMBERS) else "uiVal"


def _percent(value: int) -> int | None:
    return value if 0 <= value <= 100 else None
