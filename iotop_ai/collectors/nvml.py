"""The only door to pynvml: opened once, what each GPU says by UUID.

Source: nvml.h (https://docs.nvidia.com/deploy/nvml-api/).
"""

from __future__ import annotations

import contextlib

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.nvml_detail import read_detail
from iotop_ai.collectors.nvml_door import RESET, CallCost, Door, GpuGone, gone, text_of, unavailable
from iotop_ai.collectors.nvml_events import XidWatch
from iotop_ai.collectors.nvml_state import StateReader
from iotop_ai.model.clean import clean
from iotop_ai.model.gpu import GpuState
from iotop_ai.model.gpu_detail import GpuDetail
from iotop_ai.model.reading import Status

__all__ = ["CallCost", "GpuGone", "Nvml"]

LIBRARY = "libnvidia-ml.so.1"
_SM, _MEMORY = 1, 2


class Nvml:
    """NVML opened once, read by UUID. Used by one thread; ``costs`` from any.

    What a GPU has once answered with NOT_SUPPORTED, or a driver has no function for, is not asked again until the
    library is opened anew or the GPU's MIG mode changes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._door = Door(clock)
        self._numbers: dict[int, str] = {}
        self._mig: dict[str, bool | None] = {}
        self._reader = StateReader(self._door)

    def open(self) -> None:
        """Load the library and greet the driver. Raises Unavailable."""
        import ctypes  # a start does without

        try:
            # Asked before pynvml is imported: a machine without a driver then never pays for the bindings.
            ctypes.CDLL(LIBRARY)
        except OSError as error:
            if "No such file" in str(error):
                raise Unavailable(Status.ABSENT, "no NVIDIA driver") from error
            raise Unavailable(Status.FAILED, clean(f"NVIDIA driver: {error}")) from error
        import pynvml

        self._door.api = pynvml
        try:
            self._door.timed("nvmlInit", pynvml.nvmlInit)
        except pynvml.NVMLError as error:
            self._door.api = None
            raise unavailable(error) from None

    def close(self) -> None:
        """Say goodbye to the driver; safe to call twice. The GPUs' numbers are remembered for one that got lost."""
        door = self._door
        api = door.api
        if api is not None:
            # A driver that went away has nothing to free or shut down; the next open says what is wrong.
            with contextlib.suppress(api.NVMLError, Unavailable):
                self._reader.close()
            with contextlib.suppress(api.NVMLError):
                api.nvmlShutdown()
        door.api = None
        door.handles.clear()
        door.forget()

    def gpus(self) -> dict[str, GpuGone | None]:
        """UUID of every GPU that the driver lists, and why one of them cannot be read; {}: it lists none.

        Raises Unavailable when the driver does not even list.
        """
        door, api = self._door, self._door.api
        found: dict[str, GpuGone | None] = {}
        try:
            count = door.timed("nvmlDeviceGetCount", api.nvmlDeviceGetCount)
        except api.NVMLError as error:
            raise unavailable(error) from None
        for number in range(count):
            try:
                handle = door.timed("nvmlDeviceGetHandleByIndex", api.nvmlDeviceGetHandleByIndex, number)
                uuid = text_of(door.timed("nvmlDeviceGetUUID", api.nvmlDeviceGetUUID, handle))
            except api.NVMLError as error:
                # One that does not say its name any more is known by its number.
                found.setdefault(self._numbers.get(number, f"gpu {number}"), gone(error, number))
                continue
            door.handles[uuid], found[uuid] = handle, None
            self._numbers = {n: u for n, u in self._numbers.items() if u != uuid} | {number: uuid}
        return found

    def state(self, uuid: str) -> GpuState:
        """One GPU now. Raises GpuGone for this GPU, Unavailable for the whole driver."""
        door = self._door
        self._check(uuid)
        mig = door.get(uuid, "nvmlDeviceGetMigMode")
        self._note_mig(uuid, None if mig is None else bool(mig[0]))
        bus = door.once(uuid, "nvmlDeviceGetPciInfo")
        base = GpuState(
            uuid=uuid,
            number=next((n for n, known in self._numbers.items() if known == uuid), 0),
            name=text_of(door.once(uuid, "nvmlDeviceGetName")),
            sm_max_mhz=door.once(uuid, "nvmlDeviceGetMaxClockInfo", _SM, label="nvmlDeviceGetMaxClockInfo.sm"),
            memory_max_mhz=door.once(
                uuid, "nvmlDeviceGetMaxClockInfo", _MEMORY, label="nvmlDeviceGetMaxClockInfo.memory"
            ),
            pcie_max_generation=door.once(uuid, "nvmlDeviceGetMaxPcieLinkGeneration"),
            pcie_max_width=door.once(uuid, "nvmlDeviceGetMaxPcieLinkWidth"),
            bus_id="" if bus is None else text_of(bus.busId),
            mig=self._mig.get(uuid),
        )
        return self._reader.read(uuid, base)

    def detail(self, uuid: str) -> GpuDetail:
        """Its limits and health. Raises GpuGone for this GPU, Unavailable for the whole driver."""
        self._check(uuid)
        return read_detail(self._door, uuid)

    def minor(self, uuid: str) -> int | None:
        """The N of its /dev/nvidiaN; None when it does not say."""
        found: int | None = self._door.once(uuid, "nvmlDeviceGetMinorNumber")
        return found

    def watch(self) -> XidWatch | None:
        """A listener for Xid events of the GPUs listed, not started; None while the library is closed."""
        api = self._door.api
        return None if api is None or not self._door.handles else XidWatch(self._clock, api, self._door.handles)

    def costs(self) -> dict[str, CallCost]:
        """What each call has cost so far, by NVML's name for it."""
        return self._door.costs()

    def _check(self, uuid: str) -> None:
        if uuid not in self._door.handles:
            raise GpuGone(Status.FAILED, "the driver no longer lists this GPU", RESET)

    def _note_mig(self, uuid: str, mig: bool | None) -> None:
        if uuid in self._mig and self._mig[uuid] != mig:
            self._door.forget(uuid)
        self._mig[uuid] = mig
