"""An event of the kernel log, the result that all parsers of its lines return."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

IO_ERROR, OOM_KILL, XID, READ_ONLY, RAID, HUNG_TASK, TIMEOUT = (
    "io_error", "oom_kill", "xid", "read_only", "raid", "hung_task", "disk_timeout",
)  # fmt: skip
ATA, RESET, PCIE, MEMORY, SERVER, FILESYSTEM, GPU_RESET = (
    "ata_error", "disk_reset", "pcie_error", "memory_error", "server_silent", "fs_error", "gpu_reset",
)  # fmt: skip
OOM_CGROUP = "oom_cgroup"
"""The kind of a line that names the cgroup of the OOM kill in the next line; it is not an event by itself."""


class LogEvent(NamedTuple):
    """The event that one line of the log reports.

    kind: the kind of event, one of the constants above. text: the event in words.
    subject: the device, GPU address, server or process that the event concerns.
    what: the kind of error of a device, or "silent" for a server that does not answer; "" for other events.
    pid: the PID of the process that was killed or is stuck; None for other events.
    number: the number of an Xid; None for other events.
    is_counted: whether the line counts as one more error of its subject.
    recovery: the action that the driver asks for in an Xid 154, as a code of GpuDetail.recovery.
    """

    kind: str
    subject: str
    text: str
    what: str = ""
    pid: int | None = None
    number: int | None = None
    is_counted: bool = False
    recovery: int | None = None
