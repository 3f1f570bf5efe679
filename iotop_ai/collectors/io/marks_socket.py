"""Marks from other programs: a Unix datagram socket for each monitor.

The socket is PID.sock in ``marks.d`` of a folder that only its owner may enter, or the path in IOTOP_AI_SOCKET. It has
mode 0600, the kernel reports the sending user (SO_PASSCRED, unix(7)), and only root and our own user are accepted. A
message is one JSON object of at most 4 KiB: ``{"kind": "mark", "text": "epoch 3"}``.

A path is used only if nothing has it, or a socket of our own user without a listener.
"""

from __future__ import annotations

import _socket as socket  # the rest of socket (selectors, enumerations) would cost each start 2 ms
import contextlib
import logging
import os
import stat
import struct
import threading
from collections.abc import Callable, Mapping

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.own_file import parent_of
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError, UnknownError, UsageError

log = logging.getLogger(__name__)

SOCKET_VARIABLE = "IOTOP_AI_SOCKET"
LARGEST_BYTES = 4096
LONGEST_TEXT = 200
PER_SECOND = 10
"""Accepted marks of one process in a second."""
_CREDENTIALS = struct.Struct("3i")
_MOST_SENDERS = 1000
_UNLINK_S = 0.3
_LONGEST_NAME = 80
"""A socket's address has 107 bytes, which include the folder's descriptor."""
_TRIES = 3


def marks_folder(environment: Mapping[str, str], euid: int) -> str | None:
    """The folder of this user's sockets; None for a user without a runtime folder."""
    if euid == 0:
        return "/run/iotop-ai/marks.d"
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{euid}"
    return os.path.join(runtime, "iotop-ai", "marks.d") if os.path.isabs(runtime) and os.path.isdir(runtime) else None


def parse_mark(raw: bytes) -> str | None:
    """The text of a message; None for an invalid one."""
    import json

    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    text = message.get("text") if isinstance(message, dict) and message.get("kind") == "mark" else None
    return clean(text, LONGEST_TEXT) if isinstance(text, str) and text.strip() else None


class RateLimit:
    """Accepts at most PER_SECOND marks a second from each process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, tuple[int, int]] = {}

    def allows(self, pid: int) -> bool:
        """Count a mark of this process; whether it is within the limit."""
        second = self._clock.monotonic_ns() // 10**9
        began, count = self._seen.get(pid, (second, 0))
        if began != second:
            began, count = second, 0
        if len(self._seen) >= _MOST_SENDERS and pid not in self._seen:
            self._seen = {p: s for p, s in self._seen.items() if s[0] == second}
            if len(self._seen) >= _MOST_SENDERS:
                return False
        self._seen[pid] = (began, count + 1)
        return count < PER_SECOND


class MarksSocket:
    """Listens on a thread and passes each mark's text to ``take``. Raises OSError or IotopError when it cannot."""

    def __init__(self, path: str, clock: Clock, take: Callable[[str], None]) -> None:
        self.path = path
        self._take = take
        self._uids = {0, os.geteuid()}
        self._limit = RateLimit(clock)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._folder, self._name = parent_of(path)
            try:
                self._here = self._bind()
            except BaseException:
                os.close(self._folder)
                raise
        except BaseException:
            self._socket.close()
            raise
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="marks", daemon=True)
        self._thread.start()

    def _bind(self) -> tuple[int, int]:
        """Bind under a temporary name and link it to the real one without replacing any file; returns the inode."""
        check_free(self._folder, self._name, self.path)
        new = f".{self._name[:60]}.{os.getpid()}.{threading.get_ident():x}"
        remove_dead_socket(self._folder, new)
        before = os.umask(0o177)
        try:
            self._socket.bind(_fd_path(self._folder, new))
        finally:
            os.umask(before)
        try:
            for _ in range(_TRIES):
                with contextlib.suppress(FileExistsError):
                    os.link(new, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)
                    return _inode(os.stat(new, dir_fd=self._folder, follow_symlinks=False))
                remove_dead_socket(self._folder, self._name)
            raise UsageError(f"{clean(self.path)}: another monitor listens there")
        finally:
            os.unlink(new, dir_fd=self._folder)

    def close(self) -> None:
        """Stop listening and unlink the socket; marks sent before that are still passed on."""
        if self._closing:
            return
        self._closing = True
        with contextlib.suppress(OSError):
            call_with_timeout(_UNLINK_S, "marks", self._unlink)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(1.0)
        self._socket.close()

    def _unlink(self) -> None:
        """Unlink the path if it is still our socket."""
        try:
            if _inode(os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)) == self._here:
                os.unlink(self._name, dir_fd=self._folder)
        finally:
            os.close(self._folder)

    def _run(self) -> None:
        room = socket.CMSG_SPACE(_CREDENTIALS.size)
        while True:
            try:
                raw, sent, flags, _ = self._socket.recvmsg(LARGEST_BYTES, room)
            except OSError as error:
                if not self._closing:
                    log.warning("listening for marks ended: %s", error)
                return
            if not raw and self._closing:  # the shutdown, after all sent marks
                return
            if flags & socket.MSG_TRUNC or not self._is_allowed(sent):
                continue
            text = parse_mark(raw)
            if text is not None:
                self._take(text)

    def _is_allowed(self, sent: list[tuple[int, int, bytes]]) -> bool:
        for level, kind, data in sent:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
                return uid in self._uids and self._limit.allows(pid)
        return False


def listen(clock: Clock, take: Callable[[str], None], environment: Mapping[str, str]) -> MarksSocket | None:
    """The socket of this monitor; None without a folder for it. Raises OSError or IotopError."""
    return call_with_timeout(HOME_TIMEOUT_S, "marks", lambda: _listen(clock, take, environment))


def check_socket_variable(environment: Mapping[str, str]) -> None:
    """Raise UsageError with the reason if IOTOP_AI_SOCKET holds a path that cannot become a socket."""
    path = environment.get(SOCKET_VARIABLE)
    if not path:
        return
    try:
        folder, name = parent_of(path)
        try:
            check_free(folder, name, path)
        finally:
            os.close(folder)
    except OSError as error:
        raise UsageError(f"{SOCKET_VARIABLE} is {clean(path)}: {error.strerror}") from None
    except IotopError as error:
        raise UsageError(f"{SOCKET_VARIABLE} cannot be used: {error}") from None


def check_free(folder: int, name: str, path: str) -> None:
    """Raise UsageError unless the name is free or a socket of our own without a listener."""
    if len(name) > _LONGEST_NAME:
        raise UsageError(f"{clean(path)}: a socket's name may have at most {_LONGEST_NAME} characters")
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if why := _why_not_dead(folder, name, found):
        raise UsageError(f"{clean(path)} is not replaced: {why}; use a path that does not exist")


def _why_not_dead(folder: int, name: str, found: os.stat_result) -> str:
    """Why a file may not be replaced; "" for a socket of our own without a listener."""
    if not stat.S_ISSOCK(found.st_mode):
        return "it is not a socket"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}"
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        probe.connect(_fd_path(folder, name))
    except ConnectionRefusedError:
        return ""
    except OSError as error:  # a socket of another kind (EPROTOTYPE), or no permission
        return f"a program may listen there ({error.strerror})"
    finally:
        probe.close()
    return "a program listens there"


def remove_dead_socket(folder: int, name: str) -> None:
    """Remove a socket of our own user without a listener; keep anything else.

    It is renamed before it is checked again, so that a file that another process puts there meanwhile stays.
    """
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if _why_not_dead(folder, name, found):
            return
        aside = f".{name[:60]}.{os.getpid()}.{threading.get_ident():x}.dead"
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        if _inode(os.stat(aside, dir_fd=folder, follow_symlinks=False)) != _inode(found):
            os.link(aside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(aside, dir_fd=folder)
    except (FileNotFoundError, FileExistsError):
        return


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _fd_path(folder: int, name: str) -> str:
    """A file of an open folder as a path, for calls that take no descriptor; short enough for any socket's address."""
    return f"/proc/self/fd/{folder}/{name}"


def _listen(clock: Clock, take: Callable[[str], None], environment: Mapping[str, str]) -> MarksSocket | None:
    path = environment.get(SOCKET_VARIABLE)
    if not path:
        folder = marks_folder(environment, os.geteuid())
        if folder is None:
            return None
        _own_folder(os.path.dirname(folder))
        _own_folder(folder)
        path = os.path.join(folder, f"{os.getpid()}.sock")
    return MarksSocket(path, clock, take)


def _own_folder(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise UnknownError(f"{path} is not this user's alone")


def send_mark(text: str, environment: Mapping[str, str]) -> int:
    """Send a mark to every monitor of this user; returns the number of those that it reached.

    Raises UsageError for an empty or too long text. A monitor whose queue is full does not count.
    """
    cleaned = clean(text.strip(), LONGEST_TEXT)
    if not cleaned:
        raise UsageError("a mark needs a text")
    import json

    message = json.dumps({"kind": "mark", "text": cleaned}, ensure_ascii=False).encode()
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        sender.setblocking(False)
        path = environment.get(SOCKET_VARIABLE)
        if path:
            return int(_send_to(sender, message, path))
        folder = marks_folder(environment, os.geteuid())
        return 0 if folder is None else send_to_all(sender, message, folder)
    finally:
        sender.close()


def _send_to(sender: socket.socket, message: bytes, path: str) -> bool:
    """Send to the socket of IOTOP_AI_SOCKET; whether it was sent. Raises UsageError for a file of another kind."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise UsageError(f"{SOCKET_VARIABLE} is {clean(path)}, which is not a socket; use a monitor's socket")
        sender.sendto(message, path)
    except OSError:
        return False
    return True


def send_to_all(sender: socket.socket, message: bytes, path: str) -> int:
    """Send to every socket of our own folder; returns how many it reached. Removes those of killed monitors."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    count = 0
    try:
        for name in os.listdir(folder):
            if not name.endswith(".sock") or name.startswith("."):
                continue
            try:
                sender.sendto(message, _fd_path(folder, name))
                count += 1
            except ConnectionRefusedError:
                remove_dead_socket(folder, name)
            except OSError:  # its queue is full
                continue
    finally:
        os.close(folder)
    return count
