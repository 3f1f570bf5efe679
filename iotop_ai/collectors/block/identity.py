"""Reads the identity of one block device from its folder in /sys. Its holders and mounts come from inventory.py."""

from __future__ import annotations

import os
import re

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.pcie import parse_generation
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.block.counters import NETWORK_DISKS, BlockInfo, nvme_head
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.kernel import release_of

_KIND = {
    "dm-": "dm", "loop": "loop", "ram": "ram", "zram": "zram", "sr": "rom", "scd": "rom", "fd": "floppy", "zd": "zvol",
    "ublkb": "ublk", "zloop": "zloop",
}  # fmt: skip
"""The kind of device by the part of its kernel name before the number."""
_CONTROLLER = pattern(r"nvme\d+")
_LVM_SPLIT = pattern(r"(?<!-)-(?!-)")
_SWITCH_SINCE = {"md": (5, 14), "nvme-head": (6, 2), "dm": (6, 5)}
"""The first Linux whose drivers obey queue/iostats, by kind of device."""
_DM_KINDS = (("LVM-", "LVM"), ("CRYPT-", "crypt"), ("mpath-", "mpath"), ("DMRAID-", "dmraid"))


def kind_of(name: str, partition_of: str = "") -> str:
    """Return the kind of a device by its kernel name; "disk" if the name shows no other kind.

    partition_of: the disk of a partition; "" for a whole device.
    """
    if partition_of:
        return "partition"
    if name.startswith("md"):
        return "md"
    stem = name.rstrip("0123456789")
    if stem != name and stem in _KIND:
        return _KIND[stem]
    return "nvme-path" if nvme_head(name) else "disk"


def read_device(root: Root, name: str, numbers: tuple[int, int] | None, partition_of: str = "") -> BlockInfo:
    """Read what every user can read about one device in /sys; a missing value keeps its default.

    numbers: (major, minor) if they are already known. partition_of: the disk of a partition; "" for a whole device.
    Never raises an exception: the values of a removed device are unknown.
    """
    base = _folder(name, partition_of)
    major, minor = numbers or _numbers(root, base)
    kind = kind_of(name, partition_of)
    sectors = root.number_or_none(base + "/size")
    info = BlockInfo(name, major, minor, kind, name, size_bytes=None if sectors is None else sectors * 512)
    if partition_of:
        disk = _folder(partition_of, "")
        queue = disk + "/queue/"
        return info._replace(
            parent=partition_of,
            transport=_transport(root, partition_of, kind_of(partition_of), disk),
            rotational=_flag(root, queue + "rotational"),
            stats_off=_is_uncounted(root, disk, kind_of(partition_of)),
        )
    queue = base + "/queue/"
    read_ahead_kib = root.number_or_none(queue + "read_ahead_kb")
    info = info._replace(
        parent=nvme_head(name),
        slaves=tuple(n.replace("!", "/") for n in root.names(base + "/slaves")),
        transport=_transport(root, name, kind, base),
        rotational=_flag(root, queue + "rotational"),
        queue_depth=_queue_depth(root, base, kind),
        scheduler=_active_scheduler(root.text_or(queue + "scheduler")),
        read_ahead_bytes=None if read_ahead_kib is None else read_ahead_kib * 1024,
        stats_off=_is_uncounted(root, base, kind),
        write_cache=root.text_or(queue + "write_cache"),
        fua=_flag(root, queue + "fua"),
        wbt_us=root.number_or_none(queue + "wbt_lat_usec"),
    )
    add_details = {
        "dm": _add_dm,
        "md": _add_md,
        "loop": _add_loop,
        "zram": _add_kind,
        "ram": _add_kind,
        "zvol": _add_kind,
        "ublk": _add_unknown_backing,
        "zloop": _add_unknown_backing,
    }.get(kind, _add_disk)
    return add_details(root, base, info)


def _folder(name: str, partition_of: str) -> str:
    # sysfs replaces a slash in a name ("cciss/c0d0") by "!".
    folder = name.replace("/", "!")
    return f"sys/block/{partition_of.replace('/', '!')}/{folder}" if partition_of else f"sys/block/{folder}"


def _numbers(root: Root, base: str) -> tuple[int, int]:
    major, _, minor = root.text_or(base + "/dev").partition(":")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def _flag(root: Root, path: str) -> bool | None:
    number = root.number_or_none(path)
    return None if number is None else number != 0


def is_uncounted(root: Root, name: str) -> bool:
    """Whether the kernel does not count the I/O of a whole device now; False if this cannot be read."""
    return _is_uncounted(root, _folder(name, ""), kind_of(name))


def _is_uncounted(root: Root, base: str, kind: str) -> bool:
    """Whether the kernel does not count the I/O of the whole device at ``base``, because queue/iostats is 0.

    Some drivers do not obey that file, which then has 0 by default: zram, bcache and drbd always count, and so do dm
    before Linux 6.5 (526d10061bc2) and md before 5.14. The head of an NVMe multipath device never counts before 6.2
    (d4d957b53d91), but its paths do. A dm device with blk-mq, such as a multipath one, obeys in every version.
    """
    always_counted = kind == "zram" or base.rpartition("/")[2].startswith(("bcache", "drbd"))
    if always_counted or _flag(root, base + "/queue/iostats") is not False:
        return False
    if kind == "dm" and root.exists(base + "/mq"):
        return True
    release = release_of(root.text_or("proc/sys/kernel/osrelease"))
    since = _SWITCH_SINCE.get("nvme-head" if _is_nvme_head(root, base) else kind, (0, 0))
    return release is None or release >= since


def _is_nvme_head(root: Root, base: str) -> bool:
    return "/nvme-subsystem/" in root.link(base)


def _active_scheduler(scheduler: str) -> str:
    """Return the active scheduler, which is in brackets: "mq-deadline" for ``none [mq-deadline] kyber``.

    Some kernels write a lone "none" without brackets.
    """
    _, bracket, rest = scheduler.partition("[")
    return rest.partition("]")[0] if bracket else scheduler


def _queue_depth(root: Root, base: str, kind: str) -> int | None:
    # A device that passes its requests on has no queue of its own; older kernels show a default in nr_requests.
    if kind in ("dm", "md", "ram", "zram", "zvol") or _is_nvme_head(root, base):
        return None
    depths = (
        root.number_or_none(base + "/queue/nr_requests"),
        root.number_or_none(base + "/mq/0/nr_tags"),
        root.number_or_none(base + "/device/queue_depth"),
    )
    return min((depth for depth in depths if depth), default=None)


def _transport(root: Root, name: str, kind: str, base: str) -> str:
    """Return how the device is attached, from its name and its place in the device tree."""
    if kind == "loop":
        return "loop"
    if name.startswith("nvme"):
        return "nvme"
    path = root.link(base)
    if name.startswith("mmcblk"):
        return "mmc"
    if name.startswith("xvd") or "/vbd-" in path:
        return "xen"
    if name.startswith(NETWORK_DISKS):
        return "unknown"
    if name.startswith("vd") or "/virtio" in path:
        return "virtio"
    if "/usb" in path:
        return "usb"
    if ("/ata" in path and re.search(r"/ata\d+/", path)) or root.text_or(base + "/device/vendor") == "ATA":
        return "ata"
    if root.exists(base + "/device/scsi_level"):
        return "scsi"
    return "virtual" if "/virtual/" in path else "unknown"


def _add_kind(root: Root, base: str, info: BlockInfo) -> BlockInfo:
    return info._replace(detail=info.kind)


def _add_dm(root: Root, base: str, info: BlockInfo) -> BlockInfo:
    name, uuid = root.text_or(base + "/dm/name"), root.text_or(base + "/dm/uuid")
    detail = next((text for prefix, text in _DM_KINDS if uuid.startswith(prefix)), "")
    if not detail and "-mpath-" in uuid:
        detail = "mpath partition"
    label = name or info.name
    if detail == "LVM":
        # LVM joins the names of group and volume with a hyphen, and doubles the hyphens that belong to a name.
        group, *volume = _LVM_SPLIT.split(name, maxsplit=1)
        label = "/".join(part.replace("--", "-") for part in (group, *volume)) or info.name
    return info._replace(label=label, detail=detail or "device mapper")


def _add_md(root: Root, base: str, info: BlockInfo) -> BlockInfo:
    level, missing = root.text_or(base + "/md/level"), root.number_or_none(base + "/md/degraded")
    action = root.text_or(base + "/md/sync_action")
    words = (level or "md", "degraded" if missing else "")
    return info._replace(detail=" ".join(filter(None, words)), md_sync="" if action in ("idle", "frozen") else action)


def _add_loop(root: Root, base: str, info: BlockInfo) -> BlockInfo:
    file = root.text_or(base + "/loop/backing_file")
    return info._replace(detail=f"loop {file}" if file else "loop")


def _add_disk(root: Root, base: str, info: BlockInfo) -> BlockInfo:
    device = base + "/device/"
    info = info._replace(
        model=root.text_or(device + "model") or root.text_or(device + "name"),
        serial=read_serial(root, base),
        firmware=next(filter(None, (root.text_or(device + f) for f in ("firmware_rev", "rev", "fwrev"))), ""),
    )
    if info.transport == "nvme":
        fabric = root.text_or(nvme_controller(root, base) + "/transport")
        pcie, pcie_max = _pcie_link(root, base)
        detail = "NVMe" if fabric in ("", "pcie") else f"NVMe over {fabric}"
        controllers = nvme_controllers(root, base)
        return info._replace(detail=detail, pcie=pcie, pcie_max=pcie_max, controllers=controllers)
    return info._replace(detail=_disk_detail(root, base, info))


def _add_unknown_backing(root: Root, base: str, info: BlockInfo) -> BlockInfo:
    """Return the record of a device whose backing program or files the kernel does not show.

    Source: drivers/block/ublk_drv.c.
    """
    return info._replace(detail=f"{info.kind}, backing unknown")


def _disk_detail(root: Root, base: str, info: BlockInfo) -> str:
    if info.kind in ("rom", "floppy"):
        return {"rom": "optical drive", "floppy": "floppy"}[info.kind]
    if info.transport in ("virtio", "xen"):
        return {"virtio": "virtio", "xen": "Xen"}[info.transport]
    if info.transport == "mmc":
        return "eMMC" if root.text_or(base + "/device/type") == "MMC" else "SD card"
    if info.name.startswith(NETWORK_DISKS):
        return "network disk"
    medium = {True: "HDD", False: "SSD", None: "disk"}[info.rotational]
    if info.transport == "ata":
        return f"SATA {medium}"
    if info.transport == "usb":
        # Flash sticks keep the kernel's default, which is rotational, so only False is certain.
        return "USB SSD" if info.rotational is False else "USB disk"
    path = root.link(base)
    if info.transport == "scsi":
        bus = "SAS" if "/end_device-" in path else "iSCSI" if "/session" in path else "FC" if "/rport-" in path else ""
        return f"{bus or 'SCSI'} {medium}"
    return "virtual" if info.transport == "virtual" else "disk"


def read_serial(root: Root, base: str) -> str:
    """Return the serial number of the disk at ``base`` (sys/block/X), or else the world-wide name, or else "".

    The serial number is in "serial" for NVMe, MMC and virtio, and for SCSI in page 0x80, which every user can read.
    """
    for path in ("/device/serial", "/serial"):
        if text := root.text_or(base + path):
            return text
    try:
        page = root.read(base + "/device/vpd_pg80", 256)
    except OSError:
        page = b""
    if len(page) > 4:
        return clean_bytes(page[4 : 4 + int.from_bytes(page[2:4], "big")].strip(b" \0"))
    return root.text_or(base + "/wwid") or root.text_or(base + "/device/wwid")


def nvme_controller(root: Root, base: str) -> str:
    """Return the folder of the NVMe controller, or of the first of several that lead to the disk; "" when unknown."""
    device = base + "/device"
    if root.exists(device + "/transport") or root.exists(device + "/device"):
        return device
    names = nvme_controllers(root, base)
    folders = [f"{folder}/{names[0]}" for folder in (device, "sys/class/nvme")] if names else []
    return next((folder for folder in folders if root.exists(folder)), "")


def nvme_controllers(root: Root, base: str) -> tuple[str, ...]:
    """Return the names of the controllers with a path to an NVMe disk; () when they are unknown.

    The number in a disk's name may differ from its controller's. Since Linux 4.15, a disk is named after its subsystem,
    and only since 5.4 (733e4b69d508) does a subsystem have the number of its first controller. On older kernels, the
    number after "c" in the name of a path (nvme0c1n1) is an ID that the device itself reports. Source:
    drivers/nvme/host/{core,multipath}.c.
    """
    device = base + "/device"
    if root.exists(device + "/transport") or root.exists(device + "/device"):
        controller = os.path.basename(root.real(device))
        return (controller,) if _CONTROLLER.fullmatch(controller) else ()
    name = os.path.basename(base)
    for folder in (device, "sys/class/nvme"):
        names = sorted((n for n in root.names(folder) if _CONTROLLER.fullmatch(n)), key=lambda n: int(n[4:]))
        with_path = [n for n in names if any(e == name or nvme_head(e) == name for e in root.names(f"{folder}/{n}"))]
        if with_path:
            return tuple(with_path)
    return ()


def _pcie_link(root: Root, base: str) -> tuple[str, str]:
    """Return (the present link, the best link), each as PCIe generation x lanes: "4x4"; "" when unknown.

    The best link has the lower of the limits of the device and of the port above it.
    """
    controller = nvme_controller(root, base)
    if not controller:
        return "", ""
    device, port = controller + "/device/", controller + "/device/../"
    now = _link(root, device, "current")
    limits = [_link(root, folder, "max") for folder in (device, port) if root.text_or(folder + "max_link_speed")]
    known = [link for link in limits if link is not None]
    # A limit that is present but not understood may be the lower one, so the best link is then unknown.
    best = (min(g for g, _ in known), min(w for _, w in known)) if known and len(known) == len(limits) else None
    return _link_text(now), _link_text(best)


def _link(root: Root, folder: str, prefix: str) -> tuple[int, int] | None:
    """Return (generation, lanes) from ``16.0 GT/s PCIe`` (or ``16 GT/s``) and ``4``; None if either is unknown."""
    generation = parse_generation(root.text_or(f"{folder}{prefix}_link_speed"))
    width = root.number_or_none(f"{folder}{prefix}_link_width")
    # No link has 64 lanes or more; the kernel writes 255 for an unknown width.
    return None if generation is None or not width or width >= 64 else (generation, width)


def _link_text(link: tuple[int, int] | None) -> str:
    return "" if link is None else f"{link[0]}x{link[1]}"
