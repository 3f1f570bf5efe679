"""What the kernel's log told since the monitor began to read it."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.record import NamedTuple


class DeviceErrors(NamedTuple):
    """Requests that the kernel gave up on a device. lines: told in its log, grows; it leaves the rest of a flood out.

    at_ns: when the newest was read (monotonic). what: its kind as the kernel says: "I/O", "critical medium", "timeout".
    """

    lines: int
    at_ns: int
    what: str


class KernelLog(NamedTuple):
    """errors: by kernel name of the device ("sda", "nvme0n1"), timeouts by that of the controller ("nvme0").

    lost: times that records were overwritten unread.
    """

    errors: Mapping[str, DeviceErrors] = {}
    lost: int = 0
