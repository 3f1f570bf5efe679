"""One NVML call at a time: timed, its refusal sorted, and not asked again where it can never answer.

Source: nvml.h (https://docs.nvidia.com/deploy/nvml-api/). An NVMLError is never compared or put into a set: it has
``__eq__`` without ``__hash__``, and comparing it with None raises. Only its ``value`` is looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.clock import Clock
from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.reading import Status
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.typed import Any

UNINITIALIZED, INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 1, 2, 3, 4, 6
DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 9, 10, 12, 13
GPU_IS_LOST, RESET_REQUIRED, MISMATCH, WRONG_VERSION, DEPRECATED = 15, 16, 18, 25, 26
NEVER = frozenset((INVALID, NOT_SUPPORTED, FUNCTION_NOT_FOUND, WRONG_VERSION, DEPRECATED))
RESET = "nvidia-smi --gpu-reset, or reboot; dmesg | grep Xid says why"
SLOW_US = 10_000.0
"""A call that takes longer than this 1 time in 20 is asked every fifth sweep only."""
_KEPT_COSTS = 128
_JUDGED, _LEAST = 20, 5


class GpuGone(Unavailable):
    """This one GPU cannot be read; the others can."""


class CallCost(NamedTuple):
    """What one NVML call has cost, over its last 128 uses: microseconds."""

    calls: int
    median_us: float
    p95_us: float


class Door:
    """The calls. ``api`` is the pynvml module while the library is open, else None. Used by one thread."""

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
        """Ask everything again: of one GPU, or of all."""
        self._never = {key for key in self._never if uuid and key[0] != uuid}
        self._constant = {key: value for key, value in self._constant.items() if uuid and key[0] != uuid}

    def costs(self) -> dict[str, CallCost]:
        """What each call has cost so far, by NVML's name for it."""
        # Copies of a dict and of a deque of ints are made in one piece, so the calling thread needs no lock.
        kept = {name: sorted(durations) for name, durations in list(self._costs.items())}
        return {name: CallCost(len(ns), ns[len(ns) // 2] / 1e3, _p95(ns) / 1e3) for name, ns in kept.items()}

    def slow(self, label: str) -> bool:
        """Whether the call's last 20 uses have a p95 above 10 ms; judged at its fifth use and then every 20."""
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
        """The call, its duration noted under the label. Raises what it raises."""
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
        """One call about one GPU; None when it is not supported, not permitted or went wrong this once.

        handle: of a part of the GPU instead of the whole. bare: without any handle. Raises GpuGone for this GPU,
        Unavailable for the whole driver.
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
                raise gone(error) from None
            if error.value in (UNINITIALIZED, DRIVER_NOT_LOADED, MISMATCH):
                raise unavailable(error) from None
            if error.value in NEVER:
                self._never.add((uuid, label))
            return None

    def never(self, uuid: str, label: str) -> bool:
        """Whether this GPU or driver can never answer this."""
        return (uuid, label) in self._never

    def give_up(self, uuid: str, label: str) -> None:
        """Do not ask this again."""
        self._never.add((uuid, label))

    def once(self, uuid: str, function: str, *args: Any, label: str = "") -> Any:
        """Like ``get`` for what does not change; asked until it was answered once."""
        key = (uuid, label or function)
        if self._constant.get(key) is None:
            self._constant[key] = self.get(uuid, function, *args, label=label)
        return self._constant[key]

    def newer(self, uuid: str, new: str, old: str, *args: Any) -> Any:
        """The newer of two names of one question, and the older where the driver or GPU has only that."""
        found = self.get(uuid, new, *args)
        # Only a lack for good leads to the old name: a single failure must not switch meanings to and fro.
        return self.get(uuid, old, *args) if found is None and (uuid, new) in self._never else found

    def memory(self, uuid: str, handle: Any = None) -> Any:
        """Version 2 keeps what the driver reserves apart; version 1 counts it as used."""
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


def text_of(value: str | bytes | None) -> str:
    """NVML's strings, harmless; bytes from older bindings."""
    if value is None:
        return ""
    return clean_bytes(value) if isinstance(value, bytes) else clean(value)


def gone(error: Any, number: int | None = None) -> GpuGone:
    """Why one GPU cannot be read, and what mends it."""
    if error.value == GPU_IS_LOST:
        return GpuGone(Status.FAILED, "the GPU is lost: it has fallen off the bus", RESET)
    if error.value == RESET_REQUIRED:
        return GpuGone(Status.FAILED, "the GPU must be reset before it works again", RESET)
    if error.value == NO_PERMISSION:
        return GpuGone(Status.DENIED, "the GPU may not be read by this user", "run as root, or ask for /dev/nvidia*")
    return GpuGone(Status.FAILED, clean(f"GPU {number}: {error}"))


def unavailable(error: Any) -> Unavailable:
    """Why the driver gives no answer at all, and what mends it."""
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
