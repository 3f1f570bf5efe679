"""Finds the devices that the command line names: by name, label, /dev path, pattern, the word ALL, or folder."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root, absolute_path, root_from_options
from iotop_ai.collectors.machine.mounts import MountsCollector, is_of_another_mount, resolve_path_devices
from iotop_ai.model.block.counters import BlockInfo, Mount
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings

ALL = "ALL"
_MOST_LISTED = 12
"""The maximum number of devices in an error message."""
_QUIET_KINDS = ("ram", "loop", "zram", "rom", "floppy", "nvme-path")
"""Kinds of devices of which a machine may have many, and which seldom matter."""


def resolve_devices(settings: Settings, root: Root | None = None) -> Settings:
    """Return the Settings with the kernel names of their ``devices`` and of the devices that hold ``path``.

    Reads nothing if the Settings have neither. Raises UsageError for a device or folder that does not exist (for a
    device, the message lists the existing devices), and for a folder together with another /proc or /sys. Raises
    UnknownError if the folder is not on a disk or the devices cannot be listed.
    """
    if not settings.devices and not settings.path:
        return settings
    root, clock = root or root_from_options(settings.procfs, settings.sysfs), Clock()
    if settings.path and root.has_given_trees:
        raise UsageError("--path works with this machine's mounts only; with --procfs or --sysfs use --device sda")
    block, mounts = BlockCollector(root, clock), MountsCollector(root)
    info = BlockInfoCollector(root, clock, block, mounts)
    try:
        block.read()
        mounts.read()
        infos = info.read()
        names: list[str] = []
        for word in settings.devices:
            names += matching_devices(word, infos)
        if settings.path:
            try:
                names += devices_of_path(settings.path, mounts.all_mounts(), infos, root)
            except FileNotFoundError:
                raise UsageError(f"no folder {clean(settings.path)!r}") from None
    except OSError as error:
        raise UnknownError(f"cannot list devices: {error.strerror}") from None
    finally:
        for collector in (info, mounts, block):
            collector.close()
    return settings._replace(devices=tuple(dict.fromkeys(names)))


def matching_devices(word: str, infos: Mapping[str, BlockInfo]) -> list[str]:
    """Return the kernel names that a word matches, in the kernel's order. Raises UsageError when it matches none."""
    if word == ALL:
        return list(infos)
    plain = os.path.basename(os.path.realpath(word)) if word.startswith("/dev/") else word
    if plain in infos:
        return [plain]
    matches = [name for name, info in infos.items() if word == info.label or fnmatch.fnmatchcase(name, plain)]
    if not matches:
        raise UsageError(f"no device {clean(word)!r}; {_device_list(infos)}")
    return matches


def devices_in_frame(frame: Frame, words: Sequence[str]) -> tuple[str, ...]:
    """Return the kernel names of the disks that the words name in a Frame of a recording or of another machine.

    Returns the words if the Frame has no list of disks. Raises UsageError for an unknown disk.
    """
    infos = frame.snapshot.disks.value
    if infos is None:
        return tuple(words)
    return tuple(dict.fromkeys(name for word in words for name in matching_devices(word, infos)))


def _device_list(infos: Mapping[str, BlockInfo]) -> str:
    """Return a list of the devices, as text.

    Of the quiet kinds, only the devices in use are listed, after all other devices.
    """
    quiet = {name for name, info in infos.items() if info.kind in _QUIET_KINDS}
    used = [name for name in infos if name in quiet and (infos[name].mounts or infos[name].holders)]
    names = [
        name if infos[name].label in ("", name) else f"{name} ({infos[name].label})"
        for name in (*(name for name in infos if name not in quiet), *used)
    ]
    if not names:
        return "this machine has none"
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"devices: {', '.join(names[:_MOST_LISTED])}{more}"


def devices_of_path(path: str, mounts: Sequence[Mount], infos: Mapping[str, BlockInfo], root: Root) -> list[str]:
    """Return the disks that hold a folder, and the devices between disk and folder (array, volume, loop).

    Partitions are left out. Raises FileNotFoundError for a path that does not exist, and UnknownError for a path that
    is not on a block device.
    """
    location = resolve_path_devices(absolute_path(path), mounts, infos, root)
    if not location.devices:
        raise UnknownError(f"{clean(path)} is not on a disk that can be watched here: {location.reason}")
    if location.mount is not None and is_of_another_mount(os.stat(path).st_dev, location.mount):
        raise UnknownError(
            f"{clean(path)} is not on a disk that can be watched here: it belongs to the kernel or to another mount"
        )
    between = [name for name in location.chain if name in infos and infos[name].kind != "partition"]
    return list(dict.fromkeys((*between, *location.devices)))
