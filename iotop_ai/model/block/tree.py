"""The stacking of block devices (partitions, md, dm, multipath, loop devices) and the mounts on them.

All functions are pure. For an unknown device name they return an empty result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo, Mount

if TYPE_CHECKING:
    from iotop_ai.model.job.records import JobMount

BlockInfos = Mapping[str, BlockInfo]
"""The BlockInfo of each device, by its kernel name."""

_MULTI_DEVICE = ("btrfs", "bcachefs")
"""Filesystems that may be on several devices, so their device number is not the number of a device."""
_HIDDEN_KINDS = frozenset(("loop", "ram", "zram", "rom", "floppy"))
_FOLDED_KINDS = frozenset(("partition", "nvme-path"))
"""Kinds of devices that always fold: they are listed, indented, under another device."""


def hidden_when_idle(info: BlockInfo) -> bool:
    """Whether the device is shown only while active: a loop device, memory, a removable drive or an empty slot."""
    return info.kind in _HIDDEN_KINDS or info.size_bytes == 0


def below_of(info: BlockInfo) -> tuple[str, ...]:
    """The devices directly below: a partition's disk, a stack's slaves, or those that hold a loop device's file."""
    return (info.parent,) if info.kind == "partition" else info.slaves or info.below


def leaves_below(name: str, infos: BlockInfos) -> tuple[str, ...]:
    """The lowest devices below ``name``, each once, in the order of the tree; ``name`` if nothing is below it."""
    leaves: dict[str, None] = {}
    seen: set[str] = set()

    def walk(device: str) -> None:
        if device in seen or device not in infos:
            return
        seen.add(device)
        below = [n for n in below_of(infos[device]) if n in infos]
        if not below:
            leaves[device] = None
        for n in below:
            walk(n)

    walk(name)
    return tuple(leaves)


def partitions_of(name: str, infos: BlockInfos) -> tuple[str, ...]:
    """The names of a disk's partitions, in the order of the table."""
    return tuple(i.name for i in infos.values() if i.kind == "partition" and i.parent == name)


def mounts_on(name: str, infos: BlockInfos) -> tuple[Mount, ...]:
    """The mounts of a device and of every device above it, nearest first; each mount point appears once."""
    by_path: dict[str, Mount] = {}
    queue, seen = [name], {name}
    while queue:
        info = infos.get(queue.pop(0))
        if info is None:
            continue
        for mount in info.mounts:
            by_path.setdefault(mount.path, mount)
        above = [n for n in (*partitions_of(info.name, infos), *info.holders) if n not in seen]
        seen.update(above)
        queue.extend(above)
    return tuple(by_path.values())


class DeviceRow(NamedTuple):
    """A device's place in a list.

    title: the device's label; for a top device over several disks, with the number of disks ("md0 x4")
    depth: 0 for a top device, 1 for a device folded under the device ``under``
    member: whether the device is a disk or a path whose bytes the device ``under`` counts too
    """

    name: str
    title: str
    depth: int = 0
    under: str = ""
    member: bool = False
    hidden_when_idle: bool = False


def device_rows(infos: BlockInfos, names: Iterable[str] | None = None) -> tuple[DeviceRow, ...]:
    """The rows of a list of the devices ``names`` (by default all): each top device, followed by those folded under it.

    An array or volume over several disks is a top device, and its disks fold under it, except a disk that also has
    other uses. Devices on one disk (partitions, volumes, crypt) fold under that disk, and devices on an array under the
    array. Devices that are hidden when idle come last. Otherwise the order is that of ``names``. A device whose top
    device is not in ``names`` is listed at the end, as a top device.
    """
    tree = _Tree(infos)
    under: dict[str, list[DeviceRow]] = {}
    tops: list[DeviceRow] = []
    for name in infos if names is None else names:
        info = infos.get(name)
        if info is None:
            continue
        parent, leaves = tree.row_parent(name), tree.leaves(name)
        # The list has two levels, so a device does not fold under one that is itself folded.
        if tree.row_parent(parent) != parent:
            parent = name
        disk_count_text = f" x{len(leaves)}" if len(leaves) > 1 and parent == name and info.slaves else ""
        row = DeviceRow(name, (info.label or name) + disk_count_text, hidden_when_idle=hidden_when_idle(info))
        if parent == name:
            tops.append(row)
        else:
            member = info.kind == "nvme-path" or name in tree.leaves(parent)
            under.setdefault(parent, []).append(row._replace(depth=1, under=parent, member=member))
    tops.sort(key=lambda row: row.hidden_when_idle)
    listed = {row.name for row in tops}
    orphans = [
        row._replace(depth=0, under="") for parent, rows in under.items() if parent not in listed for row in rows
    ]
    return tuple(row for top in (*tops, *orphans) for row in (top, *under.get(top.name, ())))


class _Tree:
    """The relations between the devices of one table; each relation is computed once."""

    def __init__(self, infos: BlockInfos) -> None:
        self._infos = infos
        self._leaves: dict[str, tuple[str, ...]] = {}
        self._row_parents: dict[str, str] = {}
        self._partitions: dict[str, list[str]] = {}
        for info in infos.values():
            if info.kind == "partition":
                self._partitions.setdefault(info.parent, []).append(info.name)

    def leaves(self, name: str) -> tuple[str, ...]:
        """The cached result of ``leaves_below``."""
        if name not in self._leaves:
            self._leaves[name] = leaves_below(name, self._infos)
        return self._leaves[name]

    def topmost_users(self, name: str) -> list[str]:
        """The topmost md and dm devices that use ``name`` or its partitions."""
        topmost: dict[str, None] = {}
        seen, queue = {name}, [name]
        while queue:
            info = self._infos.get(queue.pop())
            if info is None:
                continue
            above = [*info.holders, *self._partitions.get(info.name, ())]
            if not above and info.slaves:
                topmost[info.name] = None
            queue.extend(n for n in above if n not in seen)
            seen.update(above)
        return list(topmost)

    def row_parent(self, name: str) -> str:
        """The device under which ``name`` folds, or ``name`` if it is a top device."""
        if name not in self._row_parents:
            self._row_parents[name] = name  # ends the recursion in a cycle, which a table may contain during a change
            self._row_parents[name] = self._find_row_parent(name)
        return self._row_parents[name]

    def _find_row_parent(self, name: str) -> str:
        info = self._infos[name]
        if info.kind in _FOLDED_KINDS:
            return self.row_parent(info.parent) if info.parent in self._infos else name
        if info.kind == "loop":
            return name
        leaves = self.leaves(name)
        if len(leaves) > 1:
            return self.array_below(name)
        if leaves and leaves[0] != name:
            return self.row_parent(leaves[0])
        users = self.topmost_users(name)
        arrays = {self.array_below(user) for user in users if len(self.leaves(user)) > 1}
        has_other_uses = any(len(self.leaves(user)) == 1 for user in users) or self.mounted(name)
        return arrays.pop() if len(arrays) == 1 and not has_other_uses else name

    def array_below(self, name: str) -> str:
        """The lowest device at or below ``name`` with the same disks, such as the array below crypt and volumes."""
        disk_count = len(self.leaves(name))
        seen = {name}
        while True:
            below = below_of(self._infos[name])
            same = [n for n in below if n in self._infos and n not in seen and len(self.leaves(n)) == disk_count]
            if not same:
                return name
            name = same[0]
            seen.add(name)

    def mounted(self, name: str) -> bool:
        """Whether the disk or one of its partitions is mounted directly."""
        return any(self._infos[n].mounts for n in (name, *self._partitions.get(name, ())))


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that contains an absolute path: the one with the longest mount point; None without one.

    Of several mounts on that mount point, the last counts. The path is compared as given; the caller resolves links.
    """
    best: Mount | None = None
    for mount in mounts:
        inside = mount.path == "/" or path == mount.path or path.startswith(mount.path + "/")
        if inside and (best is None or len(mount.path) >= len(best.path)):
            best = mount
    return best


def devices_of_mount(mount: Mount | JobMount, infos: BlockInfos) -> tuple[str, ...]:
    """The kernel names of the devices that hold a mounted filesystem; several for btrfs or ZFS, none on a network.

    The devices are found by the mount's device number; else by a mount of the same filesystem or ZFS pool in their
    ``mounts``; else by a mount there with the same path and type.
    """
    ways = (_has_number, _has_storage, _has_path)
    found = (tuple(i.name for i in infos.values() if holds(i, mount)) for holds in ways)
    return next(filter(None, found), ())


def disks_of_mount(mount: Mount | JobMount, infos: BlockInfos) -> tuple[str, ...]:
    """The same devices as ``devices_of_mount``, but the disk of each partition instead of the partition."""
    holders = [infos[name] for name in devices_of_mount(mount, infos)]
    disks = (i.parent if i.kind == "partition" and i.parent in infos else i.name for i in holders)
    return tuple(dict.fromkeys(disks))


def _has_number(info: BlockInfo, mount: Mount | JobMount) -> bool:
    return f"{info.major}:{info.minor}" == mount.device


def _has_storage(info: BlockInfo, mount: Mount | JobMount) -> bool:
    return any(same_storage(listed, mount) for listed in info.mounts)


def _has_path(info: BlockInfo, mount: Mount | JobMount) -> bool:
    return any((listed.path, listed.fstype) == (mount.path, mount.fstype) for listed in info.mounts)


def same_storage(listed: Mount, mount: Mount | JobMount) -> bool:
    """Whether two mounts are on the same btrfs, bcachefs or ZFS pool.

    Paths are not compared: only a few mounts of a device are listed, and a container sees other paths. The datasets of
    a ZFS pool have different device numbers; the subvolumes of a btrfs have the same.
    """
    if listed.fstype != mount.fstype:
        return False
    if mount.fstype == "zfs":
        return listed.source.split("/")[0] == mount.source.split("/")[0]
    return mount.fstype in _MULTI_DEVICE and bool(mount.device) and listed.device == mount.device


def chain_below(name: str, infos: BlockInfos) -> tuple[str, ...]:
    """The device, the first device below it, and so on to the lowest: ("dm-0", "md0", "nvme0n1")."""
    chain = []
    while name in infos and name not in chain:
        chain.append(name)
        below = below_of(infos[name])
        name = below[0] if below else ""
    return tuple(chain)
