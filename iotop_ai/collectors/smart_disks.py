"""Which disks could have SMART, and by which device node and type smartctl reaches each. Source: sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from iotop_ai.collectors.root import Root

_NVME_HEAD = re.compile(r"nvme(\d+)n\d+")
_NVME_NAMESPACE = re.compile(r"nvme(\d+)(?:c\d+)?n(\d+)")
_SCSI = re.compile(r"(?:sd[a-z]+|hd[a-z])")
WITHOUT: tuple[tuple[str, str], ...] = (
    ("vd", "a virtio disk has no SMART here: its health is the host's to read"),
    ("xvd", "a Xen disk has no SMART here: its health is the host's to read"),
    ("mmcblk", "smartctl does not read eMMC and SD cards"),
)
"""Name prefixes of disks that are never asked, and why."""


class Disk(NamedTuple):
    """A whole disk by its kernel name. device "": never asked, and ``reason`` says why."""

    name: str
    device: str
    kind: str
    reason: str = ""


def smart_disks(root: Root) -> tuple[Disk, ...]:
    """Whole disks that have a health of their own or could be thought to, by name.

    Loop, RAM, device-mapper, md, network and optical devices are left out: they have none by their nature.
    """
    found = []
    controllers = _controllers(root)
    for name in root.names("sys/block"):
        why = next((reason for prefix, reason in WITHOUT if re.fullmatch(prefix + r"[a-z0-9]+", name)), "")
        head = _NVME_HEAD.fullmatch(name)
        if why and "boot" not in name:
            found.append(Disk(name, "", "", why))
        elif head is not None:
            found.append(Disk(name, f"/dev/{controllers.get(name, 'nvme' + head[1])}", "nvme"))
        elif _SCSI.fullmatch(name):
            found.append(_scsi_disk(root, name))
    return tuple(found)


def _scsi_disk(root: Root, name: str) -> Disk:
    if root.number_or_none(f"sys/block/{name}/size") == 0:
        return Disk(name, "", "", "no medium in the drive")
    # libata names its disks' vendor ATA; everything else behind sd speaks SCSI as far as sysfs can tell.
    kind = "sat" if root.text_or(f"sys/block/{name}/device/vendor") == "ATA" else "scsi"
    return Disk(name, f"/dev/{name}", kind)


def _controllers(root: Root) -> dict[str, str]:
    """Namespace's kernel name to its controller: {"nvme0n1": "nvme0"}; of a multipath head, its first controller."""
    found: dict[str, str] = {}
    for controller in root.names("sys/class/nvme"):
        for entry in root.names(f"sys/class/nvme/{controller}"):
            match = _NVME_NAMESPACE.fullmatch(entry)
            if match:
                found.setdefault(f"nvme{match[1]}n{match[2]}", controller)
    return found


def with_scanned_types(disks: Iterable[Disk], scanned: Iterable[tuple[str, str]]) -> tuple[Disk, ...]:
    """The disks with the type that ``smartctl --scan-open`` found where it names the same node.

    It knows USB bridges, which sysfs does not. A scan that could not open a SATA disk calls it scsi, so that word
    never replaces a more exact one.
    """
    types = dict(scanned)
    out = []
    for disk in disks:
        kind = types.get(disk.device, disk.kind)
        out.append(disk if kind in ("scsi", disk.kind) else disk._replace(kind=kind))
    return tuple(out)
