"""Detects a copy on the disk of its original. Such a copy is not read faster, even if a measurement suggests that."""

from __future__ import annotations

import os

from iotop_ai.actions.stage.ends import Ends
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.mounts import MountsCollector, is_of_another_mount, resolve_path_devices
from iotop_ai.model.block.counters import BlockInfo


def same_disk(ends: Ends, root: Root, clock: Clock) -> str:
    """Return the target's disks, such as "vda", if the source uses all of them too.

    Returns "the same filesystem" if both ends are on one filesystem, and "" if the target has a disk that the source
    does not use, or if the disks of either end are unknown.
    """
    source, target = os.fstat(ends.pinned.folder).st_dev, os.fstat(ends.folder).st_dev
    if source == target:
        return "the same filesystem"
    mounts = MountsCollector(root)
    collector = BlockInfoCollector(root, clock, mounts=mounts)
    try:
        mounts.read()
        infos = collector.read()
    except OSError:
        return ""
    finally:
        collector.close()
        mounts.close()
    source_disks = _disks(ends.source, source, mounts, infos, root)
    target_disks = _disks(os.path.dirname(ends.target), target, mounts, infos, root)
    # A target with a disk that the source lacks (a cache, a wider array) may be faster.
    return ", ".join(sorted(target_disks)) if target_disks and target_disks <= source_disks else ""


def _disks(path: str, device: int, mounts: MountsCollector, infos: dict[str, BlockInfo], root: Root) -> set[str]:
    try:
        location = resolve_path_devices(path, mounts.mounts, infos, root)
    except FileNotFoundError:
        return set()
    if location.mount is None or is_of_another_mount(device, location.mount):
        return set()
    if location.mount.fstype == "zfs":
        return {f"the ZFS pool {location.mount.source.split('/')[0]}"}
    return set(location.devices)
