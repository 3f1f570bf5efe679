"""Receives Xids, the numbered GPU errors of the NVIDIA driver, on a separate thread.

Source: nvml.h, nvmlEventSetWait_v2 (Linux only); https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from iotop_ai.collectors.gpu.nvml.calls import PERMANENT_ERRORS, TIMEOUT
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.lazy.namedtuple import NamedTuple

log = logging.getLogger(__name__)

XID = 0x8
"""The type of Xid events, nvmlEventTypeXidCriticalError."""
WAIT_MS = 200
"""The longest wait for one event, in milliseconds."""
RETRY_S = 5.0
"""The seconds from an error of the driver until the watch listens again."""
REGISTER_EVERY_WAITS = 25
"""Registering a GPU is tried again after this number of waits for an event."""
_MOST_EVENTS = 256


class XidEvent(NamedTuple):
    """One Xid.

    uuid: the GPU; "" when it was not identified. number: the Xid's number. recovery: the action that the driver asks
    for, as in LogEvent; None unless the event comes from the kernel log.
    """

    uuid: str
    number: int
    at_ns: int
    wall_ns: int
    recovery: int | None = None


class XidWatch:
    """Listens for Xids from ``start`` to ``stop``. Earlier Xids are only in the kernel log."""

    def __init__(self, clock: Clock, api: Any, handles: Mapping[str, Any]) -> None:
        self._clock = clock
        self._api = api
        self._handles = dict(handles)
        self._events: deque[XidEvent] = deque(maxlen=_MOST_EVENTS)
        self.registered: frozenset[str] = frozenset()
        """The GPUs whose Xids the driver reports at the moment."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-xid", daemon=True)

    def start(self) -> None:
        """Start to listen."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End the thread, and wait at most ``seconds`` for its end.

        The caller waits because the thread has opened NVML too: a GPU that has come back can be used only after NVML
        has been closed as often as it was opened, and then opened again.
        """
        self._stopping.set()
        self._thread.join(seconds)

    def take_events(self) -> list[XidEvent]:
        """Return the events since the last call, oldest first."""
        out = []
        while self._events:
            out.append(self._events.popleft())
        return out

    def _run(self) -> None:
        while not self._stopping.is_set() and not self._watch():
            self._stopping.wait(RETRY_S)

    def _watch(self) -> bool:
        """Listen until ``stop``, or until the driver reports an error; return False if a later try may succeed.

        Returns True at once when none of the GPUs reports Xids.
        """
        api = self._api
        try:
            # NVML counts how often it was opened. With our own init, the reader can close and open it independently.
            api.nvmlInit()
        except api.NVMLError as error:
            log.info("Xid events are not received: %s", error)
            return False
        try:
            return self._listen()
        except api.NVMLError as error:
            log.info("Xid events are not received: %s", error)
            return error.value in PERMANENT_ERRORS
        finally:
            self._shutdown()

    def _shutdown(self) -> None:
        try:
            self._api.nvmlShutdown()
        except self._api.NVMLError as error:
            log.debug("NVML was already closed: %s", error)

    def _listen(self) -> bool:
        """Register the GPUs and listen until ``stop``; return False if a later try may succeed."""
        api = self._api
        events = api.nvmlEventSetCreate()
        try:
            uuids: dict[int, str] = {}
            failed = self._register(self._handles, events, uuids)
            waits = 0
            while uuids and not self._stopping.is_set():
                waits += 1
                if failed and waits % REGISTER_EVERY_WAITS == 0:
                    failed = self._register(failed, events, uuids)
                try:
                    data = api.nvmlEventSetWait_v2(events, WAIT_MS)
                except api.NVMLError as error:
                    if error.value == TIMEOUT:
                        continue
                    raise
                uuid = uuids.get(_address(data.device), "")
                event = XidEvent(uuid, int(data.eventData), self._clock.monotonic_ns(), self._clock.wall_ns())
                if data.eventType & XID:
                    self._events.append(event)
            return bool(uuids) or not failed
        finally:
            self.registered = frozenset()
            api.nvmlEventSetFree(events)

    def _register(self, handles: Mapping[str, Any], events: Any, uuids: dict[int, str]) -> dict[str, Any]:
        """Register GPUs and add them to ``uuids`` by the address of the handle; return those that failed this time."""
        api = self._api
        failed = {}
        for uuid, handle in handles.items():
            try:
                if not api.nvmlDeviceGetSupportedEventTypes(handle) & XID:
                    continue
                api.nvmlDeviceRegisterEvents(handle, XID, events)
            except api.NVMLError as error:
                if error.value not in PERMANENT_ERRORS:
                    log.debug("no Xid events of a GPU: %s", error)
                    failed[uuid] = handle
            else:
                uuids[_address(handle)] = uuid
        self.registered = frozenset(uuids.values())
        return failed


def _address(handle: Any) -> int:
    import ctypes  # not needed at start-up

    return ctypes.cast(handle, ctypes.c_void_p).value or 0
