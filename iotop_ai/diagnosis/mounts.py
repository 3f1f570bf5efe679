"""Where a device is mounted, directly or through what lies on it."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.block import BlockInfo


def stack_on(name: str, infos: Mapping[str, BlockInfo]) -> list[str]:
    """The device, its partitions and everything built on them, nearest first."""
    found = [name]
    for current in found:
        holders = infos[current].holders if current in infos else ()
        above = [*holders, *(n for n, info in infos.items() if info.kind == "partition" and info.parent == current)]
        found.extend(n for n in above if n not in found)
    return found


def mount_on(name: str, infos: Mapping[str, BlockInfo]) -> str:
    """The first mount point that the device carries; "" when there is none."""
    for above in stack_on(name, infos):
        info = infos.get(above)
        if info is not None and info.mounts:
            return info.mounts[0].path
    return ""
