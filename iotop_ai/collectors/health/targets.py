"""Disks that may have SMART, with the device node and type for smartctl. Source: sysfs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from iotop_ai.collectors.block.identity import nvme_controllers
from iotop_ai.collectors.block.temperature import read_temperature
from iotop_ai.collectors.health.commands import is_device, is_type
from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.health.smart import SmartState

VOLUME_ASKED = "a RAID volume: the disks behind it are queried"
_NVME_HEAD = pattern(r"nvme\d+n\d+")
_SCSI = pattern(r"(?:sd[a-z]+|hd[a-z])")
WITHOUT: tuple[tuple[str, str], ...] = (
    ("vd", "a virtio disk has no SMART here: read its health on the host"),
    ("xvd", "a Xen disk has no SMART here: read its health on the host"),
    ("mmcblk", "smartctl does not read eMMC and SD cards"),
)
"""(name prefix of disks that are never queried, reason)."""


class Disk(NamedTuple):
    """A whole disk by its kernel name. device "": never queried, for ``reason``. fixed: its type is certain.

    A disk behind a RAID controller is named by the volume and its type, "sda/megaraid,3", or, where the scan found it,
    by the controller's bus, "bus/0/megaraid,3".
    """

    name: str
    device: str
    kind: str
    reason: str = ""
    fixed: bool = False


def smart_disks(root: Root) -> tuple[Disk, ...]:
    """Whole disks that may have SMART, by name.

    Loop, RAM, device-mapper, md, network and optical devices are left out: they have no SMART.
    """
    found = []
    for name in root.names("sys/block"):
        why = next((reason for prefix, reason in WITHOUT if re.fullmatch(prefix + r"[a-z0-9]+", name)), "")
        if why and "boot" not in name:
            found.append(Disk(name, "", "", why))
        elif _NVME_HEAD.fullmatch(name):
            found.append(_nvme_disk(root, name))
        elif _SCSI.fullmatch(name):
            found.append(_scsi_disk(root, name))
    return tuple(found)


def _scsi_disk(root: Root, name: str) -> Disk:
    if root.number_or_none(f"sys/block/{name}/size") == 0:
        return Disk(name, "", "", "no medium in the drive")
    # libata sets the vendor of its disks to ATA; sysfs cannot tell other sd disks from SCSI.
    kind = "sat" if root.text_or(f"sys/block/{name}/device/vendor") == "ATA" else "scsi"
    return Disk(name, f"/dev/{name}", kind)


def _nvme_disk(root: Root, name: str) -> Disk:
    """The disk by its controller, whose number may differ; a multipath disk by its first controller."""
    controllers = nvme_controllers(root, f"sys/block/{name}")
    if not controllers:
        return Disk(name, "", "", "the kernel does not show its NVMe controller")
    return Disk(name, f"/dev/{controllers[0]}", "nvme")


def with_scanned_types(disks: Iterable[Disk], scanned: Iterable[tuple[str, str]]) -> tuple[Disk, ...]:
    """The disks with the type that ``smartctl --scan-open`` found where it names the same node.

    The scan knows USB bridges, which sysfs does not. It reports a SATA disk that it could not open as scsi, so "scsi"
    does not replace another type.
    """
    types = dict(scanned)
    out = []
    for disk in disks:
        kind = types.get(disk.device, disk.kind)
        out.append(disk if disk.fixed or kind in ("scsi", disk.kind) else disk._replace(kind=kind))
    return tuple(out)


def behind_controllers(scanned: Iterable[tuple[str, str]], known: Iterable[Disk]) -> tuple[Disk, ...]:
    """The disks behind RAID controllers that ``smartctl --scan-open`` found, without those that the user named.

    It lists them by the controller's bus: /dev/bus/0 with the type megaraid,3 or sat+megaraid,3.
    """
    named = {disk.kind.rpartition("+")[2] for disk in known if disk.fixed}
    return tuple(
        Disk(f"{node.removeprefix('/dev/')}/{kind}", node, kind, fixed=True)
        for node, kind in scanned
        if "," in kind and is_device(node) and is_type(kind) and kind.rpartition("+")[2] not in named
    )


def with_given_types(disks: Iterable[Disk], given: Iterable[tuple[str, str]]) -> tuple[Disk, ...]:
    """The disks with the types that the user gave: a disk's own type, or further disks behind a controller.

    given: (kernel name or /dev path, type). A type with a number ("megaraid,3") is one of several disks behind the same
    node, which itself is a volume without SMART.
    """
    found = {disk.name: disk for disk in disks}
    volumes = set()
    for node, kind in given:
        name = node.removeprefix("/dev/")
        if "," in kind:
            volumes.add(name)
            found[f"{name}/{kind}"] = Disk(f"{name}/{kind}", f"/dev/{name}", kind, fixed=True)
        elif name in found:
            found[name] = found[name]._replace(device=f"/dev/{name}", kind=kind, reason="", fixed=True)
    for name in volumes & found.keys():
        found[name] = Disk(name, "", "", VOLUME_ASKED)
    return tuple(found.values())


def kernel_counts(root: Root, name: str) -> tuple[int | None, int | None]:
    """(commands with a status other than good, timeouts) of a SCSI or ATA disk since the kernel found it.

    None without counters. Our own queries count: libata answers each with CHECK CONDITION.
    Source: drivers/scsi/scsi_sysfs.c, hexadecimal; scsi_complete in scsi_lib.c. Sample: 0x2
    """
    base = f"sys/block/{name}/device"
    return _hex(root.text_or(f"{base}/ioerr_cnt")), _hex(root.text_or(f"{base}/iotmo_cnt"))


def _hex(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None


def without_smart(root: Root, disk: Disk) -> SmartState:
    """sysfs's facts about a disk that may not be queried: model, firmware, temperature, errors; not judged.

    Sources: /sys/class/nvme, /sys/block/X/device, hwmon (nvme, drivetemp).
    """
    node = disk.device.removeprefix("/dev/")
    # A disk behind a controller has no folder of its own: the folder of its node is the volume's.
    base = f"sys/class/nvme/{node}" if disk.kind == "nvme" else f"sys/block/{disk.name}/device"
    errors, timeouts = (None, None) if disk.kind == "nvme" else kernel_counts(root, disk.name)
    # Reading a rotating disk's sensor would keep it awake; an NVMe disk's does not.
    celsius = read_temperature(root, disk.name) if disk.kind == "nvme" else None
    return SmartState(
        device=disk.device,
        protocol={"sat": "ata"}.get(disk.kind, disk.kind),
        model=root.text_or(f"{base}/model"),
        serial=root.text_or(f"{base}/serial"),
        firmware=root.text_or(f"{base}/firmware_rev") or root.text_or(f"{base}/rev"),
        assessment=None,
        severity="unknown",
        reasons=(),
        temperature_celsius=None if celsius is None else round(celsius),
        device_type=disk.kind,
        io_errors=errors,
        io_timeouts=timeouts,
    )


def disks_named(root: Root, word: str, disks: Iterable[Disk]) -> tuple[Disk, ...]:
    """The disks of a kernel name, a /dev path, a partition, an NVMe controller or a stacked device; () for none."""
    every = tuple(disks)
    name = os.path.basename(os.path.realpath(word)) if word.startswith("/dev/") else word
    node = word if word.startswith("/dev/") else f"/dev/{word}"
    found = [disk for disk in every if disk.name == name or disk.name.startswith(f"{name}/") or disk.device == node]
    if found or not re.fullmatch(r"[\w!.:-]+", name):
        return tuple(found)
    if root.exists(f"sys/class/block/{name}/partition"):
        below = [os.path.basename(os.path.dirname(root.real(f"sys/class/block/{name}")))]
    else:
        below = root.names(f"sys/block/{name}/slaves")
    return tuple(dict.fromkeys(disk for one in below if one != name for disk in disks_named(root, one, every)))
