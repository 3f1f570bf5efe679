"""The mount point of a device, or of the devices on top of it."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.block.tree import mounts_on


def mount_on(name: str, infos: Mapping[str, BlockInfo]) -> str:
    """The nearest mount point of the device or of a device on top of it; "" if nothing is mounted."""
    return next((mount.path for mount in mounts_on(name, infos)), "")
