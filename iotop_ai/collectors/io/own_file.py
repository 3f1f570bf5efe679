"""Opens files to create or append to, and recordings for root: never another user's file.

On a shared machine another user may put a symbolic link, a fifo, a hard link or a file of its own in our file's place.
A new file is created with O_EXCL and O_NOFOLLOW, an existing one is checked on its open descriptor, and the path to
either is opened folder by folder: a symbolic link that another user put into a folder that all may write to is not
followed (the kernel's fs.protected_symlinks does the same, but may be off), and root follows no other user's link.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat

from iotop_ai.collectors.io.trust import MOST_LINKS, invoking_user
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError

_PATH_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_SHARED = stat.S_IWOTH | stat.S_ISVTX
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_TRIES = 3
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of a filesystem without hard links."""


def parent_of(path: str, *, writing: bool = True) -> tuple[int, str]:
    """(descriptor, opened with O_PATH, of the folder that holds a file, the file's name in it); the caller closes it.

    Raises InputError for another user's link in the path and, if ``writing``, for a folder in which every user may
    replace every file; OSError where the path ends early.
    """
    folder, name = os.path.split(path)
    if not name or name in (".", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    here = _folder(folder or ".", path)
    try:
        mode = os.fstat(here).st_mode
        if writing and mode & _SHARED == stat.S_IWOTH:
            raise InputError(f"{clean(folder or '.')}: every user may write there; choose a folder of your own")
    except BaseException:
        os.close(here)
        raise
    return here, name


def _folder(folder: str, path: str) -> int:
    """The folder of this path. path: as the user typed it, for messages."""
    here = os.open("/" if folder.startswith("/") else ".", _PATH_FLAGS | os.O_DIRECTORY)
    parts, links = folder.split("/")[::-1], 0
    try:
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            step = os.open(part, _PATH_FLAGS, dir_fd=here)
            found = os.fstat(step)
            if not stat.S_ISLNK(found.st_mode):
                here = _replace_fd(here, step)
                continue
            os.close(step)
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            around = os.fstat(here)
            if _is_anothers(found.st_uid, around):
                raise InputError(f"{clean(path)}: the link {clean(part)} in this path belongs to another user")
            target = os.readlink(part, dir_fd=here)
            if target.startswith("/"):
                here = _replace_fd(here, os.open("/", _PATH_FLAGS | os.O_DIRECTORY))
            parts += target.split("/")[::-1]
        # A component that is not a folder fails at the next one; the last component has no next one.
        if not stat.S_ISDIR(os.fstat(here).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    except BaseException:
        os.close(here)
        raise
    return here


def _is_anothers(owner: int, around: os.stat_result) -> bool:
    """Whether a link of this owner may be a trap. Root follows no other user's link, not even in that user's own
    folder: it would write where only root may.
    """
    if os.geteuid() == 0:
        return owner not in (0, invoking_user(os.environ))
    return bool(around.st_mode & stat.S_IWOTH) and owner not in (os.geteuid(), around.st_uid)


def _replace_fd(before: int, after: int) -> int:
    os.close(before)
    return after


def create(path: str, mode: int = 0o600, flags: int = os.O_WRONLY) -> int:
    """The descriptor of a new file. Raises FileExistsError, other OSError, and InputError as ``parent_of``."""
    folder, name = parent_of(path)
    try:
        return os.open(name, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    finally:
        os.close(folder)


def open_to_append(path: str, mode: int = 0o600, flags: int = os.O_WRONLY) -> int:
    """A file of our own, opened with O_APPEND; created if missing.

    Raises OSError, and InputError for one that another user owns, may write, or has given a second name.
    """
    folder, name = parent_of(path)
    try:
        # Not blocking: a fifo without a reader would never open.
        flags |= os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        for _ in range(_TRIES):
            with contextlib.suppress(FileExistsError):
                return os.open(name, flags | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
            with contextlib.suppress(FileNotFoundError):
                fd = os.open(name, flags, dir_fd=folder)
                break
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a fifo without a reader, or a socket
            raise InputError(f"{clean(path)} is not a regular file") from None
        raise
    finally:
        os.close(folder)
    try:
        if why := why_not_own_file(os.fstat(fd)):
            raise InputError(f"{clean(path)} may not be written: {why}")
    except BaseException:
        os.close(fd)
        raise
    return fd


def why_not_own_file(found: os.stat_result) -> str:
    """Why an existing file must not be appended to; "" when it may be."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & _OTHERS:
        return "other users may write it (chmod go-w)"
    if found.st_nlink != 1:
        return "it has a second name (a hard link)"
    return ""


def create_part(name: str, folder: int, shown: str = "") -> int:
    """A new temporary file, open and locked (flock) while it is open. folder: a descriptor; shown: its name in errors.

    Replaces a file of this name that a process of ours left behind when it died: its lock is gone.
    Raises FileExistsError where it is another user's or is being written, and other OSError.
    """
    for _ in range(_TRIES):
        try:
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        except FileExistsError:
            if not remove_left_over(name, folder):
                raise FileExistsError(errno.EEXIST, f"{shown or name} is in the way", shown or name) from None
            continue
        # Before it is locked, another process of ours may take it for a left-over.
        if _locked(fd) and is_named(fd, name, folder):
            return fd
        os.close(fd)
    raise FileExistsError(errno.EEXIST, f"{shown or name} is in the way", shown or name)


def _locked(fd: int) -> bool:
    """Lock a file; False where another process holds the lock. True on a filesystem without locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def remove_left_over(name: str, folder: int) -> bool:
    """Remove a file that ``create_part`` would replace; returns whether the name is free now."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_named(fd, name, folder):
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def give_name(fd: int, part: str, name: str, folder: int, *, replace: bool) -> None:
    """Rename a complete temporary file. fd: that file, still open.

    Raises FileExistsError where the name is taken, without ``replace``; other OSError.
    """
    if not is_named(fd, part, folder):
        raise FileNotFoundError(errno.ENOENT, "another process has replaced it while it was being written", part)
    if not replace:
        try:
            # Unlike a rename, a link does not replace a file that appeared meanwhile.
            os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            os.unlink(part, dir_fd=folder)
            return
    os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def is_named(fd: int, name: str, folder: int | None = None) -> bool:
    """Whether the name still belongs to this open file."""
    try:
        named = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def open_as_root(path: str) -> int:
    """A recording for root: only a file that root itself put there, because another user's link could lead anywhere.

    A file of the user who became root by sudo counts as root's: that user could read it before. Raises OSError, and
    InputError that names --allow-root.
    """
    flag = "--allow-root opens it"
    folder, name = parent_of(path, writing=False)
    try:
        # Not blocking: a fifo without a writer would never open.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"a symbolic link, which root does not follow: give the file itself, or {flag}") from None
        raise
    finally:
        os.close(folder)
    found = os.fstat(fd)
    why = ""
    if found.st_uid not in (0, invoking_user(os.environ)):
        why = f"it belongs to user {found.st_uid}"
    elif found.st_mode & _OTHERS:
        why = "other users may write it"
    if why and stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise InputError(f"{why}, who could lead root to any file; {flag}")
    return fd
