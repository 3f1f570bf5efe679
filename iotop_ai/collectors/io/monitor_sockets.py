"""Sends marks and steps to the sockets of this user's monitors, and never waits for a monitor.

Training processes import this module too, so it and the modules that it imports need only Python 3.8 and its standard
library.
"""

from __future__ import annotations

import _socket as socket  # importing socket itself (selectors, enumerations) would add 2 ms to each start
import contextlib
import os
import stat
import threading
from collections.abc import Collection, Mapping

from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError

SOCKET_VARIABLE = "IOTOP_AI_SOCKET"
LONGEST_TEXT = 200
"""The longest text of a mark, in characters."""


def marks_folder(environment: Mapping[str, str], euid: int) -> str | None:
    """Return the folder with the sockets of this user's monitors; None for a user without a runtime folder."""
    if euid == 0:
        return "/run/iotop-ai/marks.d"
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{euid}"
    return os.path.join(runtime, "iotop-ai", "marks.d") if os.path.isabs(runtime) and os.path.isdir(runtime) else None


def send_mark(text: str, environment: Mapping[str, str]) -> int:
    """Send a mark to every monitor of this user; return how many monitors received it.

    A text longer than LONGEST_TEXT characters is cut. A monitor whose queue is full does not receive the mark and is
    not counted. Raises UsageError if the text is empty, and the errors of ``send``.
    """
    cleaned = clean(text.strip(), LONGEST_TEXT)
    if not cleaned:
        raise UsageError("a mark needs text")
    return send({"kind": "mark", "text": cleaned}, environment)


def send(message: Mapping[str, object], environment: Mapping[str, str], skip: Collection[str] = ()) -> int:
    """Send a message to every monitor of this user, or only to the socket that IOTOP_AI_SOCKET names.

    Returns how many monitors received the message. skip: the names of sockets in the folder that get no message. Raises
    UsageError if IOTOP_AI_SOCKET names a file that is not a socket, and OSError if the folder cannot be opened.
    """
    import json

    raw = json.dumps(message, ensure_ascii=False).encode()
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        sender.setblocking(False)
        path = environment.get(SOCKET_VARIABLE)
        if path:
            return int(_send_to(sender, raw, path))
        folder = marks_folder(environment, os.geteuid())
        return 0 if folder is None else send_to_all(sender, raw, folder, skip)
    finally:
        sender.close()


def _send_to(sender: socket.socket, message: bytes, path: str) -> bool:
    """Send to the socket that IOTOP_AI_SOCKET names; return whether the message was sent.

    Raises UsageError if the file is not a socket.
    """
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise UsageError(f"{SOCKET_VARIABLE} is {clean(path)}, which is not a socket; use a monitor's socket")
        sender.sendto(message, path)
    except OSError:
        return False
    return True


def send_to_all(sender: socket.socket, message: bytes, path: str, skip: Collection[str] = ()) -> int:
    """Send to every socket in the folder ``path`` except those in ``skip``; return how many received the message.

    Also removes sockets that killed monitors left in the folder. Raises OSError, but not if the folder is missing.
    """
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    count = 0
    try:
        for name in os.listdir(folder):
            if not name.endswith(".sock") or name.startswith(".") or name in skip:
                continue
            try:
                sender.sendto(message, fd_path(folder, name))
                count += 1
            except ConnectionRefusedError:
                with contextlib.suppress(OSError):  # for instance on a read-only filesystem
                    remove_dead_socket(folder, name)
            except OSError:  # for instance the monitor's queue is full
                continue
    finally:
        os.close(folder)
    return count


def why_not_replaceable(folder: int, name: str, status: os.stat_result, kind: int = socket.SOCK_DGRAM) -> str:
    """Return why a file may not be replaced, in words.

    Returns "" for a socket of our own user and of this kind on which no program listens.
    """
    if not stat.S_ISSOCK(status.st_mode):
        return "it is not a socket"
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}"
    probe = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
    try:
        probe.connect(fd_path(folder, name))
    except ConnectionRefusedError:
        return ""
    except OSError as error:  # a socket of another kind (EPROTOTYPE), or we lack permission
        return f"a program may listen there ({error.strerror})"
    finally:
        probe.close()
    return "a program listens there"


def remove_dead_socket(folder: int, name: str, kind: int = socket.SOCK_DGRAM) -> None:
    """Remove a socket of our own user and of this kind on which no program listens; keep any other file.

    The socket is first renamed and then checked again, so that a new file that another process creates under this name
    in the meantime is not removed.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if why_not_replaceable(folder, name, status, kind):
            return
        aside = f".{name[:60]}.{os.getpid()}.{threading.get_ident():x}.dead"
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        if file_identity(os.stat(aside, dir_fd=folder, follow_symlinks=False)) != file_identity(status):
            with contextlib.suppress(FileExistsError):  # a third process has taken the name
                os.link(aside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(aside, dir_fd=folder)
    except FileNotFoundError:
        return


def file_identity(status: os.stat_result) -> tuple[int, int]:
    """Return the identity of a file: its device and inode numbers."""
    return status.st_dev, status.st_ino


def fd_path(folder: int, name: str) -> str:
    """Return a path to a file in an open folder, for calls that take a path and not a descriptor.

    The path is short enough for the address of a Unix socket, however long the folder's real path is.
    """
    return f"/proc/self/fd/{folder}/{name}"
