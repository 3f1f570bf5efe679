"""Xid events, as the driver reports them, received on a thread.

Source: nvml.h, nvmlEventSetWait_v2 (Linux only); https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from iotop_ai.collectors.gpu.nvml.calls import NOT_SUPPORTED, TIMEOUT
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.lazy.namedtuple import NamedTuple

log = logging.getLogger(__name__)

XID = 0x8
"""nvmlEventTypeXidCriticalError."""
WAIT_MS = 200
_MOST = 256


class XidEvent(NamedTuple):
    """One Xid. uuid: "" for an unidentified GPU. recovery: as in LogEvent; only the kernel's log has it."""

    uuid: str
    number: int
    at_ns: int
    wall_ns: int
    recovery: int | None = None


class XidWatch:
    """Listens from ``start`` to ``stop``; earlier events are only in the kernel's log."""

    def __init__(self, clock: Clock, api: Any, handles: Mapping[str, Any]) -> None:
        self._clock = clock
        self._api = api
        self._handles = dict(handles)
        self._found: deque[XidEvent] = deque(maxlen=_MOST)
        self._stopping = False
        self.listening = threading.Event()
        """Set once GPUs are registered, or none can be."""
        self.registered: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._run, name="gpu-xid", daemon=True)

    def start(self) -> None:
        """Start listening."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End the thread, and wait at most ``seconds`` for its end.

        NVML counts its users. It attaches to a GPU that came back only if all users have closed NVML before it is
        opened again.
        """
        self._stopping = True
        self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        """Whether it still listens."""
        return self._thread.is_alive()

    def take_events(self) -> list[XidEvent]:
        """The events since the last call, oldest first."""
        out = []
        while self._found:
            out.append(self._found.popleft())
        return out

    def _run(self) -> None:
        api = self._api
        try:
            # NVML counts its users: with our own init, the reader may close and open independently.
            api.nvmlInit()
        except api.NVMLError:
            self.listening.set()
            return
        try:
            self._listen()
        except api.NVMLError as error:
            log.info("listening for Xid events ended: %s", error)
        finally:
            self.listening.set()
            self._shutdown()

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
            self.registered = tuple(named.values())
            self.listening.set()
            while named and not self._stopping:
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
