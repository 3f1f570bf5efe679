"""Look before a dataset is copied: what there is, what is there already, and whether it fits."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from random import Random

from iotop_ai.collectors.dataset import Entry, Tree
from iotop_ai.collectors.mounts import MEMORY, mount_of, parse_mountinfo
from iotop_ai.collectors.pagecache import read_levels, read_memory_limit
from iotop_ai.collectors.root import Root
from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.stage import Plan

FLOOR_SHARE, MOST_FLOOR_BYTES = 0.05, 10 << 30
"""Of a filesystem 5 % stay free, 10 GiB at most: a full one slows down and breaks what else writes there."""
MEMORY_FLOOR_SHARE = 0.1
"""Of the machine's memory 10 % stay available: a job that trains needs more than its data."""
SAMPLE = 64
TELL_EVERY = 500


class Sample:
    """At most SAMPLE files of a tree, each with the same chance; the same ones each time."""

    def __init__(self) -> None:
        self._random = Random(1)
        self._seen = 0
        self.paths: list[tuple[str, int]] = []

    def take(self, path: str, size: int) -> None:
        """Consider one more."""
        self._seen += 1
        if len(self.paths) < SAMPLE:
            self.paths.append((path, size))
        else:
            at = self._random.randrange(self._seen)
            if at < SAMPLE:
                self.paths[at] = path, size


def places(source: str, folder: str) -> tuple[str, str]:
    """(the source, its new path in ``folder``). Raises InputError or UsageError for what cannot be meant."""
    src, dst = os.path.realpath(source), os.path.realpath(folder)
    if not os.path.exists(src):
        raise InputError(f"{clean(source)}: there is no such folder or file")
    if not os.path.isdir(dst):
        raise InputError(f"{clean(folder)}: no folder; name one that is there, the copy gets the source's name in it")
    if not os.access(dst, os.W_OK | os.X_OK):
        raise InputError(f"{clean(folder)}: may not be written")
    name = os.path.basename(src)
    if not name:
        raise UsageError("the whole root filesystem is not staged; name a folder")
    target = os.path.join(dst, name)
    if target == src:
        raise UsageError(f"{clean(target)} is the source itself")
    if (dst + "/").startswith(src + "/"):
        raise UsageError(f"{clean(folder)} lies inside {clean(source)}")
    try:
        found = os.lstat(target)
    except FileNotFoundError:
        return src, target
    if stat.S_ISLNK(found.st_mode) or stat.S_ISDIR(found.st_mode) != os.path.isdir(src):
        raise InputError(f"{clean(target)} is there and something else; move it away first")
    if found.st_uid != os.geteuid():
        # Whoever owns it may put a link where we would write.
        raise InputError(f"{clean(target)} is there and belongs to somebody else; choose another folder")
    return src, target


def plan(
    source: str, target: str, root: Root, tell: Callable[[int, int], None] = lambda *_: None
) -> tuple[Plan, list[tuple[str, int]]]:
    """Look at every entry; the plan and a sample of (path, bytes). tell: files and bytes so far. Raises OSError."""
    tree = Tree(source)
    sample = Sample()
    files = size = folders = links = back = others = there = there_bytes = differing = 0
    first_differing = ""
    for entry in tree:
        if entry.is_folder:
            folders += 1
        elif stat.S_ISLNK(entry.stat.st_mode):
            links += 1
            back += _leads_back(entry, source)
        elif not entry.regular:
            others += 1
        else:
            files += 1
            size += entry.stat.st_size
            sample.take(entry.path, entry.stat.st_size)
            same = same_file(entry, target)
            if same:
                there += 1
                there_bytes += entry.stat.st_size
            elif same is False:
                differing += 1
                first_differing = first_differing or entry.path
            if files % TELL_EVERY == 0:
                tell(files, size)
    made = Plan(
        clean(source), clean(target), files, size, folders, links, back, others, there, there_bytes, differing,
        clean(first_differing), tree.unreadable, clean(tree.first_unreadable), tree.elsewhere,
    )  # fmt: skip
    return _with_room(made, target, root), sample.paths


def below(top: str, path: str) -> str:
    """The path of an entry of a tree that lies at ``top``."""
    return os.path.join(top, path) if path else top


def same_file(entry: Entry, target: str) -> bool | None:
    """Whether the target has this file already, by size and time; None when it has none of this name."""
    try:
        found = os.lstat(below(target, entry.path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size == entry.stat.st_size
        and abs(found.st_mtime_ns - entry.stat.st_mtime_ns) < 2_000_000_000  # FAT keeps two seconds
    )


def _leads_back(entry: Entry, source: str) -> bool:
    try:
        return os.readlink(entry.name, dir_fd=entry.folder).startswith(source + "/")
    except OSError:
        return False


def _with_room(made: Plan, target: str, root: Root) -> Plan:
    folder = os.path.dirname(target)
    found = os.statvfs(folder)
    block = found.f_frsize or found.f_bsize
    floor = int(min(found.f_blocks * block * FLOOR_SHARE, MOST_FLOOR_BYTES))
    # ramfs and some FUSE servers give no size at all.
    room = found.f_bavail * block if found.f_blocks else None
    fstype = filesystem_of(folder, root)
    memory = fstype in MEMORY
    swap = False
    if memory:
        now = read_levels(root)
        floor = int((now.total_bytes or 0) * MEMORY_FLOOR_SHARE)
        free = None if now.available_bytes is None else now.available_bytes - floor
        room = min((value for value in (room, free, read_memory_limit(root)) if value is not None), default=None)
        swap = len(root.lines("proc/swaps")) > 1
    elif room is not None:
        room -= floor
    inodes = found.f_favail if found.f_files else None
    room = None if room is None else max(0, room)
    return made._replace(room_bytes=room, inodes=inodes, floor_bytes=floor, memory=memory, swap=swap, fstype=fstype)


def filesystem_of(folder: str, root: Root) -> str:
    """The type of the filesystem that holds a folder ("ext4", "tmpfs"); "" unknown."""
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    raw = root.read("proc/self/mountinfo")
    for line in raw.split(b"\n"):
        left, _, right = line.partition(b" - ")
        fields = left.split(b" ")
        if len(fields) > 2 and fields[2] == number.encode():
            return clean_bytes(right.split(b" ")[0])
    # btrfs gives each subvolume a number that no mount has.
    mount = mount_of(folder, parse_mountinfo(raw))
    return "" if mount is None else mount.fstype
