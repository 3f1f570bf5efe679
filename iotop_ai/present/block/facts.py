"""The facts about a disk as labelled fields: its peaks, its queue and settings, the disks below it, and its mounts."""

from __future__ import annotations

from iotop_ai.model.block.counters import UNKNOWN_BLOCK_RATES, BlockInfo
from iotop_ai.model.frame import Frame
from iotop_ai.present.block import devices
from iotop_ai.present.block.devices import BlockDevice
from iotop_ai.present.block.figures import device_peaks
from iotop_ai.present.block.table import mean_size_text
from iotop_ai.present.job.data_path import fold_names
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fields import Field
from iotop_ai.present.text.line import Cell, Line, cut, place
from iotop_ai.present.text.table import Column, head, place_columns
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, count, duration, figure, percent, rate, size

MOUNT_COLUMNS = (
    Column("fstype", "type", 9, 3, 12, left=True),
    Column("full", "used%", 7, 0),
    Column("free", "free", 7, 0, 9),
    Column("size", "of", 7, 1, 9),
    Column("inodes", "inodes%", 9, 2),
    Column("source", "from", 16, 4, left=True, gap=2),
)
_PATH_WIDTH = 28
"""The maximum width of a mount point in columns, with the gap after it."""


def peak_fields(frame: Frame, view: View, device: BlockDevice) -> list[Field]:
    """The disk's peaks over the Samples of the View and the Frame, and its current request sizes; [] when unknown."""
    peaks = device_peaks((*view.past, *frame.history), device.key)
    if peaks.read_bytes_per_s is None:
        return []
    read, read_unit = rate(peaks.read_bytes_per_s)
    write, write_unit = rate(peaks.write_bytes_per_s)
    out = [
        Field("most in", duration(peaks.seconds)),
        Field("read", read, f" {read_unit}"),
        Field("written", write, f" {write_unit}"),
        Field("r/s", count(peaks.reads_per_s)),
        Field("w/s", count(peaks.writes_per_s)),
        Field("aqu-sz", figure(peaks.queue_size)),
    ]
    # In accumulation mode, device.rates are not the current rates but those since ``view.base``.
    now = (frame.sample.block.value or {}).get(device.key, UNKNOWN_BLOCK_RATES)
    out.append(Field("size of a read now", mean_size_text(now.read_size_bytes, now.reads_per_s)))
    out.append(Field("of a write", mean_size_text(now.write_size_bytes, now.writes_per_s)))
    return out


def settings(frame: Frame, device: BlockDevice) -> list[Field]:
    """The disk's queue settings, transport, link, firmware and stack. Most unknown fields are left out."""
    info = device.info
    if info is None:
        return []
    out = []
    if info.queue_depth is not None:
        out.append(Field("queue", str(info.queue_depth), " requests"))
    if info.scheduler:
        out.append(Field("scheduler", info.scheduler))
    out += _write_settings(info)
    if info.read_ahead_bytes is not None:
        out.append(Field("read-ahead", size(info.read_ahead_bytes)))
    if info.rotational is not None and info.transport in ("ata", "scsi", "usb"):
        out.append(Field("rotates", "yes" if info.rotational else "no"))
    if info.transport not in ("", "unknown"):
        out.append(Field("by", info.transport))
    if info.pcie:
        is_slower = info.pcie_max not in ("", info.pcie)
        out.append(Field("PCIe", info.pcie, f" of {info.pcie_max}" if is_slower else ""))
    if info.firmware:
        out.append(Field("firmware", info.firmware))
    if info.md_sync:
        out.append(Field("array", info.md_sync))
    if info.stats_off:
        out.append(Field("statistics", "off", f" ({info.stats_remedy})"))
    below = [devices.without_namespace(name) for name in devices.leaves(device.name, frame) if name != device.name]
    if below:
        out.append(Field("lies on", fold_names(below)))
    if info.holders:
        out.append(Field("carries", fold_names(list(info.holders))))
    return out


def _write_settings(info: BlockInfo) -> list[Field]:
    """Write cache, FUA and writeback throttling. Unknown values are shown as "unknown" for a disk, and left out for a
    stacked device.
    """
    out = []
    is_disk = info.kind == "disk"
    if info.write_cache or is_disk:
        out.append(Field("cache", info.write_cache or "unknown"))
    if info.fua is not None or is_disk:
        out.append(Field("FUA", "unknown" if info.fua is None else "yes" if info.fua else "no"))
    if info.wbt_us is not None or is_disk:
        wbt = "unknown" if info.wbt_us is None else f"{info.wbt_us / 1e3:g} ms" if info.wbt_us else "off"
        out.append(Field("wbt", wbt))
    return out


def fullness(frame: Frame, device: BlockDevice) -> list[Field]:
    """How full the filesystems on the disk are: the fullest first, unknown ones last."""
    usage = frame.snapshot.filesystems.value or {}
    fields: list[tuple[float, Field]] = []
    for mount in devices.mounts(device.name, frame):
        filesystem = None if (reading := usage.get(mount.path)) is None else reading.value
        ratio = None if filesystem is None else filesystem.used_ratio
        tail = "" if filesystem is None else f" % used of {size(filesystem.total_bytes)}"
        fields.append((-1.0 if ratio is None else ratio, Field(mount.path, percent(ratio), tail)))
    return [field for _, field in sorted(fields, key=lambda entry: -entry[0])]


def mount_rows(frame: Frame, device: BlockDevice, width: int, most: int) -> list[Line]:
    """The column titles, then up to ``most`` mounts on the disk with the usage of their filesystems; [] if there are
    none.
    """
    mounts = devices.mounts(device.name, frame)
    if not mounts or most < 1:
        return []
    usage = frame.snapshot.filesystems.value or {}
    path_room = min(_PATH_WIDTH, max(10, width // 3))
    columns = [c for c in MOUNT_COLUMNS if c.id != "source" or width >= 80]
    slots = place_columns(columns, path_room, width - 1)
    title = f"{len(mounts)} mounts" if len(mounts) > most else "mount" if len(mounts) == 1 else "mounts"
    out = [head(width, title, slots)]
    for mount in mounts[:most]:
        reading = usage.get(mount.path)
        filesystem = None if reading is None else reading.value
        texts = {
            "fstype": mount.fstype + (" ro" if mount.read_only else ""),
            "full": UNKNOWN if filesystem is None else percent(filesystem.used_ratio),
            "free": UNKNOWN if filesystem is None else size(filesystem.available_bytes),
            "size": UNKNOWN if filesystem is None else size(filesystem.total_bytes),
            "inodes": UNKNOWN if filesystem is None else _inode_share(filesystem.inodes_used_ratio),
            "source": mount.source,
        }
        cells = [slot.cell(texts[slot.column.id]) for slot in slots]
        out.append(place(width, Cell(1, cut(mount.path, path_room - 2)), *cells))
    return out


def _inode_share(ratio: float | None) -> str:
    """The share of used inodes; "-" on a filesystem without a fixed number of inodes."""
    return UNDEFINED if ratio is None else percent(ratio)
