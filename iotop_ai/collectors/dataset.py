"""The files of a folder, one after the other: however many there are, only the names of one branch are held.

Folders are opened by descriptor and never through a symbolic link, so that a tree which somebody changes meanwhile
cannot lead out of itself. What lies on another filesystem is counted and left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Entry(NamedTuple):
    """One entry of a tree. folder: descriptor of its folder, valid until the next entry is asked for.

    path: below the top, "" for a top that is itself a file; surrogates stand for bytes that are no UTF-8.
    """

    folder: int
    name: str
    path: str
    stat: os.stat_result

    @property
    def regular(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.stat.st_mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder; its entries come after it."""
        return stat.S_ISDIR(self.stat.st_mode)

    def open(self, flags: int = os.O_RDONLY) -> int:
        """A descriptor of the file, if it still is the regular file that was seen. Raises OSError."""
        handle = os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self.folder)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(22, "no regular file any more", self.path)
        return handle


class Tree:
    """Iterate it once, from ``top`` down; ``top`` itself may be a link or a single file. Raises OSError without it.

    unreadable: entries and folders that could not be looked at; first_unreadable: the first of them, with why.
    elsewhere: folders left out because another filesystem is mounted there.
    """

    def __init__(self, top: str) -> None:
        self.top = os.path.realpath(top)
        self._stat = os.stat(self.top)
        self.unreadable = 0
        self.first_unreadable = ""
        self.elsewhere = 0

    def __iter__(self) -> Iterator[Entry]:
        if not stat.S_ISDIR(self._stat.st_mode):
            folder = os.open(os.path.dirname(self.top), _FOLDER)
            try:
                yield Entry(folder, os.path.basename(self.top), "", self._stat)
            finally:
                os.close(folder)
            return
        # A stack of our own: a tree deeper than Python's recursion is still walked.
        stack: list[tuple[int, str, list[str]]] = []
        try:
            self._enter(stack, None, self.top, "")
            while stack:
                folder, path, names = stack[-1]
                if not names:
                    os.close(stack.pop()[0])
                    continue
                name = names.pop()
                below = f"{path}/{name}" if path else name
                try:
                    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except OSError as error:
                    self.lose(below, error)
                    continue
                if stat.S_ISDIR(found.st_mode) and found.st_dev != self._stat.st_dev:
                    self.elsewhere += 1
                    continue
                yield Entry(folder, name, below, found)
                if stat.S_ISDIR(found.st_mode):
                    self._enter(stack, folder, name, below)
        finally:
            for folder, _, _ in stack:
                os.close(folder)

    def lose(self, path: str, error: OSError) -> None:
        """Note what could not be looked at."""
        self.unreadable += 1
        self.first_unreadable = self.first_unreadable or f"{path or self.top}: {error.strerror}"

    def _enter(self, stack: list[tuple[int, str, list[str]]], parent: int | None, name: str, path: str) -> None:
        try:
            folder = os.open(name, _FOLDER, dir_fd=parent)
        except OSError as error:
            self.lose(path, error)
            return
        try:
            names = sorted(os.listdir(folder), reverse=True)
        except OSError as error:
            os.close(folder)
            self.lose(path, error)
            return
        stack.append((folder, path, names))
