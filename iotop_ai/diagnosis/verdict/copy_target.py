"""Finds a place from which a job's data would be read faster: another disk, or memory."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.diagnosis.facts.block import DeviceFacts, base_of, is_network_volume
from iotop_ai.diagnosis.facts.gather import Facts
from iotop_ai.diagnosis.facts.mounts import is_boot, top_folder
from iotop_ai.diagnosis.facts.window import share
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.block.tree import leaves_below
from iotop_ai.model.finding import Advice
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.staging import disk_floor_bytes, memory_floor_bytes

_ROOM = 1.05
"""A copy needs this many times the bytes in use."""
_CACHE_ROOM = 1.25
"""If the available memory is at least this many times the bytes in use, the page cache keeps all of them."""
SHARED = frozenset({"home", "var", "usr", "opt", "srv", "tmp", "root"})
"""Top-level folders that usually hold more than one dataset."""


class Target(NamedTuple):
    """A mount that has room for a copy."""

    mount: str
    device: str
    room_bytes: int


def usage_of(facts: Facts) -> dict[str, FilesystemUsage]:
    """The known usage of each mount."""
    return {mount: r.value for mount, r in (facts.snapshot.filesystems.value or {}).items() if r.value is not None}


def faster_disk(
    facts: Facts, needed_bytes: float, reads_from: DeviceFacts | None = None, source: str = ""
) -> Target | None:
    """The writable mount with the most room on a fast disk; None if no such mount has enough room.

    A fast disk is a local NVMe disk or an array of NVMe disks; no member may be slow now. reads_from, source: the
    device and the mount of the data, which are excluded.
    """
    infos, usage = facts.snapshot.disks.value or {}, usage_of(facts)
    slow = [device for device in facts.devices if share(device.slow) >= facts.limits.leave_share]
    if reads_from is not None:
        slow.append(reads_from)
    avoided = frozenset().union(*(_members(device.info, infos) for device in slow))
    best: Target | None = None
    for info in infos.values():
        for mount in info.mounts:
            if mount.path == source:
                continue
            usable = mount.path in usage and not mount.read_only and not is_boot(mount.path)
            room = _room_on(usage[mount.path]) if usable else 0
            if room < needed_bytes or room <= (0 if best is None else best.room_bytes):
                continue
            if _is_local_nvme(base_of(info, infos)) and avoided.isdisjoint(_members(info, infos)):
                best = Target(mount.path, info.label or info.name, room)
    return best


def _room_on(usage: FilesystemUsage) -> int:
    """The most bytes that iotop-ai stage would copy to a disk's filesystem."""
    return usage.available_bytes - disk_floor_bytes(usage.total_bytes)


def _is_local_nvme(base: BlockInfo) -> bool:
    return base.transport == "nvme" and not is_network_volume(base)


def _members(info: BlockInfo, infos: Mapping[str, BlockInfo]) -> frozenset[str]:
    """The names of all physical devices below a device: a slow member slows its whole array."""
    return frozenset((base_of(info, infos).name, *leaves_below(info.name, infos)))


def copy_advice(facts: Facts, device: DeviceFacts) -> Advice | None:
    """The advice to cache the data, or to copy it to a faster disk or to /dev/shm; None if there is no room.

    It is also None if it is unknown which filesystem holds the data, or if that is the root filesystem. The size of the
    dataset is unknown, but it is at most the used bytes of its filesystem.
    """
    usage, source = usage_of(facts), facts.data_mount(device)
    # The root filesystem holds more than a dataset, so its size is not the size of the copy.
    if source in ("", "/") or source not in usage:
        return None
    used = float(usage[source].total_bytes - usage[source].free_bytes)
    memory = facts.snapshot.memory.value
    free = None if memory is None else memory.available_bytes
    room = _memory_room(facts, free)
    about = (("source", source), ("bytes", used), ("shared", float(top_folder(source) in SHARED)))
    # A job that has read more than the data's size has read parts of it again, so memory has not kept them.
    if room is not None and used * _CACHE_ROOM <= room and _read_so_far(facts) < used:
        return Advice("keep_in_memory", (*about, ("room", float(room))))
    target = faster_disk(facts, used * _ROOM, device, source)
    if target is None:
        shm = usage.get("/dev/shm")
        if memory is not None and free is not None:
            room = _memory_room(facts, free - memory_floor_bytes(memory.total_bytes or 0))
        room = 0 if shm is None else min(shm.available_bytes, room if room is not None else shm.available_bytes)
        if room < used * _ROOM:
            return None
        target = Target("/dev/shm", "memory", room)
    hours = used / device.read_bytes_per_s / 3600 if device.read_bytes_per_s else None
    to = (("target", target.mount), ("target_device", target.device), ("room", float(target.room_bytes)))
    return Advice("copy_data", (*about, ("hours", hours), *to))


def _memory_room(facts: Facts, free: int | None) -> int | None:
    """The memory that is available to the jobs within the limits of their cgroups; None when unknown."""
    known = [room for room in (free, *(job.place.memory_room_bytes for job in facts.jobs)) if room is not None]
    return min(known) if known else None


def _read_so_far(facts: Facts) -> float:
    """The bytes that the jobs' living processes have read from disks since they started; 0 when unknown."""
    table = facts.snapshot.processes.value
    if table is None:
        return 0.0
    members = frozenset().union(*(job.job.members for job in facts.jobs))
    return float(sum(io.read_bytes for key in members if (io := table.io.get(key)) is not None))
