"""The folders of a copy. They are opened one inside the other as the source is walked, and never through a link.

Other users can change the copy while it is made, because its folders belong to the source's owner, or to whoever made
an earlier copy. So every operation uses descriptors, and looks up names only in open folders:

- A folder is *private* when this user owns it and no other user can write to it. (Root trusts only root; other users
  also trust the group to which they give write access.) New folders in a private folder keep mode 0700 and this user
  as the owner until their content is complete.
- In any other folder, a new folder gets its owner and mode while it is still empty. An existing folder keeps its owner
  and mode, because it may be a different folder that another user moved there. If this user is root, the existing
  folder must belong to the source's owner, who could write to it anyway.
"""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType
from typing import NamedTuple

from iotop_ai.actions.stage.ends import Ends
from iotop_ai.actions.stage.partial_files import is_partial_name, remove_partial_files
from iotop_ai.collectors.machine.dataset_files import FOLDER
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UnknownError

_GROUP_OR_OTHERS_WRITE, _OTHERS_WRITE = 0o022, 0o002
_OWNER_WRITE_AND_SEARCH = 0o300
"""The permissions that the owner needs to create entries in a folder."""


class Folder(NamedTuple):
    """An open folder of the copy.

    path: relative to the copy's top; "" for the top, and None for the folder that gets the copy. handle: its
    descriptor; -1 when the folder is missing. is_private: whether this user owns it and no untrusted user can write to
    it. name: its name in its parent folder. original: the stat of the source folder. gets_owner: whether the folder
    gets the source's owner when its content is complete. mode: the mode that it gets then; None if its mode stays.
    """

    path: str | None
    handle: int
    is_private: bool
    name: str = ""
    original: os.stat_result | None = None
    gets_owner: bool = False
    mode: int | None = None


class Target:
    """The target of a copy. change: whether to create folders and set their owners; if not, the target is only read."""

    def __init__(self, ends: Ends, *, change: bool) -> None:
        self._name = ends.name
        self._display_path = ends.target
        self._change = change
        self._is_root = os.geteuid() == 0
        base = os.open(".", FOLDER, dir_fd=ends.folder)
        self._open = [Folder(None, base, self._is_private(os.fstat(base)))]
        """The open folders, from the one that gets the copy to the innermost one."""
        self._device: int | None = None
        """The device of the filesystem of the copy; None until the first folder is opened."""
        self._source_partials: set[tuple[str | None, str]] = set()
        """The folders and names of the source's own entries that are named like partial files: they are copied too."""

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for folder in self._open:
            if folder.handle >= 0:
                os.close(folder.handle)
        self._open = []

    def place(self, path: str) -> tuple[Folder, str]:
        """Return the open folder and the name for an entry of the source. Closes the folders that are complete.

        Raises OSError, or UnknownError for a complete folder that was moved away.
        """
        above = path.rpartition("/")[0] if path else None
        while self._open[-1].path != above:
            self._leave()
        name = path.rpartition("/")[2] or self._name
        if is_partial_name(name):
            self._source_partials.add((above, name))
        return self._open[-1], name

    def enter(self, path: str, original: os.stat_result) -> bool:
        """Open the folder of this path; with ``change``, create it if it is missing. Return False if it stays missing.

        Raises OSError, InputError for an untrusted folder, or UnknownError for a complete folder that was moved away.
        """
        parent, name = self.place(path)
        if parent.handle < 0:
            self._open.append(Folder(path, -1, False))
            return False
        is_new = self._change and _make_folder(name, parent.handle)
        try:
            handle = os.open(name, FOLDER, dir_fd=parent.handle)
        except FileNotFoundError:
            if self._change:
                raise
            self._open.append(Folder(path, -1, False))
            return False
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise InputError(
                f"{self.display_path(path)} is a link or a file, not a folder; move it away first"
            ) from None
        try:
            self._open.append(self._prepare(path, name, handle, parent, original, is_new))
        except BaseException:
            os.close(handle)
            raise
        return True

    def finish(self) -> None:
        """Leave every open folder and set its owner, mode and time. Raises OSError or UnknownError."""
        while len(self._open) > 1:
            self._leave()

    def remove_partial_files(self) -> None:
        """After the copy of a single file, remove its partial files that earlier runs left. Raises OSError."""
        remove_partial_files(self._open[0].handle, of=self._name)

    def display_path(self, path: str) -> str:
        """Return the path of an entry in the target, cleaned for messages."""
        return clean(os.path.join(self._display_path, path) if path else self._display_path)

    def _is_private(self, status: os.stat_result) -> bool:
        untrusted_write = _GROUP_OR_OTHERS_WRITE if self._is_root else _OTHERS_WRITE
        return status.st_uid == os.geteuid() and not status.st_mode & untrusted_write

    def _prepare(
        self, path: str, name: str, handle: int, parent: Folder, original: os.stat_result, is_new: bool
    ) -> Folder:
        """Check an open folder, make sure that this user can create entries in it, and return its Folder.

        A new folder in a folder that is not private also gets its owner and mode here. original: the stat of the source
        folder. is_new: whether the folder is new. Raises OSError, or InputError for an untrusted folder.
        """
        status = os.fstat(handle)
        self._device = status.st_dev if self._device is None else self._device
        why = self._refusal_reason(handle, status, parent, original, is_new)
        if why:
            raise InputError(f"{self.display_path(path)} {why}")
        trusted = is_new or parent.is_private
        mode = mode_of(original) if trusted else None
        if is_new and not parent.is_private:
            if self._is_root:
                os.fchown(handle, original.st_uid, original.st_gid)
            os.fchmod(handle, mode_of(original) | (0 if self._is_root else _OWNER_WRITE_AND_SEARCH))
        elif self._change and not self._is_root and status.st_mode & _OWNER_WRITE_AND_SEARCH != _OWNER_WRITE_AND_SEARCH:
            mode = stat.S_IMODE(status.st_mode) if mode is None else mode
            os.fchmod(handle, status.st_mode & 0o777 | _OWNER_WRITE_AND_SEARCH)
        return Folder(path, handle, self._is_private(os.fstat(handle)), name, original, trusted and self._is_root, mode)

    def _refusal_reason(
        self, handle: int, status: os.stat_result, parent: Folder, original: os.stat_result, is_new: bool
    ) -> str:
        """Return why nothing may be copied into an open folder; "" if it is trusted. status: the folder's own stat."""
        if status.st_dev != self._device:
            return "is not on the filesystem of the copy; unmount it, or stage that part separately"
        if is_new:
            # Between mkdir and open, another folder may have been moved to this name. That is harmless if it is empty
            # and belongs to this user.
            if status.st_uid == os.geteuid() and not os.listdir(handle):
                return ""
            return "is not the folder just created, or got another owner; choose a place that only you can change"
        trusted_owners = {os.geteuid()}
        if self._is_root:
            trusted_owners = {0, original.st_uid} if parent.is_private else {original.st_uid}
        if status.st_uid not in trusted_owners:
            return "exists and belongs to another user; choose another folder"
        if self._is_root and status.st_mode & _GROUP_OR_OTHERS_WRITE & ~original.st_mode:
            return "is writable by users other than its owner; chmod go-w it, or choose another folder"
        return ""

    def _leave(self) -> None:
        """Close the innermost open folder; with ``change``, first set its owner, mode and time.

        With ``change``, the partial files that interrupted runs left in it are removed too.
        """
        folder = self._open[-1]
        if self._change and folder.original is not None:
            kept = {name for path, name in self._source_partials if path == folder.path}
            remove_partial_files(folder.handle, keep=kept)
            if folder.gets_owner:
                os.fchown(folder.handle, folder.original.st_uid, folder.original.st_gid)
            if folder.mode is not None:
                os.fchmod(folder.handle, folder.mode)
            os.utime(folder.handle, ns=(folder.original.st_atime_ns, folder.original.st_mtime_ns))
            self._check_not_moved(folder, self._open[-2].handle)
        self._open.pop()
        if folder.handle >= 0:
            os.close(folder.handle)

    def _check_not_moved(self, folder: Folder, parent: int) -> None:
        """Raise UnknownError if the folder's name in its parent folder no longer leads to it."""
        try:
            status = os.stat(folder.name, dir_fd=parent, follow_symlinks=False)
            if os.path.samestat(status, os.fstat(folder.handle)):
                return
        except FileNotFoundError:
            pass
        raise UnknownError(
            f"{self.display_path(folder.path or '')} was moved away during the copy, which stopped there"
        )


def mode_of(original: os.stat_result) -> int:
    """Return the mode of the copy: the original's without setuid, setgid and sticky.

    A sticky folder also loses the write access of the group and of others, which only the sticky bit made safe.
    """
    mode = original.st_mode & 0o777
    return (
        mode & ~_GROUP_OR_OTHERS_WRITE if stat.S_ISDIR(original.st_mode) and original.st_mode & stat.S_ISVTX else mode
    )


def _make_folder(name: str, folder: int) -> bool:
    """Create a folder; return False if an entry of this name exists."""
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        return False
    return True
