"""Where a path to check is stored, and the speed that its disk should have."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.records import IoLimit


class Nominal(NamedTuple):
    """The sequential read rate that a device of this kind and link should have.

    why: the kind and link, such as "NVMe, PCIe 4x4"
    reduced: the link, such as "1x1 of 4x4", if it is slower than device and slot allow; otherwise ""
    """

    bytes_per_s: float
    why: str
    reduced: str = ""


class Place(NamedTuple):
    """Where a path is stored.

    mount: the mount point; "" for a device
    device: the device of this machine that holds the filesystem; "" without one
    disks: the kernel names of the disks below that device; () if none is known
    why_no_disk: why no disk is known
    remote: whether its data is on another machine; None if unknown
    memory: whether its data is in memory
    kind: the type of its disk, or the number of its disks ("4 disks"); "" if none is known
    key: the name under which its speed is stored; "" if it is not stored
    limits: the I/O limits of the monitor's cgroups on these disks
    """

    path: str
    fstype: str = ""
    source: str = ""
    mount: str = ""
    read_only: bool = False
    device: str = ""
    disks: tuple[str, ...] = ()
    why_no_disk: str = ""
    remote: bool | None = False
    memory: bool = False
    kind: str = ""
    nominal: Nominal | None = None
    limits: tuple[IoLimit, ...] = ()
    key: str = ""
