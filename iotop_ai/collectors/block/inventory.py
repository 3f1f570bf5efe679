"""Lists the block devices with their identity, mounts and the devices that they are stacked on.

The first read covers all devices; later reads cover new devices and a few old ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from iotop_ai.collectors.block.diskstats import BlockCollector, disk_of
from iotop_ai.collectors.block.identity import is_uncounted, read_device
from iotop_ai.collectors.block.temperature import Temperatures
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root, is_transient
from iotop_ai.collectors.machine.zfs_members import ZfsMembers
from iotop_ai.model.block.counters import BlockInfo, BlockKey, Mount
from iotop_ai.model.block.tree import devices_of_mount, mount_of
from iotop_ai.model.machine.filesystem import is_remote

REFRESH_NS = 30_000_000_000
"""The age of a device's record at which the device is read again, in nanoseconds."""
ROUND_NS = 25_000_000_000
"""The time in which the ticks read all devices again, in nanoseconds: less than ``REFRESH_NS``."""
_MOST_MOUNTS = 8
"""The maximum number of mounts that are listed for a device."""
NO_POOLS: Mapping[str, str] = {}
_CONTAINER_FILES = frozenset(("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log"))
"""Files on which container runtimes mount a file of the host."""


class MountSource(Protocol):
    """The part of MountsCollector that this module uses."""

    mounts: tuple[Mount, ...]
    generation: int

    def all_mounts(self) -> tuple[Mount, ...]:
        """Return all mounts, including the kernel's own mounts and those in memory."""


class BlockInfoCollector:
    """Collects the BlockInfo of every device and partition by kernel name, in the order of /proc/diskstats.

    A device is read when it appears, and again every 30 s. At short intervals, a tick reads only a few devices again,
    beginning with the oldest record, so that a thousand devices do not cause a burst. The devices are joined with their
    holders and mounts after each change; without a change, the same mapping is returned.
    """

    field = "disks"
    every_s = 0.0

    def __init__(
        self,
        root: Root,
        clock: Clock,
        block: BlockCollector | None = None,
        mounts: MountSource | None = None,
        temperatures: Temperatures | None = None,
    ) -> None:
        self._root = root
        self._clock = clock
        self._block = block
        self._mounts = mounts
        self._temperatures = temperatures or Temperatures(root)
        self._members = ZfsMembers(root)
        self._members_asked_ns: int | None = None
        self._unjoined: dict[str, BlockInfo] = {}
        self._keys: dict[str, BlockKey] = {}
        self._read_ns: dict[str, int] = {}
        self._joined: dict[str, BlockInfo] = {}
        self._joined_inputs: tuple[object, ...] = ()
        self._generation = -1
        self._active: set[str] = set()
        self._changing: frozenset[str] = frozenset()
        """The devices whose counters changed in the previous tick."""
        self._temperatures_asked_ns: int | None = None
        self._at_ns: int | None = None

    def read(self) -> dict[str, BlockInfo]:
        """Return the table: the same object as before if it did not change."""
        now = self._clock.monotonic_ns()
        changed = self._update_list(now)
        changed |= self._check_accounting(now)
        changed |= self._refresh(now)
        self._ask_temperatures(now)
        mounts = self._mounts.mounts if self._mounts else ()
        self._ask_members(mounts, now)
        inputs = (self._mounts.generation if self._mounts else 0, self._temperatures.celsius, self._members.pools)
        if changed or inputs != self._joined_inputs or self._at_ns is None:
            joined = self._join(mounts)
            if joined != self._joined or list(joined) != list(self._joined):
                self._joined = joined
            self._joined_inputs = inputs
        self._at_ns = self._clock.monotonic_ns()
        return self._joined

    def at_ns(self) -> int | None:
        """Return the time at which the table was last checked; None before the first read."""
        return self._at_ns

    def _update_list(self, now: int) -> bool:
        """Read new and replaced devices, and forget removed ones; return whether the list changed."""
        if self._block is not None:
            self._active |= self._block.changed
            if self._block.generation == self._generation:
                return False
            self._generation = self._block.generation
            keys = {key.name: key for key in self._block.keys}
        else:
            # Without a BlockCollector, the list is read again as often as the temperatures.
            if self._temperatures_asked_ns is not None and now - self._temperatures_asked_ns < REFRESH_NS:
                return False
            names = self._root.names("sys/class/block")
            keys = {n.replace("!", "/"): BlockKey(n.replace("!", "/"), 0) for n in names}
        to_read = [name for name, key in keys.items() if self._keys.get(name) != key]
        self._keys = keys
        for name in to_read:
            self._read_one(name, now)
        removed = self._unjoined.keys() - keys.keys()
        self._read_ns = {name: at for name, at in self._read_ns.items() if name not in removed}
        self._unjoined = {name: self._unjoined[name] for name in keys}
        return bool(to_read or removed)

    def _check_accounting(self, now: int) -> bool:
        """Read again the devices whose I/O the kernel has stopped counting; return whether there are any.

        Their counters stop, as those of an idle device do, so that their figures would be 0 until they are due again.
        Devices that were idle already are not checked, because a tick would read a file for each idle device.
        """
        if self._block is None:
            return False
        stopped, self._changing = self._changing - self._block.changed, self._block.changed
        disks = {disk_of(name, self._keys) or name for name in stopped if name in self._unjoined}
        off = {disk for disk in disks if not self._unjoined[disk].stats_off and is_uncounted(self._root, disk)}
        affected = [name for name in self._unjoined if (disk_of(name, self._keys) or name) in off] if off else []
        for name in affected:
            self._read_one(name, now)
        return bool(affected)

    def _refresh(self, now: int) -> bool:
        """Read again a few devices that were last read at least 30 s ago; return whether a record changed."""
        due = sorted((at, name) for name, at in self._read_ns.items() if now - at >= REFRESH_NS)
        # The longer the interval, the more devices a tick reads; otherwise a record's age would be counted in ticks.
        elapsed_ns = now - (self._at_ns or now)
        most = max(8, -(-len(self._unjoined) * elapsed_ns // ROUND_NS))
        changed = False
        for _, name in due[:most] if due and self._can_open() else ():
            before = self._unjoined[name]
            self._read_one(name, now)
            changed |= self._unjoined[name] != before
        return changed

    def _can_open(self) -> bool:
        """Whether files can be opened. With too many open files, the values of every device would seem unknown."""
        try:
            self._root.entries("sys/block")
        except OSError as error:
            return not is_transient(error)  # the devices can be read even if we may not list them
        return True

    def _read_one(self, name: str, now: int) -> None:
        numbers = self._block.numbers.get(name) if self._block is not None else None
        self._unjoined[name] = read_device(self._root, name, numbers, disk_of(name, self._keys))
        self._read_ns[name] = now

    def _ask_temperatures(self, now: int) -> None:
        if self._temperatures_asked_ns is None or now - self._temperatures_asked_ns >= REFRESH_NS:
            self._temperatures_asked_ns = now
            self._temperatures.ask({self._keys[name]: info for name, info in self._unjoined.items()}, self._active)
            self._active = set()

    def _ask_members(self, mounts: tuple[Mount, ...], now: int) -> None:
        due = self._members_asked_ns is None or now - self._members_asked_ns >= REFRESH_NS
        if due and any(mount.fstype == "zfs" for mount in mounts):
            self._members_asked_ns = now
            self._members.ask()

    def _join(self, mounts: tuple[Mount, ...]) -> dict[str, BlockInfo]:
        holders: dict[str, list[str]] = {}
        for info in self._unjoined.values():
            for slave in info.slaves:
                holders.setdefault(slave, []).append(info.name)
        device_mounts = mounts_by_device(self._root, self._unjoined, mounts, self._members.pools)
        celsius = self._temperatures.celsius
        joined = {
            name: info._replace(
                holders=tuple(holders.get(name, ())),
                mounts=tuple(device_mounts.get(name, ())),
                temperature_celsius=celsius.get(self._keys[name]),
            )
            for name, info in self._unjoined.items()
        }
        file_loops = [info for info in joined.values() if info.kind == "loop" and info.detail != "loop"]
        # The file of a loop device may be on a mount in memory, which ``mounts`` does not list.
        all_mounts = self._mounts.all_mounts() if file_loops and self._mounts else ()
        for info in file_loops:
            joined[info.name] = with_backing_devices(info, all_mounts, joined)
        return joined

    def close(self) -> None:
        """End the thread that reads which disks belong to ZFS pools."""
        self._members.close()


def with_backing_devices(info: BlockInfo, mounts: Iterable[Mount], infos: Mapping[str, BlockInfo]) -> BlockInfo:
    """Return the loop device with the filesystem of its file and the devices that hold the file.

    Without a mount for the file, ``info`` is returned unchanged. A file on another machine has no devices here.
    """
    mount = mount_of(info.detail.removeprefix("loop "), mounts)
    if mount is None:
        return info
    below = (
        ()
        if is_remote(mount.fstype, mount.source)
        else tuple(n for n in devices_of_mount(mount, infos) if n != info.name)
    )
    return info._replace(below=below, backing_fstype=mount.fstype)


def mounts_by_device(
    root: Root, infos: Mapping[str, BlockInfo], mounts: Iterable[Mount], zfs: Mapping[str, str] = NO_POOLS
) -> dict[str, list[Mount]]:
    """Return the mounts by the kernel name of their devices.

    The devices of a mount are found by its device number; for btrfs and bcachefs, by the filesystem's list of devices;
    for ZFS, by ``zfs``, which has the pool of each device by device number; otherwise by its source. A bind mount is
    listed only if the whole filesystem is not mounted, as in a container that has only a part of a disk.
    """
    by_number = {f"{i.major}:{i.minor}": i.name for i in infos.values() if i.major}
    by_source = {f"/dev/{i.name}": i.name for i in infos.values()}
    by_source |= {
        f"/dev/mapper/{root.text_or(f'sys/block/{n}/dm/name')}": n for n, i in infos.items() if i.kind == "dm"
    }
    filesystems = _btrfs_members(root)
    by_device: dict[str, list[Mount]] = {}
    for mount in mounts:
        if mount.device in by_number:
            names = [by_number[mount.device]]
        elif mount.fstype in ("btrfs", "bcachefs"):
            named = [by_source[s] for s in mount.source.split(":") if s in by_source]
            names = next((members for members in filesystems if set(named) & set(members)), named)
        elif mount.fstype == "zfs":
            pool = mount.source.split("/")[0]
            names = [by_number[number] for number, name in zfs.items() if name == pool and number in by_number]
        else:
            names = [by_source[mount.source]] if mount.source in by_source else []
        for name in names:
            by_device.setdefault(name, []).append(mount)
    return {name: _main_mounts(device_mounts) for name, device_mounts in by_device.items()}


def _btrfs_members(root: Root) -> list[list[str]]:
    """Return the kernel names of the devices of each mounted btrfs. Source: the links in /sys/fs/btrfs/UUID/devices."""
    folder = "sys/fs/btrfs"
    filesystems = (root.names(f"{folder}/{uuid}/devices") for uuid in root.names(folder) if "-" in uuid)
    return [[name.replace("!", "/") for name in names] for names in filesystems if names]


def _main_mounts(mounts: list[Mount]) -> list[Mount]:
    """Return at most 8 mounts of the whole filesystem, or else of its parts, the shortest paths first.

    The single files that a container runtime mounts are left out.
    """
    whole = [m for m in mounts if m.root == "/" or m.fstype == "btrfs"]
    selected = whole or [m for m in mounts if m.path not in _CONTAINER_FILES]
    return sorted(selected, key=lambda m: (len(m.path), m.path))[:_MOST_MOUNTS]
