"""Reads the figures of one GPU that are needed in every sweep (reading of all GPUs), with a list of queries.

A slow query runs less often.

Source: nvml.h (https://docs.nvidia.com/deploy/nvml-api/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iotop_ai.collectors.gpu.nvml.calls import PERMANENT_ERRORS, NvmlCalls, member_of, number_of
from iotop_ai.collectors.gpu.nvml.gpm import GpmReader
from iotop_ai.collectors.gpu.nvml.processes import GpuProcessReader
from iotop_ai.collectors.gpu.nvml.sample_times import SampleTimes
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.gpu.state import GpuEarlier, GpuState

SLOW_EVERY_SWEEPS = 5
"""A slow call is made once in this number of sweeps."""
GAP_PERCENT = 10
"""A sample with a utilisation below this percentage counts as a gap."""
_SM, _MEMORY = 1, 2
"""Values of nvmlClockType_t."""
_CORE_SENSOR = 0
"""The value of nvmlTemperatureSensors_t for the GPU's core."""
_UTILIZATION_SAMPLES = 1
"""The value of nvmlSamplingType_t for samples of the utilisation."""
_TX, _RX = 0, 1
"""Values of nvmlPcieUtilCounter_t."""
_UINT = 1
"""The value of nvmlValueType_t for 32 bits."""
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
"""The NVML_FI_DEV_* number by field of GpuState. The scope of the two NVLink fields makes NVML sum all links."""
ENGINES = {"decoder_percent": "Decoder", "encoder_percent": "Encoder", "jpeg_percent": "Jpg", "ofa_percent": "Ofa"}
"""The word in nvmlDeviceGet*Utilization by field of GpuState."""
_UNKNOWN_IF_32_BIT = ("pcie_tx_bytes", "pcie_rx_bytes")
"""Byte counters that are unknown if they have only 32 bits.

Such a counter wraps several times a second under load, so its growth has no meaning.
"""

Figures = Mapping[str, Any]


class Query(NamedTuple):
    """A query for the figures of one call.

    label: the call whose cost decides how often the query runs. rare: whether the query always counts as slow. read_at:
    the name of the field for the time of the call, which is needed for counters; "" if no figure is a counter.
    """

    label: str
    run: Callable[[str], Figures]
    rare: bool = False
    read_at: str = ""


class Answer(NamedTuple):
    """The newest figures and the previous ones, with their times."""

    figures: Figures
    at_ns: int
    before: Figures
    before_at_ns: int | None


class StateReader:
    """Runs the queries. It keeps their answers and the sample counts between sweeps. Only one thread may use it."""

    def __init__(self, calls: NvmlCalls) -> None:
        self._calls = calls
        self._answers: dict[tuple[str, int], Answer] = {}
        self._fields: dict[str, list[str]] = {}
        """The names in FIELDS that are not known to be unsupported, by UUID."""
        self._samples: dict[str, tuple[int, int]] = {}
        """(samples, gaps among them) by UUID."""
        self._sample_times: dict[str, SampleTimes] = {}
        self._sweeps: dict[str, int] = {}
        self.gpm = GpmReader(calls)
        self._processes = GpuProcessReader(calls)
        get = calls.get

        def value_query(field: str, function: str, read_at: str = "") -> Query:
            return Query(function, lambda uuid: {field: get(uuid, function)}, read_at=read_at)

        self._queries = (
            Query("nvmlDeviceGetUtilizationRates", self._utilization),
            Query("nvmlDeviceGetMemoryInfo_v2", self._memory),
            Query(
                "nvmlDeviceGetTemperatureV",
                lambda uuid: {
                    "temperature_celsius": calls.get_newer(
                        uuid, "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", _CORE_SENSOR
                    )
                },
            ),
            value_query("margin_celsius", "nvmlDeviceGetMarginTemperature"),
            value_query("power_mw", "nvmlDeviceGetPowerUsage"),
            value_query("power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit"),
            value_query("energy_mj", "nvmlDeviceGetTotalEnergyConsumption", "energy_at_ns"),
            Query("nvmlDeviceGetClockInfo.sm", lambda uuid: {"sm_mhz": self._mhz(uuid, _SM, "sm")}),
            Query("nvmlDeviceGetClockInfo.memory", lambda uuid: {"memory_mhz": self._mhz(uuid, _MEMORY, "memory")}),
            value_query("fan_percent", "nvmlDeviceGetFanSpeed"),
            value_query("performance_state", "nvmlDeviceGetPerformanceState"),
            Query(
                "nvmlDeviceGetCurrentClocksEventReasons",
                lambda uuid: {
                    "clock_reasons": calls.get_newer(
                        uuid, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
                    )
                },
            ),
            value_query("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
            value_query("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
            value_query("pcie_replays", "nvmlDeviceGetPcieReplayCounter", "replays_at_ns"),
            *(self._engine(field, f"nvmlDeviceGet{word}Utilization") for field, word in ENGINES.items()),
            Query("nvmlDeviceGetSamples", self._gaps),
            Query("nvmlDeviceGetFieldValues", self._field_values, read_at="fields_at_ns"),
            Query("nvmlGpmSampleGet", self.gpm.figures),
            Query("nvmlDeviceGetComputeRunningProcesses_v3", self._running),
            Query("nvmlDeviceGetMigDeviceHandleByIndex", self._instances),
            Query("nvmlDeviceGetPcieThroughput", self._throughput, rare=True),
        )

    def read(self, uuid: str, base: GpuState) -> GpuState:
        """Read one GPU. base: the state with the GPU's constants. Raises GpuUnavailable and Unavailable."""
        sweep = self._sweeps.get(uuid, 0)
        self._sweeps[uuid] = sweep + 1
        figures: dict[str, Any] = {}
        earlier: list[GpuEarlier] = []
        for i, query in enumerate(self._queries):
            infrequent = query.rare or self._calls.slow(query.label)
            answer = self._answers.get((uuid, i))
            if not infrequent or answer is None or sweep % SLOW_EVERY_SWEEPS == 0:
                if query.rare and not self._needs_throughput(figures):
                    self._answers.pop((uuid, i), None)
                    continue
                figures_now = query.run(uuid)
                now_ns = self._calls.clock.monotonic_ns()
                before, before_ns = ({}, None) if answer is None else (answer.figures, answer.at_ns)
                answer = self._answers[uuid, i] = Answer(figures_now, now_ns, before, before_ns)
            figures.update(answer.figures)
            if query.read_at and any(value is not None for value in answer.figures.values()):
                figures[query.read_at] = answer.at_ns
            if infrequent:
                earlier += _earlier(answer)
        return base._replace(**figures, earlier=tuple(earlier))

    def forget(self, uuid: str) -> None:
        """Forget the answers of one GPU and its unsupported fields.

        Call this after a change of the MIG mode, because a slow query's old answer would stay for up to five sweeps.
        """
        self._answers = {key: answer for key, answer in self._answers.items() if key[0] != uuid}
        self._fields.pop(uuid, None)

    def close(self) -> None:
        """Free the objects of the library. The sample counts are kept."""
        self._answers.clear()
        self._fields.clear()
        self.gpm.close()

    def _utilization(self, uuid: str) -> Figures:
        rates = self._calls.get(uuid, "nvmlDeviceGetUtilizationRates")
        if rates is None:
            return {"utilization_percent": None, "memory_activity_percent": None}
        return {"utilization_percent": _percent(rates.gpu), "memory_activity_percent": _percent(rates.memory)}

    def _memory(self, uuid: str) -> Figures:
        memory = self._calls.memory(uuid)
        return {
            "memory_total_bytes": None if memory is None else memory.total,
            "memory_used_bytes": None if memory is None else memory.used,
            "memory_free_bytes": None if memory is None else memory.free,
            "memory_reserved_bytes": getattr(memory, "reserved", None),
        }

    def _engine(self, field: str, function: str) -> Query:
        def run(uuid: str) -> Figures:
            answer = self._calls.get(uuid, function)
            return {field: None if answer is None else _percent(answer[0])}

        return Query(function, run)

    def _mhz(self, uuid: str, kind: int, word: str) -> Any:
        return self._calls.get(uuid, "nvmlDeviceGetClockInfo", kind, label=f"nvmlDeviceGetClockInfo.{word}")

    def _gaps(self, uuid: str) -> Figures:
        """Count the driver's own samples (about 6 a second), and the gaps among them, from our first call on."""
        count, gaps = self._samples.get(uuid, (0, 0))
        if uuid not in self._sample_times:
            self._sample_times[uuid] = SampleTimes(self._calls.clock)
        times = self._sample_times[uuid]
        answer = self._calls.get(uuid, "nvmlDeviceGetSamples", _UTILIZATION_SAMPLES, times.ask())
        if answer is not None:
            kind, samples = answer
            member = member_of(kind)
            for sample in samples:
                if times.is_new(sample.timeStamp) and uuid in self._samples:
                    count += 1
                    gaps += getattr(sample.sampleValue, member) < GAP_PERCENT
            self._samples[uuid] = count, gaps
        elif self._calls.is_unsupported(uuid, "nvmlDeviceGetSamples"):
            return {"busy_samples": None, "gap_samples": None}
        return {"busy_samples": count, "gap_samples": gaps}

    def _field_values(self, uuid: str) -> Figures:
        names = self._fields.setdefault(uuid, list(FIELDS))
        if not names:
            return {}
        ids = [(FIELDS[n], _ALL_LINKS) if n.startswith("nvlink") else FIELDS[n] for n in names]
        values = self._calls.get(uuid, "nvmlDeviceGetFieldValues", ids)
        if values is None:
            return dict.fromkeys(FIELDS)
        out: dict[str, Any] = dict.fromkeys(FIELDS)
        for name, value in zip(list(names), values, strict=True):
            if value.nvmlReturn == 0:
                out[name] = self._value(name, value)
            elif value.nvmlReturn in PERMANENT_ERRORS:  # this field is not supported, so do not ask for it again
                names.remove(name)
        return out

    def _value(self, name: str, value: Any) -> int | None:
        if value.valueType == _UINT and name in _UNKNOWN_IF_32_BIT:
            return None
        number = number_of(value)
        # Some boards without this sensor report 0 and not NOT_SUPPORTED.
        return None if name == "memory_celsius" and number <= 0 else number

    def _running(self, uuid: str) -> Figures:
        return {"processes": self._processes.read(uuid)}

    def _instances(self, uuid: str) -> Figures:
        return {"instances": self.gpm.instances(uuid)}

    def _throughput(self, uuid: str) -> Figures:
        get = self._calls.get
        return {
            "pcie_tx_kib_per_s": get(uuid, "nvmlDeviceGetPcieThroughput", _TX),
            "pcie_rx_kib_per_s": get(uuid, "nvmlDeviceGetPcieThroughput", _RX),
        }

    @staticmethod
    def _needs_throughput(figures: Figures) -> bool:
        """Whether the PCIe rate is still unknown after the faster calls. The call for the rate takes 20 ms."""
        return figures.get("pcie_tx_bytes") is None and figures.get("gpm_pcie_tx_mib_per_s") is None


def _earlier(answer: Answer) -> list[GpuEarlier]:
    """Return when each known figure was read, with the figure read before it."""
    out = []
    for field, value in answer.figures.items():
        if value is None:
            continue
        before = answer.before.get(field)
        number = before if type(before) is int and type(value) is int else None
        out.append(GpuEarlier(field, answer.at_ns, answer.before_at_ns, number))
    return out


def _percent(value: int) -> int | None:
    return value if 0 <= value <= 100 else None
