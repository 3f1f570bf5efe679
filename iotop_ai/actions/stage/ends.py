"""The two ends of a copy. Each is resolved once and kept open, so that later changes to its path have no effect."""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType
from typing import NamedTuple

from iotop_ai.collectors.machine.dataset_files import FOLDER, Pinned
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError

MOST_LINKS = 40
"""The maximum number of symbolic links that the kernel follows in one path."""
_PATH_ONLY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Ends(NamedTuple):
    """The source and the target of a copy. source, target: their resolved paths, for messages and for rsync.

    pinned: the source, kept open. folder: the descriptor of the folder that gets the copy. name: the name of the copy
    in it.
    """

    source: str
    target: str
    pinned: Pinned
    folder: int
    name: str

    def __enter__(self) -> Ends:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self.pinned.folder)
        os.close(self.folder)


def resolve_ends(source: str, folder: str) -> Ends:
    """Resolve both ends and return them. Raises InputError or UsageError for invalid ends."""
    try:
        pinned = _pin(source)
    except FileNotFoundError:
        raise InputError(f"{clean(source)}: no such folder or file") from None
    except OSError as error:
        raise InputError(f"{clean(source)}: {error.strerror}") from None
    try:
        destination = _pin(folder)
        if destination.name != ".":
            os.close(destination.folder)
            raise NotADirectoryError
    except OSError as error:
        os.close(pinned.folder)
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            why = "not a folder; name an existing folder; the copy is created in it"
        else:
            why = error.strerror or "cannot be opened"
        raise InputError(f"{clean(folder)}: {why}") from None
    name = os.path.basename(pinned.path)
    ends = Ends(pinned.path, os.path.join(destination.path, name), pinned, destination.folder, name)
    try:
        _check(ends, source, folder, destination.path)
    except BaseException:
        ends.close()
        raise
    return ends


def _check(ends: Ends, source: str, folder: str, destination: str) -> None:
    """Raise InputError or UsageError if the copy cannot be made.

    source, folder: as the user wrote them. destination: the resolved path of the folder.
    """
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=ends.folder, effective_ids=True):
        raise InputError(f"{clean(folder)}: not writable")
    if not ends.name:
        raise UsageError("the root filesystem cannot be staged; name a folder")
    if ends.target == ends.source:
        raise UsageError(f"{clean(ends.target)} is the source itself")
    if (destination + "/").startswith(ends.source + "/"):
        raise UsageError(f"{clean(folder)} lies inside {clean(source)}")
    try:
        status = os.stat(ends.name, dir_fd=ends.folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode) != (ends.pinned.name == "."):
        raise InputError(f"{clean(ends.target)} exists and has another type; move it away first")


def _pin(path: str) -> Pinned:
    """Open a path component by component, and return the file or folder that it leads to. Raises OSError.

    When root runs this, a symbolic link of another user is followed only to files that this user owns, so that no user
    can make root read other users' files.
    """
    if not path:  # an empty path comes from an unset variable and must not mean the current folder
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    absolute = path if path.startswith("/") else f"{os.getcwd()}/{path}"
    remaining = _parts(absolute)
    folder, names, links, owners = os.open("/", _PATH_ONLY | os.O_DIRECTORY), list[str](), 0, set[int]()
    try:
        while remaining:
            name = remaining.pop()
            handle = _open_path_only(folder, name)
            status = os.fstat(handle)
            if stat.S_ISLNK(status.st_mode):
                try:
                    target = os.readlink("", dir_fd=handle)
                finally:
                    os.close(handle)
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                owners.add(status.st_uid)
                remaining += _parts(target)
                if target.startswith("/"):
                    os.close(folder)
                    folder, names = os.open("/", _PATH_ONLY | os.O_DIRECTORY), []
            elif stat.S_ISDIR(status.st_mode):
                os.close(folder)
                folder = handle
                names = names[:-1] if name == ".." else [*names, name]
            else:
                os.close(handle)
                if remaining:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                _check_link_owners(owners, status)
                return Pinned(_reopen(folder), name, "/" + "/".join([*names, name]))
        _check_link_owners(owners, os.fstat(folder))
        return Pinned(_reopen(folder), ".", "/" + "/".join(names))
    finally:
        os.close(folder)


def _parts(path: str) -> list[str]:
    """Return the names in a path, the last one first. ".." stays, as its meaning depends on the links before it."""
    return [part for part in path.split("/") if part not in ("", ".")][::-1]


def _open_path_only(folder: int, name: str) -> int:
    """Open a file, folder or link with O_PATH, without following the link."""
    try:
        # O_DIRECTORY triggers an automount.
        return os.open(name, _PATH_ONLY | os.O_DIRECTORY, dir_fd=folder)
    except NotADirectoryError:
        return os.open(name, _PATH_ONLY, dir_fd=folder)


def _reopen(handle: int) -> int:
    """Return a new descriptor of a folder that is open with O_PATH: a readable one if this user may list the folder."""
    try:
        return os.open(".", FOLDER, dir_fd=handle)
    except PermissionError:
        # A folder that may be entered but not listed still gives access to its files.
        return os.open(".", _PATH_ONLY | os.O_DIRECTORY, dir_fd=handle)


def _check_link_owners(owners: set[int], target: os.stat_result) -> None:
    """For root, raise OSError if a link in the path belongs to neither root nor the owner of the path's target."""
    others = owners - {0, target.st_uid}
    if os.geteuid() == 0 and others:
        why = "another user's symbolic link leads to a different owner's files; give the path it points to"
        raise OSError(errno.EPERM, why)
