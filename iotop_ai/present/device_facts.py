"""The facts about one device as labelled fields: what it has shown it can do, its queue, what it stands on, mounts."""

from __future__ import annotations

from iotop_ai.model.block import BlockInfo
from iotop_ai.model.frame import Frame
from iotop_ai.present import devices
from iotop_ai.present.columns import Column, head, placed
from iotop_ai.present.device_figures import most_seen
from iotop_ai.present.devices import Device
from iotop_ai.present.fields import Field
from iotop_ai.present.line import Cell, Line, cut, place
from iotop_ai.present.path import fold_names
from iotop_ai.present.units import UNDEFINED, UNKNOWN, count, duration, figure, percent, rate, size
from iotop_ai.present.view import View

_MOUNT_COLUMNS = (
    Column("fstype", "type", 9, 3, 12, left=True),
    Column("full", "full%", 7, 0),
    Column("free", "free", 7, 0, 9),
    Column("size", "of", 7, 1, 9),
    Column("inodes", "inodes%", 9, 2),
    Column("source", "from", 16, 4, left=True, gap=2),
)
_PATH = 28


def ceilings(frame: Frame, view: View, device: Device) -> list[Field]:
    """The most of one interval in all that is kept, and the sizes of requests now."""
    most = most_seen((*view.past, *frame.history), device.key)
    if most.read_bytes_per_s is None:
        return []
    read, read_unit = rate(most.read_bytes_per_s)
    write, write_unit = rate(most.write_bytes_per_s)
    out = [
        Field("most in", duration(most.seconds)),
        Field("read", read, f" {read_unit}"),
        Field("written", write, f" {write_unit}"),
        Field("r/s", count(most.reads_per_s)),
        Field("w/s", count(most.writes_per_s)),
        Field("aqu-sz", figure(most.queue_size)),
    ]
    now = device.rates
    for label, mean in (("size of a read now", now.read_size_bytes), ("of a write", now.write_size_bytes)):
        out.append(Field(label, UNDEFINED if mean is None else size(mean)))
    return out


def settings(frame: Frame, device: Device) -> list[Field]:
    """Its queue and place; what the kernel does not tell is left out."""
    info = device.info
    if info is None:
        return []
    out = []
    if info.queue_depth is not None:
        out.append(Field("queue", str(info.queue_depth), " requests"))
    if info.scheduler:
        out.append(Field("scheduler", info.scheduler))
    out += _writing(info)
    if info.read_ahead_bytes is not None:
        out.append(Field("read-ahead", size(info.read_ahead_bytes)))
    if info.rotational is not None and info.transport in ("ata", "scsi", "usb"):
        out.append(Field("rotates", "yes" if info.rotational else "no"))
    if info.transport not in ("", "unknown"):
        out.append(Field("by", info.transport))
    if info.pcie:
        better = info.pcie_max and info.pcie_max != info.pcie
        out.append(Field("PCIe", info.pcie, f" of {info.pcie_max}" if better else ""))
    if info.firmware:
        out.append(Field("firmware", info.firmware))
    if info.md_sync:
        out.append(Field("array", info.md_sync))
    if info.stats_off:
        out.append(Field("statistics", "off", " (queue/iostats)"))
    below = [name for name in devices.leaves(device.name, frame) if name != device.name]
    if below:
        short = [name[:-2] if name.startswith("nvme") and name.endswith("n1") else name for name in below]
        out.append(Field("lies on", fold_names(short)))
    if info.holders:
        out.append(Field("carries", fold_names(list(info.holders))))
    return out


def _writing(info: BlockInfo) -> list[Field]:
    """What happens to a write; what the kernel does not tell is said to be unknown, but of a disk alone."""
    out = []
    alone = info.kind == "disk"
    if info.write_cache or alone:
        out.append(Field("cache", info.write_cache or "unknown"))
    if info.fua is not None or alone:
        out.append(Field("FUA", "unknown" if info.fua is None else "yes" if info.fua else "no"))
    if info.wbt_us is not None or alone:
        wbt = "unknown" if info.wbt_us is None else f"{info.wbt_us / 1e3:g} ms" if info.wbt_us else "off"
        out.append(Field("wbt", wbt))
    return out


def fullness(frame: Frame, device: Device) -> list[Field]:
    """How full the filesystems on the device are, the fullest first; those that nobody could ask last."""
    usage = frame.snapshot.filesystems.value or {}
    known: list[tuple[float, Field]] = []
    for mount in devices.mounts(device.name, frame):
        told = None if (reading := usage.get(mount.path)) is None else reading.value
        ratio = None if told is None else told.used_ratio
        tail = "" if told is None else f" % full of {size(told.total_bytes)}"
        known.append((-1.0 if ratio is None else ratio, Field(mount.path, percent(ratio), tail)))
    return [fact for _, fact in sorted(known, key=lambda one: -one[0])]


def mount_rows(frame: Frame, device: Device, width: int, most: int) -> list[Line]:
    """Titles, then at most so many filesystems on the device with how full they are; [] without any."""
    found = devices.mounts(device.name, frame)
    if not found or most < 1:
        return []
    usage = frame.snapshot.filesystems.value or {}
    path_room = min(_PATH, max(10, width // 3))
    columns = [c for c in _MOUNT_COLUMNS if c.id != "source" or width >= 80]
    at = placed(columns, path_room, width - 1)
    more = len(found) - most
    note = f"{len(found)} mounts" if more > 0 else "mount" if len(found) == 1 else "mounts"
    out = [head(width, note, at)]
    for mount in found[:most]:
        reading = usage.get(mount.path)
        told = None if reading is None else reading.value
        texts = {
            "fstype": mount.fstype + (" ro" if mount.read_only else ""),
            "full": UNKNOWN if told is None else percent(told.used_ratio),
            "free": UNKNOWN if told is None else size(told.available_bytes),
            "size": UNKNOWN if told is None else size(told.total_bytes),
            "inodes": UNKNOWN if told is None else _share(told.inodes_used_ratio),
            "source": mount.source,
        }
        cells = [spot.cell(texts[spot.column.id]) for spot in at]
        out.append(place(width, Cell(1, cut(mount.path, path_room - 2)), *cells))
    return out


def _share(ratio: float | None) -> str:
    return UNDEFINED if ratio is None else percent(ratio)
