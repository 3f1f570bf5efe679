"""Finds the mount and the disks of a path, and the limits that apply to them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root, absolute_path
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.collectors.job.cgroup_limits import io_limits
from iotop_ai.collectors.job.cgroup_paths import parse_cgroups, unified_folder
from iotop_ai.collectors.machine.mounts import MountsCollector, is_of_another_mount, resolve_path_devices
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.block.tree import chain_below, leaves_below
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UnknownError
from iotop_ai.model.job.records import IoLimit
from iotop_ai.model.machine.filesystem import IN_MEMORY, fuse_is_remote, is_fuse, is_remote
from iotop_ai.model.preflight.place import Place
from iotop_ai.preflight.storage.nominal import nominal_of

ANSWER_S = 5.0
"""The longest wait for the path's filesystem, in seconds."""
_WITHOUT_DATA = frozenset(
    (
        *("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "devpts", "configfs"),
        *("pstore", "mqueue", "fusectl", "binfmt_misc", "autofs", "efivarfs", "nsfs", "rpc_pipefs", "nfsd"),
    )
)
"""The filesystem types of the kernel, which hold no data."""


def read_place(path: str, root: Root, clock: Clock) -> Place:
    """Return the Place of a path.

    Raises InputError if the path is missing, UnknownError if it cannot be read or is on a filesystem without data.
    """
    absolute = absolute_path(path)
    mounts = MountsCollector(root)
    block = BlockCollector(root, clock)
    inventory = BlockInfoCollector(root, clock, block, mounts)
    try:
        mounts.read()
        block.read()
        table = inventory.read()
        return call_with_timeout(ANSWER_S, absolute, lambda: _place(absolute, mounts, table, root))
    except TimeoutError as error:
        if error.errno == errno.EAGAIN:  # nothing was read, because this user has too many threads
            raise UnknownError(f"{clean(path)}: {error.strerror}") from None
        raise UnknownError(f"{clean(path)}: its filesystem does not answer within {ANSWER_S:g} s") from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{clean(path)}: {error.strerror or 'No such file or directory'}") from None
    except OSError as error:
        raise UnknownError(f"{clean(path)}: {error.strerror}") from None
    finally:
        for collector in (inventory, block, mounts):
            collector.close()


def _place(path: str, mounts: MountsCollector, infos: Mapping[str, BlockInfo], root: Root) -> Place:
    status = os.stat(path)
    if stat.S_ISBLK(status.st_mode):
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        name = next((info.name for info in infos.values() if f"{info.major}:{info.minor}" == number), "")
        place = Place(clean(path), device=name, disks=leaves_below(name, infos) if name else ())
        return _with_disks(place, chain_below(name, infos), infos, root)
    located = resolve_path_devices(path, mounts.all_mounts(), infos, root)
    mount = located.mount
    if mount is None or is_of_another_mount(status.st_dev, mount):
        return Place(clean(path), why_no_disk="no mount of this namespace holds it")
    if mount.fstype in _WITHOUT_DATA:
        raise UnknownError(f"{clean(path)} holds no data: {mount.fstype} belongs to the kernel")
    fuse = is_fuse(mount.fstype)
    remote = fuse_is_remote(mount.fstype, mount.source) if fuse else is_remote(mount.fstype, mount.source)
    place = Place(
        clean(path), mount.fstype, mount.source, mount.path, mount.read_only,
        located.chain[0] if located.chain else "", located.devices, located.reason, remote, mount.fstype in IN_MEMORY,
    )  # fmt: skip
    return _with_disks(place, located.chain, infos, root)


def _with_disks(place: Place, chain: tuple[str, ...], infos: Mapping[str, BlockInfo], root: Root) -> Place:
    """Return the Place with the kind, nominal speed, limits and key of its disks."""
    disks = [infos[name] for name in place.disks if name in infos]
    # The disks below a loop device's file count too, because a limit on them slows the loop device.
    names = dict.fromkeys([*chain, *place.disks, *(below for disk in disks for below in disk.below)])
    numbers = {f"{infos[name].major}:{infos[name].minor}" for name in names if name in infos}
    nominal = nominal_of(disks[0]) if len(disks) == 1 else None
    kind = disks[0].detail or disks[0].kind if len(disks) == 1 else f"{len(disks)} disks" if disks else ""
    return place._replace(kind=kind, nominal=nominal, limits=_limits(root, numbers), key=_key(place, disks))


def _limits(root: Root, numbers: set[str]) -> tuple[IoLimit, ...]:
    try:
        groups = parse_cgroups(root.read("proc/self/cgroup"))
    except OSError:
        return ()
    return tuple(limit for limit in io_limits(root, groups, unified_folder(root)) if limit.device in numbers)


def _key(place: Place, disks: list[BlockInfo]) -> str:
    """Return a key that identifies the storage: serial numbers, a loop device's file or a server's export; else "".

    " device" follows the key of a whole device, whose speed is not comparable with that of a file on it.
    """
    whole = "" if place.fstype else " device"
    serials = [disk.serial for disk in disks]
    if serials and all(serials):
        return "+".join(sorted(serials)) + whole
    if len(disks) == 1 and disks[0].kind == "loop" and disks[0].detail != "loop":
        return disks[0].detail + whole
    return f"{place.fstype} {place.source}" if place.remote else ""
