"""Device errors in the kernel's log since the monitor started to read it."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple


class DeviceErrors(NamedTuple):
    """The errors of a device."""

    lines: int
    """The number of log lines so far that report a new error; the kernel limits the rate of such lines."""
    at_ns: int
    """When the newest of these lines was read, in monotonic ns."""
    what: str
    """The kind of the newest error in the kernel's words: "I/O", "critical medium", "timeout". Of several errors in
    quick succession, the kind that names the cause."""


class KernelLog(NamedTuple):
    """The errors of all devices."""

    errors: Mapping[str, DeviceErrors] = {}
    """The errors by kernel name of the block device or NVMe controller ("sda", "nvme0"), PCI address, or ATA port."""
    lost: int = 0
    """How often the kernel overwrote records of its log before they were read."""
