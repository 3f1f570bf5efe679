"""The mount point of a device, or of the devices on top of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.block.tree import mounts_on, same_storage
from iotop_ai.model.job.records import JobMount
from iotop_ai.model.snapshot import Snapshot

_BOOT = ("boot", "efi")
"""The top-level folders of filesystems that only the firmware and the boot loader read."""


def top_folder(mount: str) -> str:
    """The top-level folder of a path: "data" for /data/in21k."""
    return mount.strip("/").partition("/")[0]


def is_boot(mount: str) -> bool:
    """Whether the mount holds boot files: /boot, /boot/efi, /efi."""
    return top_folder(mount) in _BOOT


def mount_on(name: str, infos: Mapping[str, BlockInfo]) -> str:
    """The nearest mount point of the device or of a device on top of it; "" if nothing is mounted.

    A boot filesystem is named only if there is no other.
    """
    return min(_paths(name, infos), key=is_boot, default="")


def mounts_of_data(name: str, infos: Mapping[str, BlockInfo], job_mounts: Iterable[JobMount]) -> list[str]:
    """The mount points on the device that may hold a job's data, nearest first.

    They show the first of ``job_mounts`` that is on the device; if none is, they are all except boot filesystems.
    """
    paths, by_number = _paths(name, infos), _paths_by_number(name, infos)
    for mount in job_mounts:
        # The path belongs to the job's mount namespace, so the device number and the filesystem are compared first.
        on_device, same = by_number.get(mount.device, []), _paths_of_storage(name, infos, mount)
        if mount.path in (on_device or same or paths):
            return [mount.path]
        if on_device or same:
            return on_device[:1] or same
    return [path for path in paths if not is_boot(path)]


def fullest_mount_on(name: str, snapshot: Snapshot) -> str:
    """Of the device's mount points, the one with the most used bytes, of equals the nearest; "" if nothing is mounted.

    A boot filesystem is named only if there is no other.
    """
    usages = snapshot.filesystems.value or {}

    def used_bytes(path: str) -> int:
        usage = usages[path].value if path in usages else None
        return 0 if usage is None else usage.total_bytes - usage.free_bytes

    return max(
        _paths(name, snapshot.disks.value or {}), key=lambda path: (not is_boot(path), used_bytes(path)), default=""
    )


def _paths(name: str, infos: Mapping[str, BlockInfo]) -> list[str]:
    return [mount.path for mount in mounts_on(name, infos)]


def _paths_of_storage(name: str, infos: Mapping[str, BlockInfo], job_mount: JobMount) -> list[str]:
    """The mount points on the device of the btrfs, bcachefs or ZFS pool that holds the job's mount.

    If some of them show the job's own dataset, only those. [] if the mount is on another kind of filesystem.
    """
    same = [mount for mount in mounts_on(name, infos) if same_storage(mount, job_mount)]
    own = [mount.path for mount in same if mount.device == job_mount.device]
    return own or [mount.path for mount in same]


def _paths_by_number(name: str, infos: Mapping[str, BlockInfo]) -> dict[str, list[str]]:
    """The mount points of the device and of each device on top of it, by device number, such as "8:3"."""
    paths = set(_paths(name, infos))
    return {
        f"{info.major}:{info.minor}": own
        for info in infos.values()
        if (own := [mount.path for mount in info.mounts if mount.path in paths])
    }
