"""The mount points of a device, its own and those of the devices on it."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.block.tree import mounts_on


def mount_on(name: str, infos: Mapping[str, BlockInfo]) -> str:
    """The nearest mount point that the device carries; "" if missing."""
    return next((mount.path for mount in mounts_on(name, infos)), "")
