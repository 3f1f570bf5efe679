"""The only module that imports pynvml: opens one session and identifies GPUs by UUID.

Source: nvml.h (https://docs.nvidia.com/deploy/nvml-api/).
"""

from __future__ import annotations

import contextlib

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.gpu.nvml.calls import (
    RESET_REMEDY,
    CallCost,
    GpuUnavailable,
    NvmlCalls,
    driver_unavailable,
    gpu_unavailable,
    text_of,
)
from iotop_ai.collectors.gpu.nvml.detail import read_detail
from iotop_ai.collectors.gpu.nvml.state import StateReader
from iotop_ai.collectors.gpu.nvml.xid_events import XidWatch
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.clean import clean
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.reading import Status

__all__ = ["CallCost", "GpuUnavailable", "Nvml"]

LIBRARY = "libnvidia-ml.so.1"
_SM, _MEMORY = 1, 2
"""Values of nvmlClockType_t."""


class Nvml:
    """An NVML session. Only one thread may use it, but any thread may call ``costs``.

    A call that turned out to be unsupported is not made again until the library is reopened or the GPU's MIG mode
    changes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls = NvmlCalls(clock)
        self._uuid_by_number: dict[int, str] = {}
        self._mig: dict[str, bool | None] = {}
        self._reader = StateReader(self._calls)

    def open(self) -> None:
        """Load the library and call nvmlInit. Raises Unavailable."""
        import ctypes  # not needed at start-up

        try:
            # Load the library first, so that a machine without a driver does not import pynvml.
            ctypes.CDLL(LIBRARY)
        except OSError as error:
            # If the message begins with the name of another library, that library is missing, not the driver's.
            if f"{LIBRARY}: " in str(error) and "No such file" in str(error):
                raise Unavailable(Status.ABSENT, "no NVIDIA driver") from error
            raise Unavailable(Status.FAILED, clean(f"NVIDIA driver: {error}")) from error
        import pynvml

        self._calls.api = pynvml
        try:
            self._calls.timed("nvmlInit", pynvml.nvmlInit)
        except pynvml.NVMLError as error:
            self._calls.api = None
            raise driver_unavailable(error) from None

    def close(self) -> None:
        """Shut NVML down; a second call does nothing. The numbers of the GPUs are kept, in order to name a lost GPU."""
        calls = self._calls
        api = calls.api
        if api is not None:
            # If the driver was unloaded, there is nothing to free; the next ``open`` reports it.
            with contextlib.suppress(api.NVMLError, Unavailable):
                self._reader.close()
            with contextlib.suppress(api.NVMLError):
                api.nvmlShutdown()
        calls.api = None
        calls.handles.clear()
        calls.forget()

    def gpus(self) -> dict[str, GpuUnavailable | None]:
        """Return the error of each GPU that the driver lists, by UUID; {} without a GPU.

        The error is None for a GPU that answers. A GPU with an unknown UUID is listed as "gpu N". Raises Unavailable
        when the driver cannot list the GPUs.
        """
        calls, api = self._calls, self._calls.api
        errors: dict[str, GpuUnavailable | None] = {}
        try:
            count = calls.timed("nvmlDeviceGetCount", api.nvmlDeviceGetCount)
        except api.NVMLError as error:
            raise driver_unavailable(error) from None
        for number in range(count):
            try:
                handle = calls.timed("nvmlDeviceGetHandleByIndex", api.nvmlDeviceGetHandleByIndex, number)
                uuid = text_of(calls.timed("nvmlDeviceGetUUID", api.nvmlDeviceGetUUID, handle))
            except api.NVMLError as error:
                # A GPU that does not answer is listed under the UUID that its number had before.
                errors.setdefault(self._uuid_by_number.get(number, f"gpu {number}"), gpu_unavailable(error, number))
                continue
            calls.handles[uuid], errors[uuid] = handle, None
            self._uuid_by_number = {n: u for n, u in self._uuid_by_number.items() if u != uuid} | {number: uuid}
        return errors

    def state(self, uuid: str) -> GpuState:
        """Read one GPU.

        Raises GpuUnavailable when this GPU cannot be read, Unavailable when the driver does not work.
        """
        calls = self._calls
        self._check_listed(uuid)
        mig = calls.get(uuid, "nvmlDeviceGetMigMode")
        self._note_mig(uuid, None if mig is None else bool(mig[0]))
        bus = calls.get_constant(uuid, "nvmlDeviceGetPciInfo")
        base = GpuState(
            uuid=uuid,
            number=next((n for n, other in self._uuid_by_number.items() if other == uuid), 0),
            name=text_of(calls.get_constant(uuid, "nvmlDeviceGetName")),
            sm_max_mhz=calls.get_constant(uuid, "nvmlDeviceGetMaxClockInfo", _SM, label="nvmlDeviceGetMaxClockInfo.sm"),
            memory_max_mhz=calls.get_constant(
                uuid, "nvmlDeviceGetMaxClockInfo", _MEMORY, label="nvmlDeviceGetMaxClockInfo.memory"
            ),
            pcie_max_generation=calls.get_constant(uuid, "nvmlDeviceGetMaxPcieLinkGeneration"),
            pcie_max_width=calls.get_constant(uuid, "nvmlDeviceGetMaxPcieLinkWidth"),
            bus_id="" if bus is None else text_of(bus.busId),
            mig=self._mig.get(uuid),
        )
        return self._reader.read(uuid, base)

    def detail(self, uuid: str) -> GpuDetail:
        """Read the limits and health of one GPU. Raises the same exceptions as ``state``."""
        self._check_listed(uuid)
        return read_detail(self._calls, uuid)

    def minor(self, uuid: str) -> int | None:
        """Return the N in the GPU's /dev/nvidiaN; None when it is unknown."""
        number: int | None = self._calls.get_constant(uuid, "nvmlDeviceGetMinorNumber")
        return number

    def watch(self) -> XidWatch | None:
        """Return a listener for Xid events of the listed GPUs, not yet started; None while no GPU has a handle."""
        api = self._calls.api
        return None if api is None or not self._calls.handles else XidWatch(self._clock, api, self._calls.handles)

    def costs(self) -> dict[str, CallCost]:
        """Return the cost of each call so far, by the name of the NVML function."""
        return self._calls.costs()

    def _check_listed(self, uuid: str) -> None:
        if uuid not in self._calls.handles:
            raise GpuUnavailable(Status.FAILED, "the driver no longer lists this GPU", RESET_REMEDY)

    def _note_mig(self, uuid: str, mig: bool | None) -> None:
        if uuid in self._mig and self._mig[uuid] != mig:
            # The supported calls and the meaning of the figures depend on the mode.
            self._calls.forget(uuid)
            self._reader.forget(uuid)
        self._mig[uuid] = mig


class ForeignNvml(Nvml):
    """Replaces Nvml when /proc and /sys are another machine's, because NVML knows only the GPUs of this machine."""

    def open(self) -> None:
        """Always raise Unavailable: NVML would show the GPUs of this machine instead of those of the other machine."""
        raise Unavailable(Status.ABSENT, "/proc and /sys belong to another machine", "")
