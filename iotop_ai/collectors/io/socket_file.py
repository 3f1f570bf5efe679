"""Creates the file of a Unix socket without replacing any other file, and removes it only if it is still the same file.

A path is used only if no file is there, or if the file is a socket of our own user on which no program listens.
"""

from __future__ import annotations

import _socket as socket  # importing socket itself (selectors, enumerations) would add 2 ms to each start
import contextlib
import os
import threading

from iotop_ai.collectors.io.monitor_sockets import fd_path, file_identity, remove_dead_socket, why_not_replaceable
from iotop_ai.collectors.io.own_file import parent_of
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError

_LONGEST_NAME = 80
"""The longest file name, in bytes. A socket's address has room for 107 bytes, which include "/proc/self/fd/N/"."""
_TRIES = 3
"""How often the final name is tried while other processes create sockets under it."""


class SocketFile:
    """Binds a socket to a path, with the given mode. Raises OSError, UsageError and InputError."""

    def __init__(self, unbound: socket.socket, path: str, mode: int = 0o600) -> None:
        self._kind = unbound.type & ~(socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._path = path
        self._folder, self._name = parent_of(path)
        try:
            self._identity = self._bind(unbound, mode)
        except BaseException:
            os.close(self._folder)
            raise

    def _bind(self, unbound: socket.socket, mode: int) -> tuple[int, int]:
        """Bind the socket under a temporary name, then link that file to the final name; return the file's identity."""
        check_free(self._folder, self._name, self._path, self._kind)
        new = f".{os.fsdecode(os.fsencode(self._name)[:60])}.{os.getpid()}.{threading.get_ident():x}"
        remove_dead_socket(self._folder, new, self._kind)
        before = os.umask(0o777 & ~mode)
        try:
            unbound.bind(fd_path(self._folder, new))
        finally:
            os.umask(before)
        try:
            for _ in range(_TRIES):
                with contextlib.suppress(FileExistsError):
                    os.link(new, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)
                    return file_identity(os.stat(new, dir_fd=self._folder, follow_symlinks=False))
                remove_dead_socket(self._folder, self._name, self._kind)
            raise UsageError(f"{clean(self._path)}: another monitor listens there")
        finally:
            os.unlink(new, dir_fd=self._folder)

    def unlink(self) -> None:
        """Remove the file if it is still our socket. Call this method once.

        Raises OSError, but not when the file is already gone.
        """
        try:
            if file_identity(os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)) == self._identity:
                os.unlink(self._name, dir_fd=self._folder)
        except FileNotFoundError:
            pass
        finally:
            os.close(self._folder)


def check_free(folder: int, name: str, path: str, kind: int = socket.SOCK_DGRAM) -> None:
    """Raise UsageError unless the path can be used.

    It can be used if no file is there, or if the file is a socket of our own user and of this kind on which no program
    listens.
    """
    if len(os.fsencode(name)) > _LONGEST_NAME:
        raise UsageError(f"{clean(path)}: a socket's name can have at most {_LONGEST_NAME} bytes")
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if why := why_not_replaceable(folder, name, status, kind):
        raise UsageError(f"{clean(path)} is not replaced: {why}; use a path that does not exist")
