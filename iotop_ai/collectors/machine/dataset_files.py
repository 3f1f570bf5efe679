"""Iterates over the files below a folder, with only the names of one branch of the tree in memory at a time.

Folders are opened relative to the descriptor of their parent folder and never through symbolic links, so that changes
during the iteration cannot lead out of the tree. Folders on other filesystems are counted and left out.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from iotop_ai.collectors.io.direct import open_direct

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags that open only a folder, and never the target of a symbolic link."""

NAMES_PER_PROGRESS = 2000
"""The number of listed names of a folder after which ``on_names`` of a Tree is called."""

_ENTER_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a folder that we can enter, even if we cannot list it."""


class Pinned(NamedTuple):
    """A top folder or file whose path was resolved only once. Later changes of links in its path have no effect.

    folder: an open descriptor. name: a name in that folder; "." for the folder itself. path: the path for messages.
    """

    folder: int
    name: str
    path: str


class Entry(NamedTuple):
    """One entry of a tree. folder: the descriptor of the folder that holds the entry; valid until the next entry.

    path: the path relative to the top; "" when the top is a file. Surrogates stand for bytes that are not UTF-8.
    """

    folder: int
    name: str
    path: str
    stat: os.stat_result

    @property
    def regular(self) -> bool:
        """Whether the entry is a regular file."""
        return stat.S_ISREG(self.stat.st_mode)

    @property
    def is_folder(self) -> bool:
        """Whether the entry is a folder. The entries in the folder follow it."""
        return stat.S_ISDIR(self.stat.st_mode)

    @property
    def is_link(self) -> bool:
        """Whether the entry is a symbolic link."""
        return stat.S_ISLNK(self.stat.st_mode)

    def read_link(self) -> str:
        """Return the path in the link. Raises OSError."""
        return os.readlink(self.name, dir_fd=self.folder)

    def open(self, flags: int = os.O_RDONLY) -> int:
        """Open the file if it is still a regular file, and return its descriptor. Raises OSError."""
        handle = os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self.folder)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "not a regular file any more", self.path)
        return handle


class Tree:
    """The entries from ``top`` down, for one iteration. top: a folder or file, or a link to one.

    on_names: called after every NAMES_PER_PROGRESS names of a folder, to show progress: the first entry of a folder is
    yielded only when all its names have been read.

    Raises OSError when the top is missing. unreadable: the number of entries that could not be read.
    first_unreadable: the path and the error of the first unreadable entry; "" without one. elsewhere: the number of
    folders that were left out because they are on another filesystem.
    """

    def __init__(self, top: str | Pinned, on_names: Callable[[], None] = lambda: None) -> None:
        self.top = top.path if isinstance(top, Pinned) else os.path.realpath(top) if top else ""
        self._pinned = top if isinstance(top, Pinned) else None
        self._on_names = on_names
        self._stat = (
            os.stat(self.top)
            if self._pinned is None
            else os.stat(self._pinned.name, dir_fd=self._pinned.folder, follow_symlinks=False)
        )
        self.unreadable = 0
        self.first_unreadable = ""
        self.elsewhere = 0

    @property
    def has_files(self) -> bool:
        """Whether the top is a folder or a regular file, and not a device, pipe or socket."""
        return stat.S_ISDIR(self._stat.st_mode) or stat.S_ISREG(self._stat.st_mode)

    def __iter__(self) -> Iterator[Entry]:
        parent = None if self._pinned is None else self._pinned.folder
        name = self.top if self._pinned is None else self._pinned.name
        if not stat.S_ISDIR(self._stat.st_mode):
            folder = os.open(os.path.dirname(self.top) if parent is None else ".", _ENTER_ONLY, dir_fd=parent)
            try:
                yield Entry(folder, os.path.basename(name), "", self._stat)
            finally:
                os.close(folder)
            return
        # The stack is explicit, because a tree may be deeper than Python's recursion limit.
        stack: list[tuple[int, str, list[str]]] = []
        try:
            self._enter(stack, parent, name, "", self._stat)
            while stack:
                folder, path, names = stack[-1]
                if not names:
                    os.close(stack.pop()[0])
                    continue
                name = names.pop()
                below = f"{path}/{name}" if path else name
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except OSError as error:
                    self.count_unreadable(below, error)
                    continue
                if stat.S_ISDIR(status.st_mode) and status.st_dev != self._stat.st_dev:
                    self.elsewhere += 1
                    continue
                yield Entry(folder, name, below, status)
                if stat.S_ISDIR(status.st_mode):
                    self._enter(stack, folder, name, below, status)
        finally:
            for folder, _, _ in stack:
                os.close(folder)

    def count_unreadable(self, path: str, error: OSError) -> None:
        """Count an entry that could not be read."""
        self.unreadable += 1
        self.first_unreadable = self.first_unreadable or f"{path or self.top}: {error.strerror}"

    def _enter(
        self,
        stack: list[tuple[int, str, list[str]]],
        parent: int | None,
        name: str,
        path: str,
        expected: os.stat_result,
    ) -> None:
        try:
            folder = os.open(name, FOLDER, dir_fd=parent)
        except OSError as error:
            self.count_unreadable(path, error)
            return
        try:
            if not os.path.samestat(os.fstat(folder), expected):
                raise OSError(errno.ESTALE, "became another folder while it was read")
            names = sorted(self._names(folder), reverse=True)
        except OSError as error:
            os.close(folder)
            self.count_unreadable(path, error)
            return
        stack.append((folder, path, names))

    def _names(self, folder: int) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries, 1):
                yield entry.name
                if count % NAMES_PER_PROGRESS == 0:
                    self._on_names()


def tree_of_files(top: str) -> Tree:
    """Return the Tree of a folder or a regular file. Raises OSError, also for a device, pipe or socket."""
    tree = Tree(top)
    if not tree.has_files:
        raise OSError(errno.EINVAL, "it is a device, pipe or socket; give a folder or a regular file", top)
    return tree


def open_below(top: Pinned, path: str, *, direct: bool = False) -> tuple[int, bool]:
    """Open a regular file below ``top`` without following links. Raises OSError, also if it is not a regular file.

    Returns (descriptor, whether reads through it bypass the page cache). path: relative to ``top``; "" for the file
    ``top`` itself. direct: whether to bypass the page cache if the filesystem supports that.
    """
    *folders, name = path.split("/") if path else [top.name]
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    parent = top.folder
    try:
        for folder in folders:
            inner = os.open(folder, _ENTER_ONLY, dir_fd=parent)
            if parent != top.folder:
                os.close(parent)
            parent = inner
        if direct:
            handle, bypasses = open_direct(name, flags, parent)
        else:
            handle, bypasses = os.open(name, flags | os.O_CLOEXEC, dir_fd=parent), False
    finally:
        if parent != top.folder:
            os.close(parent)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file any more")
    return handle, bypasses


class FileSample:
    """A random sample of up to ``most`` files of a tree, each with the same probability. The random seed is fixed.

    files: pairs of (path, size in bytes).
    """

    def __init__(self, most: int = 64) -> None:
        self._random = Random(1)
        self._offered = 0
        self._most = most
        self.files: list[tuple[str, int]] = []

    def take(self, path: str, size: int) -> None:
        """Offer a file to the sample; whether it is kept is random."""
        self._offered += 1
        if len(self.files) < self._most:
            self.files.append((path, size))
        else:
            slot = self._random.randrange(self._offered)
            if slot < self._most:
                self.files[slot] = path, size
