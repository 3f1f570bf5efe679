"""Opens the target of a check: a block device, a file, or one file of a folder (our own, or else the largest).

The name of our file is ``.iotop-ai-check-UID-HOST-NUMBER``, with the lowest number that no other check in the folder
uses. The host is named because a lock may hold only within a host. The file is created with O_EXCL, locked while it is
open, and removed at the end. The lock also covers the file that a check creates and deletes, whose name is
``created_name``. The lock of a killed check ends with it. Its files stay, and the next check of this host in the folder
removes them. It looks only for these names, because a folder may have millions of files.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat
from contextlib import suppress
from typing import NamedTuple

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.direct import ALIGN, open_direct
from iotop_ai.collectors.io.own_file import create_part, is_named, parent_of, remove_left_over
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.dataset_files import Pinned, Tree, open_below
from iotop_ai.collectors.machine.page_cache import is_in_memory, read_levels, read_memory_room, room_for_data
from iotop_ai.model.errors import InputError
from iotop_ai.model.preflight.storage import MIB, NAMED_FILE

MOST_BYTES = 512 * MIB
"""The maximum size of our file. ROOM_SHARE of the free space, or of the memory left, is a second limit."""
ROOM_SHARE = 0.25
LEAST_BYTES = 8 * MIB
"""The smallest file to read. A smaller file shows nothing about the disk, because the disk's cache holds it."""
MOST_CHECKS = 16
"""The most checks of one user and host that can use a folder at the same time."""
MOST_ENTRIES, MOST_SCAN_S = 20_000, 2.0
"""The limits of the search for a file to read: the number of entries, and the seconds."""
NO_ROOM = {
    errno.ENOSPC: "the filesystem is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "the limit of a file's size is reached",
}
"""The reasons why a file cannot grow, by errno."""
_NOT_WRITABLE = {
    **NO_ROOM,
    errno.EROFS: "mounted read-only",
    errno.EACCES: "no right to write there",
    errno.EPERM: "no right to write there",
    errno.EOPNOTSUPP: "the filesystem takes no new files",
}
"""The reasons why our file cannot be created, by errno."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def own_name(number: int = 1) -> str:
    """Return the name of our file for this user and host. number: from 1 to MOST_CHECKS."""
    host = re.sub(r"[^\w.-]", "_", os.uname().nodename, flags=re.ASCII)
    return f".iotop-ai-check-{os.geteuid()}-{host}-{number}"


def created_name(name: str) -> str:
    """Return the name of the empty file that a check creates and deletes. name: the name of the check's own file."""
    return f"{name}.new"


class Opened(NamedTuple):
    """An open file or device to read.

    kind: "own" for our file, "file" or "device". handle: the descriptor for reading; -1 for our file, which is written
    first and then opened with ``reopen``. size: the number of bytes that can be read, from the start. direct: whether
    reads bypass the page cache. folder, own_handle: the descriptors of our file's folder and of our file, else -1.
    most_bytes: the maximum size of our file. why: the reason why nothing is written; "" if our file is written. name:
    the name of our file; "" without one.
    """

    kind: str
    handle: int
    size: int
    direct: bool
    folder: int = -1
    own_handle: int = -1
    most_bytes: int = 0
    why: str = ""
    name: str = ""


def open_target(path: str, clock: Clock, root: Root, *, write: bool, most_bytes: int = MOST_BYTES) -> Opened:
    """Open what the check reads: the file or device that ``path`` names, or a file of that folder. Raises OSError.

    root: shows how much memory is left, which limits our file if the folder is in memory. write: whether our file may
    be created in a folder. most_bytes: the maximum size of our file.
    """
    info = os.stat(path)
    if stat.S_ISBLK(info.st_mode):
        handle, direct = _open_for_reading(path)
        size = os.lseek(handle, 0, os.SEEK_END)
        return Opened("device", handle, size, direct, why="a device is only read")
    if stat.S_ISREG(info.st_mode):
        handle, direct = _open_for_reading(path)
        return Opened("file", handle, stored_bytes(handle), direct, why=NAMED_FILE)
    if not stat.S_ISDIR(info.st_mode):
        raise OSError(errno.EINVAL, "not a folder, a file or a disk", path)
    folder, why = _open_folder_to_write(path) if write else (os.open(path, _FOLDER_FLAGS), "--no-write")
    try:
        if not why:
            own_handle, name, room_bytes, why = _create_own_file(folder, most_bytes, root)
            if not why:
                return Opened("own", -1, 0, False, folder, own_handle, room_bytes, name=name)
        opened = open_largest(path, folder, clock, why)
    except BaseException:
        os.close(folder)
        raise
    os.close(folder)
    return opened


def open_largest(path: str, folder: int, clock: Clock, why: str) -> Opened:
    """Open the largest file of a folder, because our file cannot be used. Raises OSError.

    path, folder: the path and the descriptor of the folder. why: as in Opened.
    """
    handle, direct = _find_largest(path, folder, clock)
    if handle < 0:
        raise OSError(errno.ENODATA, f"{why}, and no file there has the {LEAST_BYTES // MIB} MB that a test needs")
    return Opened("file", handle, stored_bytes(handle), direct, why=why)


def _open_folder_to_write(path: str) -> tuple[int, str]:
    """Return the descriptor of the folder, and the reason why nothing can be written there; "" if writing is possible.

    Root writes nothing in a folder to which another user's link leads.
    """
    try:
        parent, _ = parent_of(os.path.join(path, own_name()), writing=False)
    except InputError:
        return os.open(path, _FOLDER_FLAGS), "root does not follow another user's link in this path"
    try:
        return os.open(".", _FOLDER_FLAGS, dir_fd=parent), ""
    finally:
        os.close(parent)


def stored_bytes(handle: int) -> int:
    """Return the bytes of an open file before its first hole. A hole is not stored, and reading it costs nothing."""
    size = os.fstat(handle).st_size
    try:
        return min(size, os.lseek(handle, 0, os.SEEK_HOLE))
    except OSError:  # an empty file, or a filesystem that does not report holes
        return size


def _create_own_file(folder: int, most_bytes: int, root: Root) -> tuple[int, str, int, str]:
    """Create our file; return its descriptor, its name, the bytes that it may take, and "".

    If the file cannot be created, return -1, "", 0 and the reason. Raises OSError for an unexpected error.
    """
    space = os.fstatvfs(folder)
    free = space.f_bavail * (space.f_frsize or space.f_bsize) if space.f_blocks else most_bytes / ROOM_SHARE
    full = _NOT_WRITABLE[errno.ENOSPC]
    if is_in_memory(folder):  # this process's cgroup is charged for what it writes, and may be killed for it
        memory = room_for_data(read_levels(root), read_memory_room(root))
        if memory is not None and memory < free:
            free, full = memory, "too little memory is left"
    room_bytes = int(min(most_bytes, free * ROOM_SHARE)) // MIB * MIB
    try:
        own_handle, name = _take_name(folder)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
        return -1, "", 0, _NOT_WRITABLE[error.errno]
    if room_bytes < LEAST_BYTES:
        remove(own_handle, folder, name)
        return -1, "", 0, f"{full}: {int(free) >> 20} MB are free"
    return own_handle, name, room_bytes, ""


def _take_name(folder: int) -> tuple[int, str]:
    """Create our file with the first free name, and remove what killed checks have left.

    Return the descriptor and the name. Raises OSError.
    """
    names = [own_name(number) for number in range(1, MOST_CHECKS + 1)]
    for name in names:
        own_handle = _take(folder, name)
        if own_handle >= 0:
            break
    else:
        raise FileExistsError(errno.EEXIST, f"{names[0]} is in the way", names[0])
    for other in names[names.index(name) + 1 :]:
        with suppress(OSError):  # this check does not need the name
            if any(_exists(folder, left) for left in (other, created_name(other))):
                handle = _take(folder, other)
                if handle >= 0:
                    remove(handle, folder, other)
    return own_handle, name


def _take(folder: int, name: str) -> int:
    """Create our file with this name; return its descriptor, or -1 if another check or file has the name.

    What a killed check has left under the name is removed. Raises OSError.
    """
    try:
        own_handle = create_part(name, folder)
    except FileExistsError:
        return -1
    if remove_left_over(created_name(name), folder):
        return own_handle
    remove(own_handle, folder, name)
    return -1


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def remove(own_handle: int, folder: int, name: str) -> None:
    """Close and remove our file. Raises OSError."""
    try:
        if is_named(own_handle, name, folder):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(own_handle)


def reopen(folder: int, name: str) -> tuple[int, bool]:
    """Open our file for reading; return its descriptor and whether reads bypass the page cache. Raises OSError."""
    return _open_for_reading(name, folder)


def _open_for_reading(name: str, folder: int | None = None) -> tuple[int, bool]:
    flags = os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if folder is not None else 0)
    handle, direct = open_direct(name, flags, folder)
    if not direct or can_read_directly(handle):
        return handle, direct
    os.close(handle)
    return os.open(name, flags | os.O_CLOEXEC, dir_fd=folder), False


def can_read_directly(handle: int) -> bool:
    """Whether a direct read succeeds. Some filesystems accept the flag and then refuse the read. Raises OSError."""
    with mmap.mmap(-1, ALIGN) as buffer:
        try:
            os.preadv(handle, [buffer], 0)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return False
    return True


def _find_largest(path: str, folder: int, clock: Clock) -> tuple[int, bool]:
    """Open the readable file of the folder that has the most bytes stored.

    Return its descriptor and whether reads bypass the page cache. The descriptor is -1 without a large enough file.
    """
    best: tuple[int, int, str] = (0, LEAST_BYTES - 1, "")
    end_ns = clock.monotonic_ns() + int(MOST_SCAN_S * 1e9)
    top = Pinned(folder, ".", path)
    for number, entry in enumerate(Tree(top)):
        size = entry.stat.st_size
        # Some filesystems report 0 blocks for every file. There, the size decides.
        stored = min(size, 512 * entry.stat.st_blocks)
        larger = entry.regular and size >= LEAST_BYTES and (stored, size) > best[:2]
        if larger and os.access(entry.name, os.R_OK, dir_fd=entry.folder):
            best = stored, size, entry.path
        if number >= MOST_ENTRIES or clock.monotonic_ns() > end_ns:
            break
    name = best[2]
    if not name:
        return -1, False
    handle, direct = open_below(top, name, direct=True)
    if direct and not can_read_directly(handle):
        os.close(handle)
        handle, direct = open_below(top, name)
    return handle, direct
