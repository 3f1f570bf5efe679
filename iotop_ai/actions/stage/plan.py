"""Plans a copy: scans the source's files and links, finds those already at the target, and checks the free space."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from iotop_ai.actions.stage.ends import Ends
from iotop_ai.actions.stage.target import Target
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.dataset_files import Entry, FileSample, Tree
from iotop_ai.collectors.machine.mounts import mount_of, parse_mountinfo
from iotop_ai.collectors.machine.page_cache import read_levels, read_memory_room
from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.errors import InputError
from iotop_ai.model.machine.filesystem import IN_MEMORY
from iotop_ai.model.machine.staging import Plan, disk_floor_bytes, memory_floor_bytes

FILES_PER_PROGRESS = 500


def plan(
    ends: Ends, root: Root, on_progress: Callable[[int, int], None] = lambda *_: None
) -> tuple[Plan, list[tuple[str, int]]]:
    """Scan every entry; return the plan, and a sample of the files as pairs of path and size in bytes.

    on_progress: called with the numbers of files and bytes so far. Raises OSError, and InputError for a folder of the
    target that is not trusted or has the name of a file or link to copy.
    """
    tree = Tree(ends.pinned)
    sample = FileSample()
    files = size = folders = links = back_links = others = there = there_bytes = there_links = there_folders = 0
    differing = new_space = 0
    block = _block_bytes(os.fstatvfs(ends.folder))
    first_differing = ""
    with Target(ends, change=False) as target:
        if ends.pinned.name == ".":
            target.enter("", os.fstat(ends.pinned.folder))
        for entry in tree:
            if entry.is_folder:
                folders += 1
                there_folders += target.enter(entry.path, entry.stat)
                continue
            if not (entry.regular or entry.is_link):
                others += 1
                continue
            folder, name = target.place(entry.path)
            if entry.is_link:
                links += 1
                try:
                    link_target = entry.read_link()
                except OSError as error:
                    tree.count_unreadable(entry.path, error)
                    continue
                back_links += link_target.startswith(ends.source + "/")
                same = same_link(link_target, folder.handle, name)
                there_links += same is True
            else:
                files += 1
                size += entry.stat.st_size
                sample.take(entry.path, entry.stat.st_size)
                same = same_file(entry, folder.handle, name)
                if same:
                    there += 1
                    there_bytes += entry.stat.st_size
                else:
                    new_space += -(-entry.stat.st_size // block) * block
                if files % FILES_PER_PROGRESS == 0:
                    on_progress(files, size)
            if same is False:
                _refuse_folder(entry, folder.handle, name, target.display_path(entry.path))
                differing += 1
                first_differing = first_differing or entry.path
    result = Plan(
        clean(ends.source), clean(ends.target), files, size, folders, links, back_links, others, there, there_bytes,
        differing, clean(first_differing), tree.unreadable, clean(tree.first_unreadable), tree.elsewhere,
        there_links=there_links, new_space_bytes=new_space, there_folders=there_folders,
    )  # fmt: skip
    return _with_room(result, ends, root), sample.files


def same_file(entry: Entry, folder: int, name: str) -> bool | None:
    """Whether the target's file of this name has the same size and modification time; None if there is no such file.

    Times are equal if they differ only by the rounding of the target's filesystem.

    folder: the descriptor of the file's folder in the target; -1 when that folder is missing.
    """
    if folder < 0:
        return None
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_size == entry.stat.st_size
        and abs(status.st_mtime_ns - entry.stat.st_mtime_ns) < _granularity_ns(status.st_mtime_ns)
    )


def same_link(link_target: str, folder: int, name: str) -> bool | None:
    """Whether the target's entry of this name is a link to ``link_target``; None if there is no such entry.

    folder: as for ``same_file``.
    """
    if folder < 0:
        return None
    try:
        return os.readlink(name, dir_fd=folder) == link_target
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False  # not a link


def _refuse_folder(entry: Entry, folder: int, name: str, display_path: str) -> None:
    """Raise InputError if the target's entry of this name is a folder: an empty one would be removed by rsync."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        kind = "link" if entry.is_link else "file"
        raise InputError(f"{display_path} is a folder, not a {kind}; move it away first")


def _granularity_ns(mtime_ns: int) -> int:
    """Return the step to which a filesystem may have rounded this time.

    The steps are 2 s for FAT, 1 s for NFSv2 and tar, 10 ms for exFAT, 1 µs for others, and 100 ns for NTFS.
    """
    return next((step for step in (2_000_000_000, 1_000_000_000, 10_000_000, 1000, 100) if mtime_ns % step == 0), 1)


def _block_bytes(space: os.statvfs_result) -> int:
    """Return the space that a file of one byte takes: a block, at most a page.

    The limit is for NFS, which reports its transfer size as the block size.
    """
    return min(space.f_frsize or space.f_bsize or 1, os.sysconf("SC_PAGE_SIZE"))


def _with_room(result: Plan, ends: Ends, root: Root) -> Plan:
    """Add the room at the target to the plan. Raises OSError."""
    space = os.fstatvfs(ends.folder)
    block = space.f_frsize or space.f_bsize
    floor = disk_floor_bytes(space.f_blocks * block)
    # ramfs and some FUSE servers report no size at all.
    room = space.f_bavail * block if space.f_blocks else None
    fstype = filesystem_of(os.path.dirname(ends.target), root)
    in_memory = fstype in IN_MEMORY
    has_swap = False
    if in_memory:
        levels = read_levels(root)
        floor = memory_floor_bytes(levels.total_bytes or 0)
        free = None if levels.available_bytes is None else levels.available_bytes - floor
        room = min((value for value in (room, free, read_memory_room(root)) if value is not None), default=None)
        has_swap = len(root.lines("proc/swaps")) > 1  # the first line is a title
    elif room is not None:
        room -= floor
    inodes = space.f_favail if space.f_files else None
    room = None if room is None else max(0, room)
    return result._replace(
        room_bytes=room, inodes=inodes, floor_bytes=floor, memory=in_memory, swap=has_swap, fstype=fstype
    )


def filesystem_of(folder: str, root: Root) -> str:
    """Return the type of the folder's filesystem, such as "ext4" or "tmpfs"; "" when unknown. Raises OSError."""
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    raw = root.read("proc/self/mountinfo")
    for line in raw.split(b"\n"):
        left, _, right = line.partition(b" - ")
        fields = left.split(b" ")
        if len(fields) > 2 and fields[2] == number.encode():
            return clean_bytes(right.split(b" ")[0])
    # btrfs gives each subvolume a device number that is not in mountinfo.
    mount = mount_of(folder, parse_mountinfo(raw))
    return "" if mount is None else mount.fstype
