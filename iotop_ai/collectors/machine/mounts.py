"""Reads the mounted filesystems from /proc/PID/mountinfo, and finds the disks that hold a folder."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.block.counters import BlockInfo, Mount
from iotop_ai.model.block.tree import chain_below, devices_of_mount, leaves_below, mount_of
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.machine.filesystem import IN_MEMORY, fuse_is_remote, is_fuse, is_remote

__all__ = [
    "MountsCollector",
    "PathDevices",
    "every_mount",
    "mount_of",
    "parse_mountinfo",
    "real_mount_points",
    "resolve_path_devices",
    "unescape",
]

_WITHOUT_DISK_NUMBER = frozenset(("btrfs", "zfs", "bcachefs", "overlay"))
"""Local filesystems whose device numbers are not those of a disk, and differ between a mount and its files."""
_MEMORY_FOR_DATA = frozenset(("tmpfs", "ramfs"))
_KERNEL_FOLDERS = ("/proc", "/sys", "/run", "/dev")
"""Folders in which a filesystem in memory does not hold data. The exception is /dev/shm."""
_FUSE_SERVICES = frozenset(("fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal", "fuse.snapfuse"))
"""FUSE filesystems that a service mounts for its own purposes, and that hold no datasets."""
_ESCAPE = pattern(rb"\\([0-7]{3})")
_MOST_LAYERS = 8
"""The most folders of an overlay that are kept."""
_MOST_STACKED = 4
"""The most stacked filesystems that are followed down to a disk."""


def unescape(raw: bytes) -> str:
    """Return a path or source of mountinfo or mountstats, in which the kernel writes some characters in octal."""
    return clean_bytes(_without_octal(raw))


def _without_octal(raw: bytes) -> bytes:
    return _ESCAPE.sub(lambda m: bytes((int(m[1], 8) & 255,)), raw) if b"\\" in raw else raw


def parse_mountinfo(raw: bytes) -> tuple[Mount, ...]:
    """Return the mounts of filesystems that hold data, in the order of the file; of several at one path, only the last.

    These are mounts of devices, of btrfs, zfs and overlay, and of network filesystems and FUSE; also tmpfs and ramfs at
    /dev/shm, and writable ones outside /proc, /sys, /run and /dev. Source:
    https://docs.kernel.org/filesystems/proc.html, part 3.5.
    Sample: ``36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue``.
    """
    return tuple(mount for mount in every_mount(raw) if _holds_data(mount))


def every_mount(raw: bytes) -> tuple[Mount, ...]:
    """Return all mounts, including the kernel's own mounts and those in memory.

    A mount that a later mount hides, at the same path or at a folder above it, is left out.
    """
    by_path: dict[str, Mount] = {}
    rows = []
    for line in raw.split(b"\n"):
        left, dash, right = line.partition(b" - ")
        mount_fields, fs_fields = left.split(b" "), right.split(b" ")
        if dash and len(mount_fields) >= 6 and len(fs_fields) >= 3:
            rows.append((mount_fields, fs_fields))
    hidden = _hidden_below([fields for fields, _ in rows])
    for mount_fields, fs_fields in rows:
        if mount_fields[0] in hidden:
            continue
        fstype, path, device = clean_bytes(fs_fields[0]), unescape(mount_fields[4]), clean_bytes(mount_fields[2])
        read_only = b"ro" in mount_fields[5].split(b",") or b"ro" in fs_fields[2].split(b",")
        layers = _layers(fs_fields[2]) if fstype == "overlay" else ()
        # A later mount hides an earlier mount at the same path.
        by_path.pop(path, None)
        by_path[path] = Mount(
            path, fstype, unescape(fs_fields[1]), read_only, device, unescape(mount_fields[3]), layers
        )
    return tuple(by_path.values())


def real_mount_points(raw: bytes) -> dict[str, str]:
    """Return the mount points as system calls need them, by ``Mount.path``, for the mounts where the two differ.

    They differ if the path is not UTF-8, has characters that ``clean`` replaces, or is too long.
    """
    out = {}
    for line in raw.split(b"\n"):
        fields = line.split(b" ", 5)
        if len(fields) == 6:
            real, path = os.fsdecode(_without_octal(fields[4])), unescape(fields[4])
            if real != path:
                out[path] = real
    return out


def _hidden_below(rows: Sequence[Sequence[bytes]]) -> set[bytes]:
    """Return the IDs of the mounts that a later mount on the same parent hides, by covering a folder above them.

    All mounts on a hidden mount are hidden too. rows: the fields of each line: ID, parent ID, device, root, path.
    """
    hidden: set[bytes] = set()
    later: set[tuple[bytes, bytes]] = set()
    for mount_id, parent, _, _, path, *_ in reversed(rows):
        above = path.rpartition(b"/")[0]
        while above:
            if (parent, above) in later:
                hidden.add(mount_id)
                break
            above = above.rpartition(b"/")[0]
        later.add((parent, path))
    for mount_id, parent, *_ in rows:
        if parent in hidden:
            hidden.add(mount_id)
    return hidden


def _holds_data(mount: Mount) -> bool:
    path, fstype = mount.path, mount.fstype
    if fstype in _MEMORY_FOR_DATA:
        in_kernel_folder = any(path == top or path.startswith(top + "/") for top in _KERNEL_FOLDERS)
        return path == "/dev/shm" or not (mount.read_only or in_kernel_folder)
    if fstype in _FUSE_SERVICES:
        return False
    is_local = not mount.device.startswith("0:") or fstype in _WITHOUT_DISK_NUMBER
    return is_local or is_fuse(fstype) or is_remote(fstype)


def _layers(options: bytes) -> tuple[str, ...]:
    """Return the folders of an overlay from its super options: the upperdir first, then the lowerdirs."""
    upper, lower = [], []
    for option in options.split(b","):
        name, _, value = option.partition(b"=")
        if name == b"upperdir":
            upper.append(unescape(value))
        elif name in (b"lowerdir", b"lowerdir+"):
            lower += [unescape(part) for part in value.split(b":") if part]
    return tuple((upper + lower)[:_MOST_LAYERS])


_REREAD_EVERY = 5
"""The number of calls of ``read`` after which the file is read even if poll reports no change.

poll does not report that a filesystem became read-only after an error.
"""


class MountsCollector:
    """Reads the mounts of our own mount namespace, or of PID 1's with --procfs or --sysfs.

    generation: a number that grows when the mounts change. mounts: the mounts at the newest read. real_paths: the
    result of ``real_mount_points`` at the newest read. poll() on the file reports mounts and unmounts
    (fs/proc_namespace.c, mounts_poll).
    """

    field = "mounts"
    every_s = 1.0

    def __init__(self, root: Root) -> None:
        self._root = root
        self._file: KeptFile | None = None
        self._raw = b""
        self._poll: select.poll | None = None
        self._skipped_reads = 0
        self.generation = 0
        self.mounts: tuple[Mount, ...] = ()
        self.real_paths: Mapping[str, str] = {}

    def read(self) -> tuple[Mount, ...]:
        """Return the mounts: the same tuple as before if they did not change. Raises OSError without /proc."""
        if self._file is None:
            self._file = self._root.keep(f"proc/{self._root.machine_process}/mountinfo")
            if self._root.live:
                self._poll = select.poll()
                self._poll.register(self._file.fd, select.POLLPRI)
        elif self._poll is not None and self._skipped_reads < _REREAD_EVERY - 1 and not self._poll.poll(0):
            self._skipped_reads += 1
            return self.mounts
        self._skipped_reads = 0
        raw = self._file.read()
        if raw != self._raw:
            self._raw = raw
            self.real_paths = real_mount_points(raw)
            mounts = parse_mountinfo(raw)
            if mounts != self.mounts:
                self.mounts = mounts
                self.generation += 1
        return self.mounts

    def all_mounts(self) -> tuple[Mount, ...]:
        """Return all mounts at the newest read, including the kernel's own mounts and those in memory."""
        return every_mount(self._raw)

    def close(self) -> None:
        """Close the file; a later read opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = self._poll = None


class PathDevices(NamedTuple):
    """The disks that hold a folder or file.

    mount: the mount that holds the path; None if it is unknown. devices: the kernel names of the physical disks; ()
    when none is on this machine. chain: the kernel names from the mounted device down to its first disk. reason: why
    ``devices`` is empty; "" when it is not.
    """

    path: str
    mount: Mount | None
    chain: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    reason: str = ""


def resolve_path_devices(
    path: str, mounts: Sequence[Mount], infos: Mapping[str, BlockInfo], root: Root | None = None
) -> PathDevices:
    """Find the disks that hold a folder or file.

    Links are followed first, then the mount, then its partition, volume or array, down to the disks. An overlay is
    followed into its upper folder or else its lower folders, if we can see them. A file on a loop device is followed to
    the disk that holds the file of the loop device. Raises FileNotFoundError when the path does not exist.
    """
    root = root or Root()
    inside = root.real(path.lstrip("/"))
    if not os.path.lexists(inside):
        raise FileNotFoundError(path)
    top = os.path.realpath(root.path).rstrip("/")
    return _follow("/" + inside.removeprefix(top).lstrip("/"), mounts, infos, root, depth=0)


def is_of_another_mount(device: int, mount: Mount) -> bool:
    """Whether a file's st_dev differs from the device of the mount: another mount (/proc, tmpfs) then hides this mount.

    False if the mount's device is unknown, and for filesystems that give other device numbers to their files
    (``_WITHOUT_DISK_NUMBER``), because a difference then proves nothing.
    """
    if not mount.device or mount.fstype in _WITHOUT_DISK_NUMBER:
        return False
    return mount.device != f"{os.major(device)}:{os.minor(device)}"


def _follow(path: str, mounts: Sequence[Mount], infos: Mapping[str, BlockInfo], root: Root, depth: int) -> PathDevices:
    mount = mount_of(path, mounts)
    if mount is None:
        return PathDevices(path, None, reason="no mount holds it")
    if mount.fstype == "overlay":
        for layer in mount.layers:
            if depth < _MOST_STACKED and layer.startswith("/") and root.exists(layer.lstrip("/")):
                below = _follow(layer, mounts, infos, root, depth + 1)
                if below.devices:
                    return below._replace(path=path, mount=mount)
        return PathDevices(path, mount, reason="its overlay's layers cannot be seen from here")
    direct = devices_of_mount(mount, infos)
    if direct:
        leaves = dict.fromkeys(leaf for name in direct for leaf in leaves_below(name, infos))
        return PathDevices(path, mount, chain_below(direct[0], infos), tuple(leaves))
    if _lies_on_a_folder(mount) and depth < _MOST_STACKED and root.exists(mount.source.lstrip("/")):
        below = _follow(mount.source, mounts, infos, root, depth + 1)
        if below.devices:
            return below._replace(path=path, mount=mount)
    return PathDevices(path, mount, reason=_why_no_disk(mount))


def _lies_on_a_folder(mount: Mount) -> bool:
    """Whether the mount's source is a folder or file of this machine, as for ecryptfs, bindfs or squashfuse."""
    stacked = mount.fstype == "ecryptfs" or (is_fuse(mount.fstype) and not is_remote(mount.fstype, mount.source))
    return stacked and mount.source.startswith("/") and mount.source != mount.path


def _why_no_disk(mount: Mount) -> str:
    """Return why a mount is not on a disk of this machine, in words."""
    fstype, source = mount.fstype, mount.source
    if fstype == "zfs":
        return f"its disks are those of the ZFS pool {source.split('/')[0]}"
    if is_remote(fstype, source):
        return f"{fstype} from {source}: no disk of this machine"
    if fstype in IN_MEMORY:
        return f"{fstype}: it is in memory"
    if is_fuse(fstype):
        is_local = fuse_is_remote(fstype, source) is False
        return f"{fstype}: " + ("its server does not report the disk" if is_local else "unknown whether it is remote")
    return f"{source} is not a known block device"
