"""Lists the disks that may have SMART, with the device node and the type that smartctl needs. Source: sysfs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable

from iotop_ai.collectors.block.identity import nvme_controllers, read_serial
from iotop_ai.collectors.block.temperature import read_temperature
from iotop_ai.collectors.health.commands import is_device, is_type
from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.health.identity import DiskIdentity
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.health.volume import DISKS_QUERIED, NOT_QUERIED, disks_queried_on

_CONTROLLERS = frozenset(("megaraid", "3ware", "areca", "aacraid", "cciss", "hpt", "sssraid", "jmb39x", "jms56x"))
"""The types of smartctl that name one of the disks behind a controller. Other types may have a comma too: sat,12."""
_VOLUMES = (
    ("megaraid", pattern(r"\S+ +PERC .*|(?:MegaRAID|LSI|AVAGO|BROADCOM) .*", re.IGNORECASE)),
    ("cciss", pattern(r"(?:HPE?|MSCC|ADAPTEC) +LOGICAL VOLUME", re.IGNORECASE)),
    ("areca", pattern(r"Areca .*", re.IGNORECASE)),
    ("3ware", pattern(r"(?:3ware|AMCC) .*", re.IGNORECASE)),
    ("aacraid", pattern(r"Adaptec .*", re.IGNORECASE)),
)
"""The controller's type for smartctl, and the vendor and model that sysfs shows for its volumes.

A single disk that such a controller passes through has the disk's own vendor.
"""
_NVME_DISK = pattern(r"nvme\d+n\d+")
_SCSI_DISK = pattern(r"(?:sd[a-z]+|hd[a-z])")
NEVER_QUERIED: tuple[tuple[str, str], ...] = (
    ("vd", "a virtio disk has no SMART here: read its health on the host"),
    ("xvd", "a Xen disk has no SMART here: read its health on the host"),
    ("mmcblk", "smartctl does not read eMMC and SD cards"),
)
"""Pairs of (the prefix of the names of disks that are never queried, the reason)."""


class Disk(NamedTuple):
    """A disk, named by its kernel name.

    A disk behind a RAID controller is named by the volume and the type, "sda/megaraid,3", or, if the scan found it, by
    the controller's bus, "bus/0/megaraid,3". device: the device node for smartctl; "" if the disk is never queried.
    kind: the type for smartctl. reason: why the disk is never queried. fixed: whether a scan must not change the type.
    controller: the type of the RAID controller whose volume this is, such as "megaraid"; else "".
    """

    name: str
    device: str
    kind: str
    reason: str = ""
    fixed: bool = False
    controller: str = ""


def smart_disks(root: Root) -> tuple[Disk, ...]:
    """Return the whole disks that may have SMART, and those in NEVER_QUERIED with the reason, ordered by name.

    Loop, RAM, device-mapper, md, network and optical devices are left out, because they do not have SMART.
    """
    disks = []
    for name in root.names("sys/block"):
        why = next((reason for prefix, reason in NEVER_QUERIED if re.fullmatch(prefix + r"[a-z0-9]+", name)), "")
        # The boot areas of an eMMC (mmcblk0boot0) belong to its disk.
        if why and "boot" not in name:
            disks.append(Disk(name, "", "", why))
        elif _NVME_DISK.fullmatch(name):
            disks.append(_nvme_disk(root, name))
        elif _SCSI_DISK.fullmatch(name):
            disks.append(_scsi_disk(root, name))
    return tuple(disks)


def _scsi_disk(root: Root, name: str) -> Disk:
    if root.number_or_none(f"sys/block/{name}/size") == 0:
        return Disk(name, "", "", "no medium in the drive")
    # libata sets the vendor of its disks to ATA; sysfs has no other sign that distinguishes them from SCSI disks.
    vendor = root.text_or(f"sys/block/{name}/device/vendor")
    kind = "sat" if vendor == "ATA" else "scsi"
    full_name = f"{vendor} {root.text_or(f'sys/block/{name}/device/model')}"
    controller = next((controller for controller, names in _VOLUMES if names.fullmatch(full_name)), "")
    return Disk(name, f"/dev/{name}", kind, controller=controller)


def _nvme_disk(root: Root, name: str) -> Disk:
    """Return the disk with the node of its controller, whose number may differ from the disk's.

    A multipath disk gets the node of its first controller.
    """
    controllers = nvme_controllers(root, f"sys/block/{name}")
    if not controllers:
        return Disk(name, "", "", "the kernel does not show its NVMe controller")
    return Disk(name, f"/dev/{controllers[0]}", "nvme")


def with_scanned_types(
    disks: Iterable[Disk], types: Iterable[tuple[str, str]], volumes: Iterable[tuple[str, str]] = ()
) -> tuple[Disk, ...]:
    """Return the disks with the types and controllers that ``smartctl --scan-open`` found for the same device nodes.

    types: pairs of (device, type). volumes: pairs of (device, controller). The scan recognises USB bridges, which sysfs
    does not show. A SATA disk that the scan could not open is reported as scsi, so a found type "scsi" does not replace
    another type.
    """
    kinds, controllers = dict(types), dict(volumes)
    out = []
    for disk in disks:
        kind = kinds.get(disk.device, disk.kind)
        controller = controllers.get(disk.device, disk.controller)
        if not disk.fixed:
            disk = disk._replace(kind=disk.kind if kind == "scsi" else kind, controller=controller)
        out.append(disk)
    return tuple(out)


def behind_controllers(scanned: Iterable[tuple[str, str]], known: Iterable[Disk]) -> tuple[Disk, ...]:
    """Return the disks behind RAID controllers that ``smartctl --scan-open`` found, except those that the user named.

    The scan names such a disk by the controller's bus: /dev/bus/0 with the type megaraid,3 or sat+megaraid,3. The user
    names it by a volume, which does not reveal the bus: if the user named a disk 3 and two controllers have one, both
    are kept.
    """
    entries = [
        (node, kind) for node, kind in scanned if is_behind_controller(kind) and is_device(node) and is_type(kind)
    ]
    counts = Counter(kind.rpartition("+")[2] for _, kind in entries)
    # "sat+megaraid,3" and "megaraid,3" name the same disk.
    named_kinds = {kind for disk in known if disk.fixed and counts[kind := disk.kind.rpartition("+")[2]] == 1}
    return tuple(
        Disk(f"{node.removeprefix('/dev/')}/{kind}", node, kind, fixed=True)
        for node, kind in entries
        if kind.rpartition("+")[2] not in named_kinds
    )


def is_behind_controller(kind: str) -> bool:
    """Whether a type names one of several disks behind a node, such as "sat+megaraid,3"; "sat,12" does not."""
    return any("," in part and part.partition(",")[0].removesuffix("-q") in _CONTROLLERS for part in kind.split("+"))


def type_in_name(name: str) -> tuple[str, str] | None:
    """Return (node, type) of a disk that is named by its controller's bus, such as "bus/0/megaraid,3"; else None."""
    node, _, kind = name.rpartition("/")
    if node.startswith("bus/") and is_device(f"/dev/{node}") and is_type(kind) and is_behind_controller(kind):
        return node, kind
    return None


def volume_reason(root: Root, volume: str, behind: Iterable[Disk]) -> str:
    """Return why a RAID volume has no health. behind: the disks behind controllers that are queried.

    The number of a controller's bus is that of its SCSI host (os_linux.cpp of smartmontools). An Areca controller has a
    node of its own, sg2, on the host of its volumes. If the volume's host is unknown, the volume belongs to the only
    controller.
    """
    nodes = {disk.device.removeprefix("/dev/") for disk in behind}
    if volume in nodes:
        return DISKS_QUERIED
    controllers = {host: node for node in sorted(nodes) if (host := _controller_host(root, node))}
    host = _scsi_host(root, f"sys/block/{volume}")
    only = next(iter(controllers.values())) if len(controllers) == 1 else ""
    node = controllers.get(host, "") if host else only
    return disks_queried_on(node) if node else NOT_QUERIED


def _controller_host(root: Root, node: str) -> str:
    if node.startswith("sg"):
        return _scsi_host(root, f"sys/class/scsi_generic/{node}")
    return node.removeprefix("bus/") if node.startswith("bus/") else ""


def _scsi_host(root: Root, base: str) -> str:
    """Return the number of a device's SCSI host; "" if it has none. Sample of its link: ../../../2:0:0:0."""
    host = os.path.basename(root.link(f"{base}/device")).partition(":")[0]
    return host if host.isdecimal() else ""


def with_given_types(disks: Iterable[Disk], given: Iterable[tuple[str, str]]) -> tuple[Disk, ...]:
    """Return the disks with the types that the user gave, and the disks behind controllers that the user named.

    given: pairs of (kernel name or /dev path, type). If the type names a disk behind a controller, the node itself is a
    volume without SMART. A disk with any other given type is not a volume.
    """
    by_name = {disk.name: disk for disk in disks}
    volumes = set()
    for node, kind in given:
        name = node.removeprefix("/dev/")
        if is_behind_controller(kind):
            volumes.add(name)
            by_name[f"{name}/{kind}"] = Disk(f"{name}/{kind}", f"/dev/{name}", kind, fixed=True)
        elif name in by_name:
            by_name[name] = Disk(name, f"/dev/{name}", kind, fixed=True)
    for name in volumes & by_name.keys():
        by_name[name] = Disk(name, "", "", DISKS_QUERIED)
    return tuple(by_name.values())


def kernel_counts(root: Root, name: str) -> tuple[int | None, int | None]:
    """Return (failed commands, timeouts) of a SCSI or ATA disk since the kernel found it; None without such counters.

    A failed command is one with a status other than good. Our own queries count as failed, because libata answers each
    of them with CHECK CONDITION. Sample: 0x2 (hexadecimal). Source: drivers/scsi/scsi_sysfs.c; scsi_complete in
    scsi_lib.c.
    """
    base = f"sys/block/{name}/device"
    return _hex(root.text_or(f"{base}/ioerr_cnt")), _hex(root.text_or(f"{base}/iotmo_cnt"))


def _hex(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None


def without_smart(root: Root, disk: Disk) -> SmartState:
    """Return what sysfs shows about a disk that we are not permitted to query: its identity, temperature and errors.

    The health is not judged. Sources: /sys/class/nvme, /sys/block/X/device, hwmon (nvme).
    """
    node = disk.device.removeprefix("/dev/")
    # A disk behind a controller has no folder, so its values are unknown; the folder of its node is the volume's.
    base = f"sys/class/nvme/{node}" if disk.kind == "nvme" else f"sys/block/{disk.name}/device"
    errors, timeouts = (None, None) if disk.kind == "nvme" else kernel_counts(root, disk.name)
    # Reading the sensor of a rotating disk would keep the disk awake. It does not keep an NVMe disk awake.
    celsius = read_temperature(root, disk.name) if disk.kind == "nvme" else None
    return SmartState(
        device=disk.device,
        protocol={"sat": "ata"}.get(disk.kind, disk.kind),
        model=root.text_or(f"{base}/model"),
        serial=root.text_or(f"{base}/serial") if disk.kind == "nvme" else read_serial(root, f"sys/block/{disk.name}"),
        firmware=root.text_or(f"{base}/firmware_rev") or root.text_or(f"{base}/rev"),
        assessment=None,
        severity="unknown",
        reasons=(),
        temperature_celsius=None if celsius is None else round(celsius),
        device_type=disk.kind,
        io_errors=errors,
        io_timeouts=timeouts,
    )


def read_identity(root: Root, name: str) -> DiskIdentity:
    """Return the identity that sysfs shows now for the disk with this name.

    For a disk behind a RAID controller, it is the identity of the volume.
    """
    base = f"sys/block/{name.partition('/')[0]}"
    return DiskIdentity(root.number_or_none(f"{base}/diskseq") or 0, read_serial(root, base))


def disks_named(root: Root, word: str, disks: Iterable[Disk]) -> tuple[Disk, ...]:
    """Return the disks that a word names; () when it names none.

    The word may be a kernel name, a /dev path, a partition, an NVMe controller or a stacked device.
    """
    all_disks = tuple(disks)
    name = os.path.basename(os.path.realpath(word)) if word.startswith("/dev/") else word
    node = word if word.startswith("/dev/") else f"/dev/{word}"
    matches = [
        disk for disk in all_disks if disk.name == name or disk.name.startswith(f"{name}/") or disk.device == node
    ]
    if matches or not re.fullmatch(r"[\w!.:-]+", name):
        return tuple(matches)
    if root.exists(f"sys/class/block/{name}/partition"):
        below = [os.path.basename(os.path.dirname(root.real(f"sys/class/block/{name}")))]
    else:
        below = root.names(f"sys/block/{name}/slaves")
    return tuple(
        dict.fromkeys(disk for slave in below if slave != name for disk in disks_named(root, slave, all_disks))
    )


def disks_with_serial(root: Root, serial: str, disks: Iterable[Disk]) -> tuple[Disk, ...]:
    """Return the disks with this serial number in sysfs, which does not show the disks behind RAID controllers."""
    return tuple(disk for disk in disks if read_serial(root, f"sys/block/{disk.name}") == serial)
