"""Writes a file so that it appears either complete or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import stat
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, BinaryIO

from iotop_ai.collectors.io.own_file import create_part, give_name, parent_of, unlock_and_close
from iotop_ai.collectors.io.trust import others_may_rename
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

_TERMINATING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_open_files: list[OutFile] = []


class OutFile:
    """A file that is written as OUT.PID.part, and renamed to OUT by ``commit``.

    If the ``with`` block ends without a commit, or SIGTERM or SIGHUP ends the program, the part file is removed.
    Without ``force``, an existing OUT raises UsageError, even if it appears while the part file is written. A folder,
    device, pipe or socket raises UsageError even with ``force``. If the part file cannot be created, InputError is
    raised. The mode is 0600, because exports name users and programs.
    """

    def __init__(self, path: str, *, force: bool = False) -> None:
        self.path = path
        self._force = force
        _check_kind(path)
        if os.path.lexists(path) and not force:
            raise UsageError(f"{clean(path)} exists; --force replaces it")
        try:
            self._folder, self._name = parent_of(path)
            try:
                part_path = f"{path}.{os.getpid()}.part"
                self._part = os.path.basename(part_path)
                self._fd = create_part(self._part, self._folder, part_path)
            except BaseException:
                os.close(self._folder)
                raise
        except OSError as error:
            raise InputError(f"{clean(path)}: {error.strerror}") from None
        self._is_open = True
        _open_files.append(self)
        _install_handlers()

    def stream(self) -> BinaryIO:
        """A stream that writes to the part file. Open it once, and close it before ``commit``."""
        return io.BufferedWriter(_NamedFile(os.dup(self._fd), self.path))

    def part_path(self) -> str:
        """The path of the part file, for a library that opens files by path.

        "" if another user could make the path lead to another file.
        """
        path = os.path.join(os.path.dirname(os.path.abspath(self.path)), self._part)
        return "" if others_may_rename(path) else path

    def commit(self) -> None:
        """Rename the part file to OUT. Close every stream before this call."""
        try:
            give_name(self._fd, self._part, self._name, self._folder, replace=self._force)
        except FileExistsError:
            raise UsageError(f"{clean(self.path)} exists; --force replaces it") from None
        self._close()

    def _close(self) -> None:
        unlock_and_close(self._fd)
        os.close(self._folder)
        self._is_open = False
        _open_files.remove(self)
        _remove_handlers()

    def remove_part(self) -> None:
        """Remove the part file. An error is ignored, because it would hide why the file is not complete."""
        with contextlib.suppress(OSError):
            os.unlink(self._part, dir_fd=self._folder)

    def __enter__(self) -> OutFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_open:
            self.remove_part()
            self._close()


class _NamedFile(io.FileIO):
    """The open part file. An error while it is written, such as a full disk, names the path of OUT."""

    def __init__(self, fd: int, path: str) -> None:
        super().__init__(fd, "wb")
        self._path = path

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self._path
            raise


def _check_kind(path: str) -> None:
    """Raise UsageError for a folder, device, pipe or socket.

    The final rename would replace a device, pipe or socket: root would turn /dev/null into a regular file.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:  # nothing exists there yet, or opening the file reports the reason
        return
    if stat.S_ISDIR(mode):
        raise UsageError(f"{clean(path)} is a folder")
    if not stat.S_ISREG(mode):
        raise UsageError(f"{clean(path)} is a device, pipe or socket, not a file")


def _install_handlers() -> None:
    """Handle the signals that would otherwise end the program and leave the part files behind.

    A signal that already has a handler, or that is ignored as under nohup, keeps its handling.
    """
    if threading.current_thread() is threading.main_thread():
        for number in _TERMINATING_SIGNALS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _remove_parts_and_exit)


def _remove_handlers() -> None:
    if not _open_files and threading.current_thread() is threading.main_thread():
        for number in _TERMINATING_SIGNALS:
            if signal.getsignal(number) == _remove_parts_and_exit:
                signal.signal(number, signal.SIG_DFL)


def _remove_parts_and_exit(number: int, _frame: FrameType | None) -> None:
    """Remove the part files, then let the signal's default action end the program."""
    for file in tuple(_open_files):
        file.remove_part()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
