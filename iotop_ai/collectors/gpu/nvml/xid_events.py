"""Receives Xid events on a thread when the driver reports them.

Source: nvml.h, nvmlEventSetWait_v2 (Linux only); https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from iotop_ai.collectors.gpu.nvml.calls import NEVER, NOT_SUPPORTED, TIMEOUT
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.lazy.namedtuple import NamedTuple

log = logging.getLogger(__name__)

XID = 0x8
"""The type of Xid events, nvmlEventTypeXidCriticalError."""
WAIT_MS = 200
RETRY_S = 5.0
"""The seconds from an error of the driver until the watch listens again."""
_MOST_EVENTS = 256


class XidEvent(NamedTuple):
    """One Xid.

    uuid: the GPU; "" when it was not identified. number: the Xid's number. recovery: what the driver asks for, as in
    LogEvent; None unless the event comes from the kernel log.
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
        self._found: deque[XidEvent] = deque(maxlen=_MOST_EVENTS)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-xid", daemon=True)

    def start(self) -> None:
        """Start to listen."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End the thread, and wait at most ``seconds`` for its end.

        NVML counts how often it was opened. It can use a GPU that has come back only after every user has closed NVML
        and it is opened again.
        """
        self._stopping.set()
        self._thread.join(seconds)

    def take_events(self) -> list[XidEvent]:
        """Return the events since the last call, oldest first."""
        out = []
        while self._found:
            out.append(self._found.popleft())
        return out

    def _run(self) -> None:
        while not self._stopping.is_set() and not self._watch():
            self._stopping.wait(RETRY_S)

    def _watch(self) -> bool:
        """Listen until ``stop``, or until an error of the driver; return whether that is the end of the watch.

        It also ends when none of the GPUs reports Xids.
        """
        api = self._api
        try:
            # NVML counts how often it was opened. With our own init, the reader can close and open it independently.
            api.nvmlInit()
        except api.NVMLError as error:
            log.info("Xid events are not received: %s", error)
            return False
        try:
            self._listen()
        except api.NVMLError as error:
            log.info("Xid events are not received: %s", error)
            return error.value in NEVER
        finally:
            self._shutdown()
        return True

    def _shutdown(self) -> None:
        try:
            self._api.nvmlShutdown()
        except self._api.NVMLError as error:
            log.debug("NVML was already closed: %s", error)

    def _listen(self) -> None:
        api = self._api
        events = api.nvmlEventSetCreate()
        try:
            named = {}
            for uuid, handle in self._handles.items():
                if self._register(handle, events):
                    named[_address(handle)] = uuid
            while named and not self._stopping.is_set():
                try:
                    data = api.nvmlEventSetWait_v2(events, WAIT_MS)
                except api.NVMLError as error:
                    if error.value == TIMEOUT:
                        continue
                    raise
                uuid = named.get(_address(data.device), "")
                found = XidEvent(uuid, int(data.eventData), self._clock.monotonic_ns(), self._clock.wall_ns())
                if data.eventType & XID:
                    self._found.append(found)
        finally:
            api.nvmlEventSetFree(events)

    def _register(self, handle: Any, events: Any) -> bool:
        api = self._api
        try:
            if not api.nvmlDeviceGetSupportedEventTypes(handle) & XID:
                return False
            api.nvmlDeviceRegisterEvents(handle, XID, events)
        except api.NVMLError as error:
            if error.value != NOT_SUPPORTED:
                log.info("no Xid events of a GPU: %s", error)
            return False
        return True


def _address(handle: Any) -> int:
    import ctypes  # not needed at start-up

    return ctypes.cast(handle, ctypes.c_void_p).value or 0
