"""/proc/self/mountinfo: which filesystem lies where; and the disks behind a folder."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.root import KeptFile, Root
from iotop_ai.model.block import BlockInfo, Mount
from iotop_ai.model.block_tree import chain_below, devices_of_mount, leaves_below, mount_of
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.filesystem import is_remote
from iotop_ai.model.pattern import pattern
from iotop_ai.model.record import NamedTuple

__all__ = ["MountsCollector", "PathDevices", "mount_of", "parse_mountinfo", "resolve_path_devices"]

_LOCAL_WITHOUT_DEVICE = frozenset(("btrfs", "zfs", "bcachefs", "overlay"))
MEMORY = frozenset(("tmpfs", "ramfs"))
_KERNELS_OWN = ("/proc", "/sys", "/run", "/dev")
_FUSE_SERVICES = frozenset(("fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal", "fuse.snapfuse"))
_ESCAPE = pattern(rb"\\([0-7]{3})")
_MOST_LAYERS = 8


def _unescape(raw: bytes) -> str:
    if b"\\" not in raw:
        return clean_bytes(raw)
    return clean_bytes(_ESCAPE.sub(lambda m: bytes((int(m[1], 8) & 255,)), raw))


def parse_mountinfo(raw: bytes) -> tuple[Mount, ...]:
    """The filesystems that hold people's data, in the file's order; a mount hidden by a later one is left out.

    Kept: on a device, btrfs, zfs, overlay, network, FUSE, and memory (tmpfs) outside /proc, /sys, /run and /dev but
    for /dev/shm. Sample: ``36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue``.
    Source: https://docs.kernel.org/filesystems/proc.html, part 3.5.
    """
    found: dict[str, Mount] = {}
    for line in raw.split(b"\n"):
        left, dash, right = line.partition(b" - ")
        own, what = left.split(b" "), right.split(b" ")
        if not dash or len(own) < 6 or len(what) < 3:
            continue
        fstype, path, device = clean_bytes(what[0]), _unescape(own[4]), clean_bytes(own[2])
        read_only = b"ro" in own[5].split(b",") or b"ro" in what[2].split(b",")
        found.pop(path, None)
        if not _holds_data(fstype, path, device, read_only):
            continue
        layers = _layers(what[2]) if fstype == "overlay" else ()
        found[path] = Mount(path, fstype, _unescape(what[1]), read_only, device, _unescape(own[3]), layers)
    return tuple(found.values())


def _holds_data(fstype: str, path: str, device: str, read_only: bool) -> bool:
    if fstype in MEMORY:
        kernels_own = any(path == top or path.startswith(top + "/") for top in _KERNELS_OWN)
        return path == "/dev/shm" or not (read_only or kernels_own)
    if fstype in _FUSE_SERVICES:
        return False
    return not device.startswith("0:") or fstype in _LOCAL_WITHOUT_DEVICE or is_remote(fstype)


def _layers(options: bytes) -> tuple[str, ...]:
    """upperdir, then lowerdirs, of an overlay's super options."""
    upper, lower = [], []
    for option in options.split(b","):
        name, _, value = option.partition(b"=")
        if name == b"upperdir":
            upper.append(_unescape(value))
        elif name in (b"lowerdir", b"lowerdir+"):
            lower += [_unescape(part) for part in value.split(b":") if part]
    return tuple((upper + lower)[:_MOST_LAYERS])


_LOOK_EVERY = 5
"""Reads between two looks at a table of which the kernel says nothing: a filesystem that turns itself read-only after
an error stands there without a word."""


class MountsCollector:
    """The mounts of our own namespace. generation: grows when they change. mounts: as of the newest read.

    The kernel tells who polls the table that something was mounted or unmounted (fs/proc_namespace.c, mounts_poll).
    """

    field = "mounts"
    every_s = 1.0

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._file: KeptFile | None = None
        self._raw = b""
        self._poll: select.poll | None = None
        self._unread = 0
        self.generation = 0
        self.mounts: tuple[Mount, ...] = ()

    def read(self) -> tuple[Mount, ...]:
        """The mounts now; the same tuple while nothing changed. Raises OSError without /proc."""
        if self._file is None:
            self._file = self._root.keep("proc/self/mountinfo")
            if self._root.live:
                self._poll = select.poll()
                self._poll.register(self._file.fd, select.POLLPRI)
        elif self._poll is not None and self._unread < _LOOK_EVERY - 1 and not self._poll.poll(0):
            self._unread += 1
            return self.mounts
        self._unread = 0
        raw = self._file.read()
        if raw != self._raw:
            self._raw = raw
            mounts = parse_mountinfo(raw)
            if mounts != self.mounts:
                self.mounts = mounts
                self.generation += 1
        return self.mounts

    def close(self) -> None:
        """Give the descriptor back; a later read opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = self._poll = None


class PathDevices(NamedTuple):
    """The disks behind a folder.

    devices: kernel names of the physical disks, () when there are none here. chain: kernel names from the mounted
    device down to its first disk. reason: why there are no devices, one clause; "" when there are.
    """

    path: str
    mount: Mount | None
    chain: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    reason: str = ""


def resolve_path_devices(
    path: str, mounts: Sequence[Mount], infos: Mapping[str, BlockInfo], root: Root | None = None
) -> PathDevices:
    """Follow a folder or file to its disks: links, then mount, then partition, volume or array, then disks.

    An overlay is followed into its upper folder, else its lower ones, where they can be seen from here. A file on a
    loop device is followed to the disk that holds the loop's file. Raises FileNotFoundError when the path does not
    exist.
    """
    root = root or Root()
    inside = root.real(path.lstrip("/"))
    if not os.path.lexists(inside):
        raise FileNotFoundError(path)
    top = os.path.realpath(root.path).rstrip("/")
    return _follow("/" + inside.removeprefix(top).lstrip("/"), mounts, infos, root, depth=0)


def _follow(path: str, mounts: Sequence[Mount], infos: Mapping[str, BlockInfo], root: Root, depth: int) -> PathDevices:
    mount = mount_of(path, mounts)
    if mount is None:
        return PathDevices(path, None, reason="no mount holds it")
    if mount.fstype == "overlay":
        for layer in mount.layers:
            if depth < 4 and layer.startswith("/") and root.exists(layer.lstrip("/")):
                below = _follow(layer, mounts, infos, root, depth + 1)
                if below.devices:
                    return below._replace(path=path, mount=mount)
        return PathDevices(path, mount, reason="its overlay's layers cannot be seen from here")
    direct = devices_of_mount(mount, infos)
    if not direct and mount.fstype == "zfs":
        return PathDevices(path, mount, reason=f"its disks are those of the ZFS pool {mount.source.split('/')[0]}")
    if not direct and is_remote(mount.fstype):
        return PathDevices(path, mount, reason=f"{mount.fstype} from {mount.source}: no disk of this machine")
    if not direct and mount.fstype in MEMORY:
        return PathDevices(path, mount, reason=f"{mount.fstype}: it lies in memory")
    if not direct:
        return PathDevices(path, mount, reason=f"{mount.source} is no known block device")
    leaves = dict.fromkeys(leaf for name in direct for leaf in leaves_below(name, infos))
    return PathDevices(path, mount, chain_below(direct[0], infos), tuple(leaves))
