"""An event of the kernel log: the common result of its parsers."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

IO_ERROR, OOM_KILL, XID, READ_ONLY, RAID, HUNG_TASK, TIMEOUT = (
    "io_error", "oom_kill", "xid", "read_only", "raid", "hung_task", "disk_timeout",
)  # fmt: skip
ATA, RESET, PCIE, MEMORY, SERVER, FILESYSTEM, GPU_RESET = (
    "ata_error", "disk_reset", "pcie_error", "memory_error", "server_silent", "fs_error", "gpu_reset",
)  # fmt: skip
OOM_CGROUP = "oom_cgroup"
"""Names the cgroup of the OOM kill that follows; not an event by itself."""


class LogEvent(NamedTuple):
    """One line of the log.

    subject: device, GPU address, server or process.
    what: kind of a device's error; "" where the line only adds to an earlier one.
    counts: whether it is one more error of its subject.
    recovery: of an Xid 154, what the driver now asks for, by the codes of GpuDetail.recovery.
    """

    kind: str
    subject: str
    text: str
    what: str = ""
    pid: int | None = None
    number: int | None = None
    counts: bool = False
    recovery: int | None = None
