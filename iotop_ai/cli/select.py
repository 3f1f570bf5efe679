"""From what a user types for a device to kernel names: names, labels, /dev paths, patterns, ALL, a folder."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence

from iotop_ai.collectors.block import BlockCollector
from iotop_ai.collectors.block_info import BlockInfoCollector
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.mounts import MountsCollector, resolve_path_devices
from iotop_ai.collectors.root import Root
from iotop_ai.model.block import BlockInfo, Mount
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.settings import Settings

ALL = "ALL"
_LISTED = 12
_OWN_NUMBERS = ("btrfs", "zfs", "bcachefs", "overlay")
_QUIET_KINDS = ("ram", "loop", "zram", "rom", "floppy", "nvme-path")


def resolved(settings: Settings, root: Root | None = None, clock: Clock | None = None) -> Settings:
    """The Settings with ``devices`` as kernel names: those typed and those behind ``path``.

    Nothing is read when neither was given. Raises UsageError for a device or folder that does not exist, naming
    what does, and UnknownError when the folder is on no disk or the devices cannot be listed.
    """
    if not settings.devices and not settings.path:
        return settings
    root, clock = root or Root("/"), clock or Clock()
    block, mounts = BlockCollector(root, clock), MountsCollector(root, clock)
    info = BlockInfoCollector(root, clock, block, mounts)
    try:
        block.read()
        table = mounts.read()
        infos = info.read()
        names: list[str] = []
        for word in settings.devices:
            names += named(word, infos)
        if settings.path:
            names += behind(settings.path, table, infos, root)
    except FileNotFoundError:
        raise UsageError(f"no folder {clean(settings.path)!r}") from None
    except OSError as error:
        raise UnknownError(f"devices cannot be listed: {error.strerror}") from None
    finally:
        for collector in (info, mounts, block):
            collector.close()
    return settings._replace(devices=tuple(dict.fromkeys(names)))


def named(word: str, infos: Mapping[str, BlockInfo]) -> list[str]:
    """The kernel names that one word means, in the kernel's order. Raises UsageError when it means none."""
    if word == ALL:
        return list(infos)
    plain = os.path.basename(os.path.realpath(word)) if word.startswith("/dev/") else word
    if plain in infos:
        return [plain]
    found = [name for name, info in infos.items() if word == info.label or fnmatch.fnmatchcase(name, plain)]
    if not found:
        raise UsageError(f"no device {clean(word)!r}; there {_existing(infos)}")
    return found


def _existing(infos: Mapping[str, BlockInfo]) -> str:
    names = [
        name if info.label in ("", name) else f"{name} ({info.label})"
        for name, info in infos.items()
        if info.kind not in _QUIET_KINDS
    ]
    if not names:
        return "is none at all"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names[:_LISTED])}{more}"


def behind(path: str, mounts: Sequence[Mount], infos: Mapping[str, BlockInfo], root: Root) -> list[str]:
    """The disks behind a folder and what lies between (array, volume, loop), partitions left out.

    Raises FileNotFoundError for a path that does not exist, UnknownError for one on no block device.
    """
    found = resolve_path_devices(os.path.abspath(path), mounts, infos, root)
    if not found.devices:
        raise UnknownError(f"{clean(path)} is on no disk that can be watched here: {found.reason}")
    if found.mount is not None and _elsewhere(path, found.mount):
        raise UnknownError(
            f"{clean(path)} is on no disk that can be watched here: it is the kernel's own or another mount"
        )
    between = [name for name in found.chain if name in infos and infos[name].kind != "partition"]
    return list(dict.fromkeys((*between, *found.devices)))


def _elsewhere(path: str, mount: Mount) -> bool:
    """Whether the path's own device is not its mount's: a mount of the kernel's own (/proc) lies over it.

    btrfs, zfs and overlay number their files by devices of their own, so that theirs proves nothing.
    """
    if not mount.device or mount.fstype in _OWN_NUMBERS:
        return False
    device = os.stat(path).st_dev
    return mount.device != f"{os.major(device)}:{os.minor(device)}"
