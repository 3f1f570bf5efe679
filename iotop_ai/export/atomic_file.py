"""A file that appears complete or not at all."""

from __future__ import annotations

import os
from types import TracebackType
from typing import BinaryIO

from iotop_ai.collectors.io.own_file import create_part, give_name, parent_of
from iotop_ai.collectors.io.trust import others_may_rename
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError


class OutFile:
    """A file written as OUT.PID.part and renamed to OUT by ``commit``; leaving the block without it removes the part.

    An existing OUT is refused without ``force``, also one that appears meanwhile. Mode 0600: exports name users and
    programs.
    """

    def __init__(self, path: str, *, force: bool = False) -> None:
        self.path = path
        self._force = force
        if os.path.isdir(path):
            raise UsageError(f"{clean(path)} is a folder")
        if os.path.lexists(path) and not force:
            raise UsageError(f"{clean(path)} exists; --force replaces it")
        try:
            self._folder, self._name = parent_of(path)
            try:
                part = f"{path}.{os.getpid()}.part"
                self._part = os.path.basename(part)
                self._fd = create_part(self._part, self._folder, part)
            except BaseException:
                os.close(self._folder)
                raise
        except OSError as error:
            raise InputError(f"{clean(path)}: {error.strerror}") from None
        self._open = True

    def stream(self) -> BinaryIO:
        """The open part; write it once and close it."""
        return os.fdopen(os.dup(self._fd), "wb")

    def part_path(self) -> str:
        """The part's path for a library that opens files by path; "" where another user could lead it elsewhere."""
        path = os.path.join(os.path.dirname(os.path.abspath(self.path)), self._part)
        return "" if others_may_rename(path) else path

    def commit(self) -> None:
        """Rename the part to OUT; every stream must be closed."""
        try:
            give_name(self._fd, self._part, self._name, self._folder, replace=self._force)
        except FileExistsError:
            raise UsageError(f"{clean(self.path)} exists; --force replaces it") from None
        self._close()

    def _close(self) -> None:
        os.close(self._fd)
        os.close(self._folder)
        self._open = False

    def __enter__(self) -> OutFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            os.unlink(self._part, dir_fd=self._folder)
            self._close()
