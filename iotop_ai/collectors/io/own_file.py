"""Creates files, opens files for appending, and opens recordings as root, but never a file of an untrusted user.

On a shared machine, another user may put a symbolic link, a fifo, a hard link or a file at the path of our file.
Therefore a new file is created with O_EXCL and O_NOFOLLOW, an existing file is checked on its open descriptor, and the
path to the file is opened folder by folder. In a folder that every user may write to, a symbolic link is followed only
if it belongs to us or to the folder's owner (the kernel's fs.protected_symlinks does the same, but may be off). Root
follows only its own links and those of the user who became root.
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
"""The mode bits of a folder like /tmp: every user may write to it, but may replace only their own files."""
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_TRIES = 3
"""The number of attempts to open a file that other processes create and remove in the meantime."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""The errors of a filesystem that does not support hard links."""


def parent_of(path: str, *, writing: bool = True) -> tuple[int, str]:
    """Open the folder that holds a file; return (its descriptor, the file's name in it).

    The folder is opened with O_PATH. The caller closes the descriptor. Raises InputError for a link in the path that is
    not followed and, if ``writing``, for a folder in which every user can replace every file. Raises OSError when a
    folder of the path does not exist.
    """
    folder, name = os.path.split(path)
    if not name or name in (".", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    fd = _folder(folder or ".", path)
    try:
        mode = os.fstat(fd).st_mode
        if writing and mode & _SHARED == stat.S_IWOTH:
            raise InputError(f"{clean(folder or '.')}: every user can write to it; choose a folder of your own")
    except BaseException:
        os.close(fd)
        raise
    return fd, name


def _folder(folder: str, path: str) -> int:
    """Open a folder step by step and return its descriptor. path: the path as the user typed it, for error messages."""
    fd = os.open("/" if folder.startswith("/") else ".", _PATH_FLAGS | os.O_DIRECTORY)
    parts, links = folder.split("/")[::-1], 0
    try:
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            next_fd = _step(part, fd)
            status = os.fstat(next_fd)
            if not stat.S_ISLNK(status.st_mode):
                fd = _replace_fd(fd, next_fd)
                continue
            os.close(next_fd)
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            parent = os.fstat(fd)
            if _is_untrusted_link(status.st_uid, parent):
                raise InputError(f"{clean(path)}: the link {clean(part)} in this path belongs to another user")
            target = os.readlink(part, dir_fd=fd)
            if target.startswith("/"):
                fd = _replace_fd(fd, os.open("/", _PATH_FLAGS | os.O_DIRECTORY))
            parts += target.split("/")[::-1]
        # A component that is not a folder makes the next step fail; the last component has no next step.
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _step(part: str, folder: int) -> int:
    """Open one component of a path, which may be a link, and return its descriptor."""
    try:
        # Without O_DIRECTORY, an open with O_PATH does not mount what belongs at an automount point (open(2)).
        return os.open(part, _PATH_FLAGS | os.O_DIRECTORY, dir_fd=folder)
    except NotADirectoryError:
        return os.open(part, _PATH_FLAGS, dir_fd=folder)


def _is_untrusted_link(owner: int, parent: os.stat_result) -> bool:
    """Whether a link that ``owner`` created in a folder may be a trap. parent: the status of that folder.

    Root follows only its own links and those of the user who became root, even in another user's own folder, because
    any other link could make root write where only root may.
    """
    if os.geteuid() == 0:
        return owner not in (0, invoking_user(os.environ))
    return bool(parent.st_mode & stat.S_IWOTH) and owner not in (os.geteuid(), parent.st_uid)


def _replace_fd(before: int, after: int) -> int:
    os.close(before)
    return after


def create(path: str, mode: int = 0o600, flags: int = os.O_WRONLY) -> int:
    """Create a file and return its descriptor.

    Raises FileExistsError when the file exists, other OSErrors, and InputError in the cases that ``parent_of`` names.
    """
    folder, name = parent_of(path)
    try:
        return os.open(name, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    finally:
        os.close(folder)


def open_to_append(path: str, mode: int = 0o600, flags: int = os.O_WRONLY) -> int:
    """Open a file of our own with O_APPEND, create it if it is missing, and return its descriptor.

    Raises OSError, and InputError for a file that is not regular, that another user owns or can write to, or that has
    a second hard link.
    """
    folder, name = parent_of(path)
    try:
        # Open without blocking: the open of a fifo without a reader would never return.
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
        if error.errno == errno.ENXIO:  # the file is a fifo without a reader, or a socket
            raise InputError(f"{clean(path)} is not a regular file") from None
        raise
    finally:
        os.close(folder)
    try:
        if why := why_not_own_file(os.fstat(fd)):
            raise InputError(f"{clean(path)} is not written: {why}")
    except BaseException:
        os.close(fd)
        raise
    return fd


def why_not_own_file(status: os.stat_result) -> str:
    """Return why we must not append to an existing file, in words; "" when we may."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & _WRITABLE_BY_OTHERS:
        return "other users can write to it (chmod go-w)"
    if status.st_nlink != 1:
        return "it has a second name (a hard link)"
    return ""


def create_part(name: str, folder: int, label: str = "") -> int:
    """Create a temporary file and return its descriptor; the file stays locked (flock) while it is open.

    folder: the descriptor of the folder. label: the name of the file in error messages. A file of this name that an
    ended process of this user left behind is replaced: the kernel released its lock when the process ended. Raises
    FileExistsError when the existing file belongs to another user or is still being written, and other OSErrors.
    """
    for _ in range(_TRIES):
        try:
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        except FileExistsError:
            if not remove_left_over(name, folder):
                raise FileExistsError(errno.EEXIST, f"{label or name} is in the way", label or name) from None
            continue
        # Until we lock the file, another process of this user may regard it as left over and remove it.
        if try_lock(fd) and is_named(fd, name, folder):
            return fd
        os.close(fd)
    raise FileExistsError(errno.EEXIST, f"{label or name} is in the way", label or name)


def try_lock(fd: int, *, wait: bool = False) -> bool:
    """Lock a file; return whether this succeeded: True also if the filesystem has no locks.

    wait: whether to wait until another process releases the lock, instead of returning False.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def unlock_and_close(fd: int) -> None:
    """Release the lock of :func:`try_lock` and close the file.

    A close alone keeps the file locked while a child process that another thread is starting has a copy of the
    descriptor: until its exec, if the descriptor has O_CLOEXEC.
    """
    try:
        with contextlib.suppress(OSError):  # a filesystem without locks
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


def remove_left_over(name: str, folder: int) -> bool:
    """Remove a file that ``create_part`` may replace; return False if the file must stay.

    True does not guarantee that the name is free: another process may have created a new file.
    """
    try:
        # Open for writing: NFS refuses an exclusive lock on a descriptor that is open only for reading (flock(2)).
        fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
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
    """Rename a complete temporary file from ``part`` to ``name``. fd: the descriptor of that file, which is still open.

    Raises FileExistsError if the name is taken and ``replace`` is False, and other OSErrors. On a filesystem without
    hard links, an existing file is replaced even if ``replace`` is False.
    """
    if not is_named(fd, part, folder):
        raise FileNotFoundError(errno.ENOENT, "another process has replaced it while it was being written", part)
    if not replace:
        try:
            # Unlike a rename, a link does not replace a file that appeared in the meantime.
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
    """Whether the name still refers to this open file."""
    try:
        named = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def open_as_root(path: str) -> int:
    """Open a recording or a log when we are root, and return its descriptor.

    A symbolic link is refused, and so is a regular file that belongs to another user or that other users can write to,
    because such a user could choose what root reads. A file of the user who became root is accepted, because that user
    could read it before. Raises OSError, and InputError with a message that names --allow-root.
    """
    flag = "use --allow-root"
    folder, name = parent_of(path, writing=False)
    try:
        # Open without blocking: the open of a fifo without a writer would never return.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(
                f"it is a symbolic link, which root does not follow; give the path that the link points to, or {flag}"
            ) from None
        raise
    finally:
        os.close(folder)
    status = os.fstat(fd)
    why = ""
    if status.st_uid not in (0, invoking_user(os.environ)):
        why = f"it belongs to user {status.st_uid}"
    elif status.st_mode & _WRITABLE_BY_OTHERS:
        why = "other users can write to it"
    if why and stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise InputError(f"{why}, so another user could choose what root reads; {flag} to open it")
    return fd


def open_to_read(path: str, *, allow_root: bool) -> int:
    """Open a recording or a log without blocking, and return its descriptor; root uses :func:`open_as_root`.

    allow_root: whether root may open a file of any owner.
    """
    if os.geteuid() == 0 and not allow_root:
        return open_as_root(path)
    # The open of a fifo without a writer would otherwise never return.
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
