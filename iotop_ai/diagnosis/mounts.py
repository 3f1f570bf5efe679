"""Where a device is mounted, directly or through what lies on it."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.block import BlockInfo
from iotop_ai.model.block_tree import mounts_on


def mount_on(name: str, infos: Mapping[str, BlockInfo]) -> str:
    """The nearest mount point that the device carries; "" when there is none."""
    return next((mount.path for mount in mounts_on(name, infos)), "")
