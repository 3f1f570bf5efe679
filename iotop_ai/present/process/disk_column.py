"""The disk that a process's I/O goes to, where it can be inferred: the kernel does not count I/O per process
and disk.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockRates, is_leaf
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import JobMount
from iotop_ai.model.machine.filesystem import is_remote
from iotop_ai.model.process.records import ProcessRates
from iotop_ai.present.block import devices
from iotop_ai.present.block.devices import BlockDevice
from iotop_ai.present.process.groups import Group
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cached_per_frame
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN


class _Disks(NamedTuple):
    """The disks that the column can name.

    only: the only disk that moves bytes, by direction ("read" or "write"). For writes, no other disk wrote in the
    whole history, because the kernel writes data later than the process. A direction without such a disk is left out.
    by_pid: by the pid of a process, the disk that holds its job's files, as from ``_disk_name``. stack_by_pid: by the
    same pid, the kernel names of the device that holds these files and of the devices below it.
    """

    only: Mapping[str, BlockDevice]
    by_pid: Mapping[int, str]
    stack_by_pid: Mapping[int, frozenset[str]]


@cached_per_frame
def _disks(frame: Frame, view: View) -> _Disks:
    by_pid: dict[int, str] = {}
    stack_by_pid: dict[int, frozenset[str]] = {}
    table = frame.snapshot.jobs.value
    for key, job in table.jobs.items() if table is not None else ():
        place = table.places.get(key) if table is not None else None
        mount = place.mounts[0] if place is not None and place.mounts else None
        name = "" if mount is None else _disk_name(frame, view, mount)
        if mount is not None and name:
            stack = devices.mount_stack(frame, mount)
            by_pid |= {member.pid: name for member in job.members}
            stack_by_pid |= {member.pid: stack for member in job.members}
    return _Disks(_only_disks(frame, view), by_pid, stack_by_pid)


def _only_disks(frame: Frame, view: View) -> dict[str, BlockDevice]:
    """As in ``_Disks.only``."""
    # A loop device counts as a disk: its file may be on FUSE, and its bytes then reach no other disk of this machine.
    disks = [
        device
        for device in devices.all_devices(frame, view)
        if device.info is not None and (is_leaf(device.info) or device.info.kind == "loop")
    ]
    out = {}
    for way in ("read", "write"):
        moving = [device for device in disks if _may_move_bytes(device, way)]
        if len(moving) == 1 and bytes_per_s(moving[0].rates, way) is not None:
            out[way] = moving[0]
    return out


def _may_move_bytes(device: BlockDevice, way: str) -> bool:
    """Whether the device moves bytes in this direction, or may do so, because its rate is unknown. A device that wrote
    at any time in the history counts as writing.
    """
    return bytes_per_s(device.rates, way) != 0 or (way == "write" and device.totals.write_rate_sum > 0)


def bytes_per_s(rates: BlockRates | ProcessRates, way: str) -> float | None:
    """The bytes per second in this direction, "read" or "write"; None when unknown."""
    return rates.read_bytes_per_s if way == "read" else rates.write_bytes_per_s


def _disk_name(frame: Frame, view: View, mount: JobMount) -> str:
    """The short name of the disk of a job's mount, with the number of its other disks ("sda +3"), or "network"; "" when
    unknown, as on overlay, whose device number does not belong to a disk.
    """
    disks = devices.mount_disks(frame, view, mount)
    if (disk := devices.main_disk(disks)) is not None:
        return devices.short_name(disk) + (f" +{len(disks) - 1}" if len(disks) > 1 else "")
    return "network" if is_remote(mount.fstype, mount.source) else ""


def disk_of(group: Group, frame: Frame, view: View) -> str:
    """The short name of the group's disk, or "network"; "-" if the group has no I/O, "?" if its I/O or its disk is
    unknown, or if its processes use different disks.

    A process for which ``_Disks.by_pid`` has no disk is assumed to use ``_Disks.only`` of each direction in which the
    group has I/O. If these are two disks, its disk is unknown.
    """
    if group.io is None:
        return UNKNOWN
    if group.idle or not group.io:
        return UNDEFINED
    disks = _disks(frame, view)
    ways = [way for way in ("read", "write") if bytes_per_s(group.rates, way) != 0]
    only = {devices.short_name(disks.only[way]) if way in disks.only else "" for way in ways}
    other = only.pop() if len(only) == 1 else ""
    names = {disks.by_pid.get(key.pid, other) for key in group.keys}
    return names.pop() or UNKNOWN if len(names) == 1 else UNKNOWN


def is_disk_of(device: BlockDevice, group: Group, way: str, frame: Frame, view: View) -> bool | None:
    """Whether what the group reads or writes is on the device; None if unknown, or if it differs between the group's
    processes. way: "read" or "write".
    """
    disks = _disks(frame, view)
    on_only = _has_io_on(device, disks.only[way], way, frame) if way in disks.only else None
    stacks = {disks.stack_by_pid.get(key.pid) for key in group.keys} if disks.stack_by_pid else {None}
    answers = {on_only if stack is None else device.name in stack for stack in stacks}
    return answers.pop() if len(answers) == 1 else None


def _has_io_on(device: BlockDevice, only: BlockDevice, way: str, frame: Frame) -> bool:
    """Whether the device is ``only``, or is stacked on it and moves bytes in this direction.

    only: the disk that alone moves bytes in this direction, as in ``_Disks.only``.
    """
    moves = bool(bytes_per_s(device.rates, way))
    return device.name == only.name or (moves and only.name in devices.leaves(device.name, frame))
