"""The disk that a process's I/O goes to, where it can be inferred: the kernel does not count I/O per process
and disk.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import is_leaf
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import JobMount
from iotop_ai.model.machine.filesystem import is_remote
from iotop_ai.present.block import devices
from iotop_ai.present.block.devices import BlockDevice
from iotop_ai.present.process.groups import Group
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cached_per_frame
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN


class _Disks(NamedTuple):
    """The disks that the column can name.

    only: the single disk of the machine that moved any bytes; None if none or several did, or when unknown. by_pid: for
    each process of a job, by its pid, the short name of the disk that holds the job's files, or "network".
    stack_by_pid: the kernel names of the device that holds these files and of the devices below it.
    """

    only: BlockDevice | None
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
    moving = []
    for device in devices.all_devices(frame, view):
        # A loop device counts as a disk: its file may be on FUSE, and its bytes then reach no other disk of this
        # machine.
        if device.info is None or not (is_leaf(device.info) or device.info.kind == "loop"):
            continue
        moved = (device.rates.read_bytes_per_s, device.rates.write_bytes_per_s)
        if None in moved:
            return _Disks(None, by_pid, stack_by_pid)
        if any(moved):
            moving.append(device)
    return _Disks(moving[0] if len(moving) == 1 else None, by_pid, stack_by_pid)


def _disk_name(frame: Frame, view: View, mount: JobMount) -> str:
    """The short name of the disk of a job's mount, or "network"; "" when unknown, as on btrfs, ZFS and overlay, whose
    device numbers do not belong to a disk.
    """
    device = devices.mount_device(frame, view, mount)
    if device is not None:
        return devices.short_name(device)
    return "network" if is_remote(mount.fstype, mount.source) else ""


def disk_of(group: Group, frame: Frame, view: View) -> str:
    """The short name of the group's disk, or "network"; "-" if the group has no I/O, "?" if its I/O or its disk is
    unknown.
    """
    if group.io is None:
        return UNKNOWN
    if group.idle or not group.io:
        return UNDEFINED
    disks = _disks(frame, view)
    only = "" if disks.only is None else devices.short_name(disks.only)
    names = {disks.by_pid.get(key.pid, only) for key in group.keys}
    return names.pop() or UNKNOWN if len(names) == 1 else UNKNOWN


def is_disk_of(device: BlockDevice, group: Group, frame: Frame, view: View) -> bool | None:
    """Whether the group's I/O goes to the device; None if unknown."""
    disks = _disks(frame, view)
    on_only = None if disks.only is None else _has_io_on(device, disks.only, frame)
    stacks = {disks.stack_by_pid.get(key.pid) for key in group.keys} if disks.stack_by_pid else {None}
    answers = {on_only if stack is None else device.name in stack for stack in stacks}
    return answers.pop() if len(answers) == 1 else None


def _has_io_on(device: BlockDevice, only: BlockDevice, frame: Frame) -> bool:
    """Whether the device is ``only``, or is stacked on it and has I/O. only: the only disk that moved any bytes."""
    return device.name == only.name or (device.rates.active and only.name in devices.leaves(device.name, frame))
