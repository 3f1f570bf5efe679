"""Makes NVML calls: measures their time, classifies their errors, and does not repeat calls that can never succeed.

Source: nvml.h (https://docs.nvidia.com/deploy/nvml-api/). Only ``NVMLError.value`` may be compared, because the error
has ``__eq__`` without ``__hash__``, and comparing it with None raises an exception.
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
"""Values of nvmlReturn_t (these three lines)."""
PERMANENT_ERRORS = frozenset((INVALID, NOT_SUPPORTED, FUNCTION_NOT_FOUND, WRONG_VERSION, DEPRECATED))
"""The errors after which the same call can never succeed."""
RESET_REMEDY = "nvidia-smi --gpu-reset, or reboot; dmesg | grep Xid says why"
"""The remedy for a GPU that does not work until it is reset."""
SLOW_US = 10_000.0
"""A call whose 95th percentile exceeds this duration, in microseconds, is slow.

It is made only in every fifth sweep (reading of all GPUs).
"""
_KEPT_COSTS = 128
_RECENT_USES, _FIRST_CHECK = 20, 5
"""The number of uses that decide whether a call is slow, and the number of uses before the first decision."""


class GpuUnavailable(Unavailable):
    """Raised when one GPU cannot be read although the driver works."""


class CallCost(NamedTuple):
    """The durations of one NVML call over its last 128 uses, in microseconds."""

    calls: int
    median_us: float
    p95_us: float


class NvmlCalls:
    """Makes the calls, from one thread only. api: the module pynvml; None while the library is closed."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.api: Any = None
        self.handles: dict[str, Any] = {}
        self._unsupported: set[tuple[str, str]] = set()
        self._constants: dict[tuple[str, str], Any] = {}
        self._costs: dict[str, deque[int]] = {}
        self._uses: dict[str, int] = {}
        self._check_at: dict[str, int] = {}
        self._slow: set[str] = set()

    def forget(self, uuid: str = "") -> None:
        """Forget the unsupported calls and the constants of one GPU, or of all GPUs."""
        self._unsupported = {key for key in self._unsupported if uuid and key[0] != uuid}
        self._constants = {key: value for key, value in self._constants.items() if uuid and key[0] != uuid}

    def costs(self) -> dict[str, CallCost]:
        """Return the cost of each call so far, by the name of the NVML function."""
        # A copy of a dict or of a deque of ints is atomic, so a lock is not needed.
        kept = {name: sorted(durations) for name, durations in list(self._costs.items())}
        return {name: CallCost(len(ns), ns[len(ns) // 2] / 1e3, _p95(ns) / 1e3) for name, ns in kept.items()}

    def slow(self, label: str) -> bool:
        """Whether the 95th percentile of a call's last 20 durations exceeds 10 ms.

        This is checked at the fifth use and then after every 20 uses.
        """
        uses = self._uses.get(label, 0)
        if uses >= self._check_at.get(label, _FIRST_CHECK):
            self._check_at[label] = uses + _RECENT_USES
            recent = sorted(list(self._costs[label])[-_RECENT_USES:])
            if _p95(recent) / 1e3 > SLOW_US:
                self._slow.add(label)
            else:
                self._slow.discard(label)
        return label in self._slow

    def timed(self, label: str, call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Make a call and record its duration under the label. Raises the exceptions of the call."""
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
        without_handle: bool = False,
        removable: bool = False,
        **keywords: Any,
    ) -> Any:
        """Make one call for one GPU; return None if it is not supported, not permitted, or failed this time.

        label: the name under which the cost of the call, and whether it is unsupported, are stored; "" to use the name
        of the function. handle: the handle of a MIG instance, if the call is not for the whole GPU. without_handle:
        whether the function takes no handle. removable: whether the call concerns a MIG instance without taking its
        handle. An instance may be removed at any time, so INVALID does not show that such a call is unsupported. Raises
        GpuUnavailable when this GPU cannot be read, and Unavailable when the driver does not work at all.
        """
        label = label or function
        key = (uuid, _key(label, handle))
        if key in self._unsupported:
            return None
        call = getattr(self.api, function, None)
        if call is None:
            self._unsupported.add(key)
            return None
        handle_args = () if without_handle else (self.handles[uuid] if handle is None else handle,)
        try:
            return self.timed(label, call, *handle_args, *args, **keywords)
        except self.api.NVMLError as error:
            if error.value in (GPU_IS_LOST, RESET_REQUIRED):
                raise gpu_unavailable(error) from None
            if error.value in (UNINITIALIZED, DRIVER_NOT_LOADED, MISMATCH):
                raise driver_unavailable(error) from None
            # INVALID may only mean that the instance was just removed; the call may succeed for the next instance.
            if error.value in PERMANENT_ERRORS and (error.value != INVALID or (handle is None and not removable)):
                self._unsupported.add(key)
            return None

    def is_unsupported(self, uuid: str, label: str) -> bool:
        """Whether the call is known to be unsupported by this GPU or driver."""
        return (uuid, label) in self._unsupported

    def mark_unsupported(self, uuid: str, label: str) -> None:
        """Do not make this call again until ``forget``."""
        self._unsupported.add((uuid, label))

    def get_constant(self, uuid: str, function: str, *args: Any, label: str = "") -> Any:
        """Return a value that never changes: the first answer of ``get``.

        While there is no answer, each call of this method makes one attempt.
        """
        key = (uuid, label or function)
        if self._constants.get(key) is None:
            self._constants[key] = self.get(uuid, function, *args, label=label)
        return self._constants[key]

    def get_newer(self, uuid: str, new: str, old: str, *args: Any) -> Any:
        """Call the newer of two functions, or the older one if the driver or GPU supports only that."""
        answer = self.get(uuid, new, *args)
        # After a single failure, do not use the old function: its result may have another meaning.
        return self.get(uuid, old, *args) if answer is None and (uuid, new) in self._unsupported else answer

    def memory(self, uuid: str, handle: Any = None) -> Any:
        """Return the memory from version 2 of the call, or from version 1 if only that is supported.

        Version 2 reports reserved memory separately; version 1 counts it as used.
        """
        label = "nvmlDeviceGetMemoryInfo_v2"
        version = getattr(self.api, "nvmlMemory_v2", None)
        answer = None
        if version:
            answer = self.get(uuid, "nvmlDeviceGetMemoryInfo", label=label, handle=handle, version=version)
        if answer is None and (version is None or (uuid, _key(label, handle)) in self._unsupported):
            return self.get(uuid, "nvmlDeviceGetMemoryInfo", handle=handle)
        return answer


def _key(label: str, handle: Any) -> str:
    """Return the key of an unsupported call. A whole GPU may support a call that its MIG instances do not support."""
    return label if handle is None else f"instance.{label}"


def _p95(ascending: list[int]) -> int:
    return ascending[min(len(ascending) - 1, int(len(ascending) * 0.95))]


_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def member_of(kind: int) -> str:
    """Return the member of NVML's value union for an nvmlValueType; "uiVal" for an unknown type."""
    return _MEMBERS[kind] if 0 <= kind < len(_MEMBERS) else "uiVal"


def number_of(value: Any) -> int:
    """Return the number in an nvmlFieldValue."""
    return int(getattr(value.value, member_of(value.valueType)))


def text_of(value: str | bytes | None) -> str:
    """Return a string without control characters; "" for None. Older versions of pynvml give bytes."""
    if value is None:
        return ""
    return clean_bytes(value) if isinstance(value, bytes) else clean(value)


def gpu_unavailable(error: Any, number: int | None = None) -> GpuUnavailable:
    """Return the exception that says why one GPU cannot be read, and the remedy.

    number: the GPU's number, which the reason for an unexpected error contains.
    """
    if error.value == GPU_IS_LOST:
        return GpuUnavailable(Status.FAILED, "the GPU is lost: it has fallen off the bus", RESET_REMEDY)
    if error.value == RESET_REQUIRED:
        return GpuUnavailable(Status.FAILED, "the GPU must be reset before it works again", RESET_REMEDY)
    if error.value == NO_PERMISSION:
        return GpuUnavailable(
            Status.DENIED, "this user is not allowed to read the GPU", "run as root, or get access to /dev/nvidia*"
        )
    return GpuUnavailable(Status.FAILED, clean(f"GPU {number}: {error}"))


def driver_unavailable(error: Any) -> Unavailable:
    """Return the exception that says why the driver does not answer at all, and the remedy."""
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
        return Unavailable(
            Status.DENIED, "this user is not allowed to use NVML", "run as root, or get access to /dev/nvidia*"
        )
    return Unavailable(Status.FAILED, clean(f"NVML: {error}"))
