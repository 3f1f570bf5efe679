"""Device errors in the kernel's log since the monitor started reading it."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple


class DeviceErrors(NamedTuple):
    """Failed requests of a device."""

    lines: int
    """Log lines, growing; the kernel rate-limits them."""
    at_ns: int
    """When the newest was read (monotonic)."""
    what: str
    """The newest error's kind in the kernel's words: "I/O", "critical medium", "timeout"; of several in quick
    succession the one that names the cause."""


class KernelLog(NamedTuple):
    """The errors of all devices."""

    errors: Mapping[str, DeviceErrors] = {}
    """By kernel name of the device ("sda", "nvme0n1"); timeouts by that of the controller ("nvme0")."""
    lost: int = 0
    """Times that records were overwritten unread."""
