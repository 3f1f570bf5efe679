"""The bytes that a cgroup moves on all disks; each byte is counted once, even in a stack of devices.

The kernel counts a bio (an I/O request of the block layer) at each device that the bio passes, for the cgroup of the
bio. A device that forwards or clones the bio (LVM, RAID1) keeps the cgroup of the job. A new bio from a kernel thread
belongs to the root cgroup: a write of dm-crypt (drivers/md/dm-crypt.c, crypt_alloc_buffer) or a stripe of RAID5. A part
that RAID0 splits off (BIO_CGROUP_ACCT, block/blk-cgroup.h) counts as a request without bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo, is_leaf


class _Stack(NamedTuple):
    """Devices that are stacked on the same disks, as device numbers ("253:0").

    leaves: the disks at the bottom
    tops: the devices that have no device above them
    between: all other devices
    """

    leaves: tuple[str, ...]
    tops: tuple[str, ...]
    between: tuple[str, ...]


class DiskStacks(NamedTuple):
    """The stack that each device belongs to, by device number.

    The stack is None for a device in memory (zram) and for one whose bytes are counted on a disk too (a loop device).
    """

    stacks: Mapping[str, _Stack | None]

    def sum_once(self, bytes_by_device: Mapping[str, float | None]) -> float | None:
        """The sum of the devices' bytes, each byte once: of a stack, only the level with the most bytes counts.

        None if the bytes of a disk are unknown, or if a device with bytes is not in the table and may be a disk.
        """
        sums: dict[_Stack, float] = {}
        for device, amount in bytes_by_device.items():
            stack = self.stacks.get(device)
            if stack is None:
                if amount != 0 and device not in self.stacks:
                    return None
            elif amount is None:
                return None
            elif stack not in sums:
                levels = (stack.leaves, stack.tops, *((number,) for number in stack.between))
                sums[stack] = max(sum(bytes_by_device.get(number) or 0.0 for number in level) for level in levels)
        return sum(sums.values()) + 0.0


def disk_stacks(infos: Mapping[str, BlockInfo]) -> DiskStacks:
    """The stacks of the devices in ``infos``, which is keyed by kernel name."""
    below = {
        name: [infos[n].parent if infos[n].kind == "partition" else n for n in info.slaves if n in infos]
        for name, info in infos.items()
        if info.slaves and info.kind != "partition"
    }
    covered = {name for names in below.values() for name in names}
    number = {name: f"{info.major}:{info.minor}" for name, info in infos.items()}
    stacks: dict[str, _Stack | None] = {
        number[name]: _Stack((number[name],), (), ()) if is_leaf(info) else None for name, info in infos.items()
    }
    for members in _connected(below):
        bottom = [name for name in members if name not in below]
        # The bytes of a stack on a loop device count on the disk that holds the device's file; those of a stack in
        # memory count on no disk.
        if all(name in infos and is_leaf(infos[name]) for name in bottom):
            tops = [name for name in members if name not in covered]
            between = [name for name in members if name in below and name in covered]
            stack = _Stack(*(tuple(number[name] for name in names) for names in (bottom, tops, between)))
            stacks |= {number[name]: stack for name in members}
    return DiskStacks(stacks)


def _connected(below: Mapping[str, list[str]]) -> list[list[str]]:
    """The groups of names that are connected through the devices below them."""
    groups: dict[str, list[str]] = {}
    for name, lower in below.items():
        for other in (name, *lower):
            group, other_group = groups.setdefault(name, [name]), groups.setdefault(other, [other])
            if group is not other_group:
                group += other_group
                groups |= dict.fromkeys(other_group, group)
    return list({id(group): group for group in groups.values()}.values())
