"""Where a checked path lies, and what its disk should give."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.records import IoLimit


class Nominal(NamedTuple):
    """The sequential read rate that a device of this kind and link should give. why: "NVMe, PCIe 4x4".

    reduced: "1x1 of 4x4" where the link runs below what device and slot can; else "".
    """

    bytes_per_s: float
    why: str
    reduced: str = ""


class Place(NamedTuple):
    """Where a path lies.

    mount: its mount point, "" for a device. device: the filesystem's own device, "" without one on this machine.
    disks: kernel names of the disks below, () when none is known; why_no_disk says why. remote: whether its data is on
    another machine, None unknown. memory: whether it lies in memory. key: the name under which its speed is stored, ""
    where it is not stored. limits: those of our own cgroups on its disks.
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
