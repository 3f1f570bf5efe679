"""The only door to pynvml: what each GPU says, call by call, with every refusal sorted.

Source: nvml.h (https://docs.nvidia.com/deploy/nvml-api/). An NVMLError is never compared or put into a set: it has
``__eq__`` without ``__hash__``, and comparing it with None raises. Only its ``value`` is looked at.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.clock import Clock
from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.gpu import GpuProcess, GpuState
from iotop_ai.model.reading import Status

LIBRARY = "libnvidia-ml.so.1"
PID_LIMIT = 4_194_304
"""PID_MAX_LIMIT of 64-bit Linux; NVML's process records have changed size without a new name, and then show others."""

_UNINITIALIZED, _INVALID, _NOT_SUPPORTED, _NO_PERMISSION = 1, 2, 3, 4
_DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND, _FUNCTION_NOT_FOUND = 9, 12, 13
_GPU_IS_LOST, _RESET_REQUIRED, _MISMATCH, _WRONG_VERSION, _DEPRECATED = 15, 16, 18, 25, 26
_NEVER = frozenset((_INVALID, _NOT_SUPPORTED, _FUNCTION_NOT_FOUND, _WRONG_VERSION, _DEPRECATED))
_KEPT_COSTS = 128
_SM, _MEMORY, _CORE_SENSOR = 1, 2, 0


class GpuGone(Unavailable):
    """This one GPU cannot be read; the others can."""


class CallCost(NamedTuple):
    """What one NVML call has cost, over its last 128 uses: microseconds."""

    calls: int
    median_us: float
    p95_us: float


class Nvml:
    """NVML opened once, read by UUID. Used by one thread; ``costs`` from any.

    What a GPU has once answered with NOT_SUPPORTED, or a driver has no function for, is not asked again until the
    library is opened anew or the GPU's MIG mode changes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._api: Any = None
        self._handles: dict[str, Any] = {}
        self._numbers: dict[int, str] = {}
        self._never: set[tuple[str, str]] = set()
        self._constant: dict[tuple[str, str], Any] = {}
        self._mig: dict[str, bool | None] = {}
        self._costs: dict[str, deque[int]] = {}
        self._costs_lock = threading.Lock()

    def open(self) -> None:
        """Load the library and greet the driver. Raises Unavailable."""
        try:
            # Asked before pynvml is imported: a machine without a driver then never pays for the bindings.
            ctypes.CDLL(LIBRARY)
        except OSError as error:
            if "No such file" in str(error):
                raise Unavailable(Status.ABSENT, "no NVIDIA driver") from error
            raise Unavailable(Status.FAILED, clean(f"NVIDIA driver: {error}")) from error
        import pynvml

        self._api = pynvml
        try:
            self._timed("nvmlInit", pynvml.nvmlInit)
        except pynvml.NVMLError as error:
            self._api = None
            raise _unavailable(error) from None

    def close(self) -> None:
        """Say goodbye to the driver; safe to call twice. The GPUs' numbers are remembered for one that got lost."""
        api, self._api = self._api, None
        self._handles.clear()
        self._never.clear()
        self._constant.clear()
        if api is not None:
            # A driver that went away has nothing to shut down; the next open says what is wrong.
            with contextlib.suppress(api.NVMLError):
                api.nvmlShutdown()

    def gpus(self) -> dict[str, GpuGone | None]:
        """UUID of every GPU that the driver lists, and why one of them cannot be read; {}: it lists none.

        Raises Unavailable when the driver does not even list.
        """
        api = self._api
        found: dict[str, GpuGone | None] = {}
        try:
            count = self._timed("nvmlDeviceGetCount", api.nvmlDeviceGetCount)
        except api.NVMLError as error:
            raise _unavailable(error) from None
        for number in range(count):
            try:
                handle = self._timed("nvmlDeviceGetHandleByIndex", api.nvmlDeviceGetHandleByIndex, number)
                uuid = _text(self._timed("nvmlDeviceGetUUID", api.nvmlDeviceGetUUID, handle))
            except api.NVMLError as error:
                # One that does not say its name any more is known by its number.
                found.setdefault(self._numbers.get(number, f"gpu {number}"), _gone(error, number))
                continue
            self._handles[uuid], found[uuid] = handle, None
            self._numbers = {n: u for n, u in self._numbers.items() if u != uuid} | {number: uuid}
        return found

    def state(self, uuid: str) -> GpuState:
        """One GPU now; about 20 calls. Raises GpuGone for this GPU, Unavailable for the whole driver."""
        number = next((n for n, known in self._numbers.items() if known == uuid), 0)
        if uuid not in self._handles:
            raise GpuGone(Status.FAILED, "the driver no longer lists this GPU", _RESET)
        mig = self._get(uuid, "nvmlDeviceGetMigMode")
        self._note_mig(uuid, None if mig is None else bool(mig[0]))
        rates = self._get(uuid, "nvmlDeviceGetUtilizationRates")
        memory = self._memory(uuid)
        bus = self._once(uuid, "nvmlDeviceGetPciInfo")
        return GpuState(
            uuid=uuid,
            number=number,
            name=_text(self._once(uuid, "nvmlDeviceGetName") or ""),
            utilization_percent=None if rates is None else _percent(rates.gpu),
            memory_activity_percent=None if rates is None else _percent(rates.memory),
            memory_total_bytes=None if memory is None else memory.total,
            memory_used_bytes=None if memory is None else memory.used,
            memory_reserved_bytes=getattr(memory, "reserved", None),
            temperature_celsius=self._newer(
                uuid, "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", _CORE_SENSOR
            ),
            power_mw=self._get(uuid, "nvmlDeviceGetPowerUsage"),
            power_limit_mw=self._get(uuid, "nvmlDeviceGetEnforcedPowerLimit"),
            energy_mj=self._get(uuid, "nvmlDeviceGetTotalEnergyConsumption"),
            sm_mhz=self._get(uuid, "nvmlDeviceGetClockInfo", _SM, label="nvmlDeviceGetClockInfo.sm"),
            sm_max_mhz=self._once(uuid, "nvmlDeviceGetMaxClockInfo", _SM),
            memory_mhz=self._get(uuid, "nvmlDeviceGetClockInfo", _MEMORY, label="nvmlDeviceGetClockInfo.memory"),
            fan_percent=self._get(uuid, "nvmlDeviceGetFanSpeed"),
            performance_state=self._get(uuid, "nvmlDeviceGetPerformanceState"),
            clock_reasons=self._newer(
                uuid, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
            ),
            pcie_generation=self._get(uuid, "nvmlDeviceGetCurrPcieLinkGeneration"),
            pcie_width=self._get(uuid, "nvmlDeviceGetCurrPcieLinkWidth"),
            pcie_max_generation=self._once(uuid, "nvmlDeviceGetMaxPcieLinkGeneration"),
            pcie_max_width=self._once(uuid, "nvmlDeviceGetMaxPcieLinkWidth"),
            bus_id="" if bus is None else _text(bus.busId),
            mig=self._mig.get(uuid),
            processes=self._processes(uuid),
        )

    def costs(self) -> dict[str, CallCost]:
        """What each call has cost so far, by NVML's name for it."""
        with self._costs_lock:
            kept = {name: sorted(durations) for name, durations in self._costs.items()}
        return {
            name: CallCost(len(ns), ns[len(ns) // 2] / 1e3, ns[min(len(ns) - 1, int(len(ns) * 0.95))] / 1e3)
            for name, ns in kept.items()
        }

    def _timed(self, label: str, call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        start_ns = self._clock.monotonic_ns()
        try:
            return call(*args, **keywords)
        finally:
            took_ns = self._clock.monotonic_ns() - start_ns
            with self._costs_lock:
                self._costs.setdefault(label, deque(maxlen=_KEPT_COSTS)).append(took_ns)

    def _get(self, uuid: str, function: str, *args: Any, label: str = "", **keywords: Any) -> Any:
        """One call about one GPU; None when it is not supported, not permitted or went wrong this once."""
        label = label or function
        if (uuid, label) in self._never:
            return None
        call = getattr(self._api, function, None)
        if call is None:
            self._never.add((uuid, label))
            return None
        try:
            return self._timed(label, call, self._handles[uuid], *args, **keywords)
        except self._api.NVMLError as error:
            if error.value in (_GPU_IS_LOST, _RESET_REQUIRED):
                raise _gone(error) from None
            if error.value in (_UNINITIALIZED, _DRIVER_NOT_LOADED, _MISMATCH):
                raise _unavailable(error) from None
            if error.value in _NEVER:
                self._never.add((uuid, label))
            return None

    def _once(self, uuid: str, function: str, *args: Any) -> Any:
        """Like ``_get`` for what does not change; asked until it was answered once."""
        key = (uuid, function)
        if self._constant.get(key) is None:
            self._constant[key] = self._get(uuid, function, *args)
        return self._constant[key]

    def _newer(self, uuid: str, new: str, old: str, *args: Any) -> Any:
        """The newer of two names of one question, and the older where the driver or GPU has only that."""
        found = self._get(uuid, new, *args)
        # Only a lack for good leads to the old name: a single failure must not switch meanings to and fro.
        return self._get(uuid, old, *args) if found is None and (uuid, new) in self._never else found

    def _memory(self, uuid: str) -> Any:
        """Version 2 keeps what the driver reserves apart; version 1 counts it as used."""
        label = "nvmlDeviceGetMemoryInfo_v2"
        version = getattr(self._api, "nvmlMemory_v2", None)
        found = self._get(uuid, "nvmlDeviceGetMemoryInfo", label=label, version=version) if version else None
        if found is None and (version is None or (uuid, label) in self._never):
            return self._get(uuid, "nvmlDeviceGetMemoryInfo")
        return found

    def _note_mig(self, uuid: str, mig: bool | None) -> None:
        if uuid in self._mig and self._mig[uuid] != mig:
            self._never = {key for key in self._never if key[0] != uuid}
        self._mig[uuid] = mig

    def _processes(self, uuid: str) -> tuple[GpuProcess, ...] | None:
        """Compute first; one that also draws is listed once. None when neither list is told or one is garbled."""
        found: dict[int, GpuProcess] = {}
        told = False
        for kind, function in (("compute", "Compute"), ("graphics", "Graphics")):
            name = f"nvmlDeviceGet{function}RunningProcesses"
            listed = self._newer(uuid, f"{name}_v3", f"{name}_v2")
            if listed is None:
                continue
            told = True
            for one in listed:
                if not 0 < one.pid <= PID_LIMIT:
                    return None
                found.setdefault(one.pid, GpuProcess(one.pid, one.usedGpuMemory, kind))
        return tuple(found.values()) if told else None


_RESET = "nvidia-smi --gpu-reset, or reboot; dmesg | grep Xid says why"


def _text(value: str | bytes) -> str:
    return clean_bytes(value) if isinstance(value, bytes) else clean(value)


def _percent(value: int) -> int | None:
    return value if 0 <= value <= 100 else None


def _gone(error: Any, number: int | None = None) -> GpuGone:
    if error.value == _GPU_IS_LOST:
        return GpuGone(Status.FAILED, "the GPU is lost: it has fallen off the bus", _RESET)
    if error.value == _RESET_REQUIRED:
        return GpuGone(Status.FAILED, "the GPU must be reset before it works again", _RESET)
    if error.value == _NO_PERMISSION:
        return GpuGone(Status.DENIED, "the GPU may not be read by this user", "run as root, or ask for /dev/nvidia*")
    return GpuGone(Status.FAILED, clean(f"GPU {number}: {error}"))


def _unavailable(error: Any) -> Unavailable:
    if error.value == _LIBRARY_NOT_FOUND:
        return Unavailable(Status.ABSENT, "no NVIDIA driver")
    if error.value == _DRIVER_NOT_LOADED:
        return Unavailable(Status.ABSENT, "no NVIDIA driver: its kernel module is not loaded", "modprobe nvidia")
    if error.value == _MISMATCH:
        return Unavailable(
            Status.FAILED,
            "the NVIDIA library and kernel module have different versions",
            "reboot, or reload the nvidia modules: the driver was upgraded",
        )
    if error.value == _NO_PERMISSION:
        return Unavailable(Status.DENIED, "NVML may not be used by this user", "run as root, or ask for /dev/nvidia*")
    return Unavailable(Status.FAILED, clean(f"NVML: {error}"))
