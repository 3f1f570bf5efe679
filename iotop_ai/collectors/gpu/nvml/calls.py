"""NVML calls: timed, their errors classified, and not repeated where they can never succeed.

Source: nvml.h (https://docs.nvidia.com/deploy/nvml-api/). Only ``NVMLError.value`` may be compared: the error
has ``__eq__`` without ``__hash__``, and comparing it with None raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.reading import Status

UNINITIALIZED, INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 1, 2, 3, 4, 6
DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 9, 10, 12, 13
GPU_IS_LOST, RESET_REQUIRED, MISMATCH, WRONG_VERSION, DEPRECATED = 15, 16, 18, 25, 26
NEVER = frozenset((INVALID, NOT_SUPPORTED, FUNCTION_NOT_FOUND, WRONG_VERSION, DEPRECATED))
RESET = "nvidia-smi --gpu-reset, or reboot; dmesg | grep Xid says why"
SLOW_US = 10_000.0
"""A call whose p95 exceeds this runs only in every fifth sweep."""
_KEPT_COSTS = 128
_JUDGED, _LEAST = 20, 5


class GpuUnavailable(Unavailable):
    """One GPU cannot be read; the others can."""


class CallCost(NamedTuple):
    """Durations of one NVML call over its last 128 uses, in microseconds."""

    calls: int
    median_us: float
    p95_us: float


class NvmlCalls:
    """Makes the calls. api: the pynvml module while the library is open, else None. Used by one thread."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.api: Any = None
        self.handles: dict[str, Any] = {}
        self._never: set[tuple[str, str]] = set()
        self._constant: dict[tuple[str, str], Any] = {}
        self._costs: dict[str, deque[int]] = {}
        self._uses: dict[str, int] = {}
        self._judge_at: dict[str, int] = {}
        self._slow: set[str] = set()

    def forget(self, uuid: str = "") -> None:
        """Forget unsupported calls and constants of one GPU, or of all."""
        self._never = {key for key in self._never if uuid and key[0] != uuid}
        self._constant = {key: value for key, value in self._constant.items() if uuid and key[0] != uuid}

    def costs(self) -> dict[str, CallCost]:
        """Cost of each call so far, by NVML's name."""
        # Copying a dict or a deque of ints is atomic, so no lock is needed.
        kept = {name: sorted(durations) for name, durations in list(self._costs.items())}
        return {name: CallCost(len(ns), ns[len(ns) // 2] / 1e3, _p95(ns) / 1e3) for name, ns in kept.items()}

    def slow(self, label: str) -> bool:
        """Whether the p95 of the last 20 uses exceeds 10 ms; checked at the fifth use and then at every twentieth."""
        uses = self._uses.get(label, 0)
        if uses >= self._judge_at.get(label, _LEAST):
            self._judge_at[label] = uses + _JUDGED
            recent = sorted(list(self._costs[label])[-_JUDGED:])
            if _p95(recent) / 1e3 > SLOW_US:
                self._slow.add(label)
            else:
                self._slow.discard(label)
        return label in self._slow

    def timed(self, label: str, call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Make a call and record its duration under the label. Raises what the call raises."""
        start_ns = self.clock.monotonic_ns()
        try:
            return call(*args, **keywords)
        finally:
            took_ns = self.clock.monotonic_ns() - start_ns
            kept = self._costs.get(label)
            if kept is None:
                kept = self._costs[label] = deque(maxlen=_KEPT_COSTS)
            kept.append(took_ns)
            self._uses[label] = self._uses.get(label, 0) + 1

    def get(
        self,
        uuid: str,
        function: str,
        *args: Any,
        label: str = "",
        handle: Any = None,
        bare: bool = False,
        **keywords: Any,
    ) -> Any:
        """One call for one GPU; None when it is not supported, not permitted or failed this time.

        handle: that of a part of the GPU instead of the whole. bare: pass no handle. Raises GpuUnavailable for this
        GPU, Unavailable for the whole driver.
        """
        label = label or function
        if (uuid, label) in self._never:
            return None
        call = getattr(self.api, function, None)
        if call is None:
            self._never.add((uuid, label))
            return None
        first = () if bare else (self.handles[uuid] if handle is None else handle,)
        try:
            return self.timed(label, call, *first, *args, **keywords)
        except self.api.NVMLError as error:
            if error.value in (GPU_IS_LOST, RESET_REQUIRED):
                raise gpu_unavailable(error) from None
            if error.value in (UNINITIALIZED, DRIVER_NOT_LOADED, MISMATCH):
                raise driver_unavailable(error) from None
            if error.value in NEVER:
                self._never.add((uuid, label))
            return None

    def never(self, uuid: str, label: str) -> bool:
        """Whether this GPU or driver does not support the call."""
        return (uuid, label) in self._never

    def give_up(self, uuid: str, label: str) -> None:
        """Do not make this call again."""
        self._never.add((uuid, label))

    def once(self, uuid: str, function: str, *args: Any, label: str = "") -> Any:
        """Like ``get`` for a constant: calls until the first answer."""
        key = (uuid, label or function)
        if self._constant.get(key) is None:
            self._constant[key] = self.get(uuid, function, *args, label=label)
        return self._constant[key]

    def newer(self, uuid: str, new: str, old: str, *args: Any) -> Any:
        """The newer of two functions, or the older where the driver or GPU supports only that."""
        found = self.get(uuid, new, *args)
        # A single failure must not switch to the old function, whose meaning may differ.
        return self.get(uuid, old, *args) if found is None and (uuid, new) in self._never else found

    def memory(self, uuid: str, handle: Any = None) -> Any:
        """Memory by version 2 of the call, which reports reserved memory separately; version 1 counts it as used."""
        label = "nvmlDeviceGetMemoryInfo_v2"
        version = getattr(self.api, "nvmlMemory_v2", None)
        found = None
        if version:
            found = self.get(uuid, "nvmlDeviceGetMemoryInfo", label=label, handle=handle, version=version)
        if found is None and (version is None or (uuid, label) in self._never):
            return self.get(uuid, "nvmlDeviceGetMemoryInfo", handle=handle)
        return found


def _p95(rising: list[int]) -> int:
    return rising[min(len(rising) - 1, int(len(rising) * 0.95))]


_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def member_of(kind: int) -> str:
    """The member of NVML's value union that an nvmlValueType names."""
    return _MEMBERS[kind] if 0 <= kind < len(_MEMBERS) else "uiVal"


def number_of(value: Any) -> int:
    """The number of an nvmlFieldValue."""
    return int(getattr(value.value, member_of(value.valueType)))


def text_of(value: str | bytes | None) -> str:
    """A clean string; older bindings give bytes."""
    if value is None:
        return ""
    return clean_bytes(value) if isinstance(value, bytes) else clean(value)


def gpu_unavailable(error: Any, number: int | None = None) -> GpuUnavailable:
    """Why one GPU cannot be read, and the remedy."""
    if error.value == GPU_IS_LOST:
        return GpuUnavailable(Status.FAILED, "the GPU is lost: it has fallen off the bus", RESET)
    if error.value == RESET_REQUIRED:
        return GpuUnavailable(Status.FAILED, "the GPU must be reset before it works again", RESET)
    if error.value == NO_PERMISSION:
        return GpuUnavailable(
            Status.DENIED, "the GPU may not be read by this user", "run as root, or ask for /dev/nvidia*"
        )
    return GpuUnavailable(Status.FAILED, clean(f"GPU {number}: {error}"))


def driver_unavailable(error: Any) -> Unavailable:
    """Why the driver does not answer at all, and the remedy."""
    if error.value == LIBRARY_NOT_FOUND:
        return Unavailable(Status.ABSENT, "no NVIDIA driver")
    if error.value == DRIVER_NOT_LOADED:
        return Unavailable(Status.ABSENT, "no NVIDIA driver: its kernel module is not loaded", "modprobe nvidia")
    if error.value == MISMATCH:
        return Unavailable(
            Status.FAILED,
            "the NVIDIA library and kernel module have different versions",
            "reboot, or reload the nvidia modules: the driver was upgraded",
        )
    if error.value == NO_PERMISSION:
        return Unavailable(Status.DENIED, "NVML may not be used by this user", "run as root, or ask for /dev/nvidia*")
    return Unavailable(Status.FAILED, clean(f"NVML: {error}"))
