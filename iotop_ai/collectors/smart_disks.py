"""Which disks could have SMART, and by which device node and type smartctl reaches each. Source: sysfs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from iotop_ai.collectors.block_temperature import read_temperature
from iotop_ai.collectors.root import Root
from iotop_ai.model.pattern import pattern
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.smart import SmartState

_NVME_HEAD = pattern(r"nvme(\d+)n\d+")
_NVME_NAMESPACE = pattern(r"nvme(\d+)(?:c\d+)?n(\d+)")
_SCSI = pattern(r"(?:sd[a-z]+|hd[a-z])")
WITHOUT: tuple[tuple[str, str], ...] = (
    ("vd", "a virtio disk has no SMART here: its health is the host's to read"),
    ("xvd", "a Xen disk has no SMART here: its health is the host's to read"),
    ("mmcblk", "smartctl does not read eMMC and SD cards"),
)
"""Name prefixes of disks that are never asked, and why."""


class Disk(NamedTuple):
    """A whole disk by its kernel name. device "": never asked, and ``reason`` says why.

    One behind a RAID controller is named after the volume and its type: "sda/megaraid,3". fixed: its type was given.
    """

    name: str
    device: str
    kind: str
    reason: str = ""
    fixed: bool = False


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
        out.append(disk if disk.fixed or kind in ("scsi", disk.kind) else disk._replace(kind=kind))
    return tuple(out)


def with_given_types(disks: Iterable[Disk], given: Iterable[tuple[str, str]]) -> tuple[Disk, ...]:
    """The disks with the types that the user gave: another word for a disk's own, or more disks behind a controller.

    given: (kernel name or /dev path, type). A type with a number ("megaraid,3") is one disk of several behind the same
    node, which by itself is a volume and has no health.
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
        found[name] = Disk(name, "", "", "a RAID volume: the disks behind it are asked")
    return tuple(found.values())


def kernel_counts(root: Root, name: str) -> tuple[int | None, int | None]:
    """(I/O errors, timeouts) of a SCSI or ATA disk since the kernel found it; None where it does not count.

    Source: drivers/scsi/scsi_sysfs.c, hexadecimal. Sample: 0x2
    """
    base = f"sys/block/{name}/device"
    return _hex(root.text_or(f"{base}/ioerr_cnt")), _hex(root.text_or(f"{base}/iotmo_cnt"))


def _hex(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None


def without_smart(root: Root, disk: Disk) -> SmartState:
    """What sysfs tells of a disk that may not be asked, without judging it: model, firmware, temperature, errors.

    Sources: /sys/class/nvme, /sys/block/X/device, hwmon (nvme, drivetemp).
    """
    node = disk.device.removeprefix("/dev/")
    base = f"sys/class/nvme/{node}" if disk.kind == "nvme" else f"sys/block/{node}/device"
    errors, timeouts = (None, None) if disk.kind == "nvme" else kernel_counts(root, node)
    # A rotating disk's sensor would keep it awake; an NVMe's does not.
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
    """The disks that a word means: a kernel name, a /dev path, a partition, an NVMe controller, what lies on disks.

    () when it means none.
    """
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
