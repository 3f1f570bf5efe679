"""Marks that other programs send: a Unix datagram socket for each monitor.

The socket is PID.sock in ``marks.d`` of a folder that only its owner may enter; the kernel tells who sent
(SO_PASSCRED, unix(7)), and only root and our own user are heard. A message is one JSON object of at most 4 KiB:
``{"kind": "mark", "text": "epoch 3"}``.
"""

from __future__ import annotations

import _socket as socket  # the rest of socket (selectors, enumerations) would cost each start 2 ms
import contextlib
import os
import stat
import struct
import threading
from collections.abc import Callable, Mapping

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.log import logger
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError

log = logger(__name__)

SOCKET_VARIABLE = "IOTOP_AI_SOCKET"
LARGEST_BYTES = 4096
LONGEST_TEXT = 200
PER_SECOND = 10
"""Marks of one process that are taken in a second."""
_CREDENTIALS = struct.Struct("3i")
_MOST_SENDERS = 1000


def marks_folder(environment: Mapping[str, str], euid: int) -> str | None:
    """Where this user's monitors listen; None for a user without a runtime folder."""
    if euid == 0:
        return "/run/iotop-ai/marks.d"
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{euid}"
    return os.path.join(runtime, "iotop-ai", "marks.d") if os.path.isabs(runtime) and os.path.isdir(runtime) else None


def parse_mark(raw: bytes) -> str | None:
    """The text of a message; None for what is none."""
    import json

    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    text = message.get("text") if isinstance(message, dict) and message.get("kind") == "mark" else None
    return clean(text, LONGEST_TEXT) if isinstance(text, str) and text.strip() else None


class Allowance:
    """At most PER_SECOND a second of each process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, tuple[int, int]] = {}

    def take(self, pid: int) -> bool:
        """Whether this process may send one more now."""
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
    """Listens on a thread and hands each mark's text to ``take``. Raises OSError or UnknownError when it cannot."""

    def __init__(self, path: str, clock: Clock, take: Callable[[str], None]) -> None:
        self.path = path
        self._take = take
        self._uids = {0, os.geteuid()}
        self._allowance = Allowance(clock)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            before = os.umask(0o177)
            try:
                self._socket.bind(path)
            finally:
                os.umask(before)
        except BaseException:
            self._socket.close()
            raise
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="marks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and take the socket's name away; what was sent by now is still handed on."""
        if self._closing:
            return
        self._closing = True
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(1.0)
        self._socket.close()

    def _run(self) -> None:
        room = socket.CMSG_SPACE(_CREDENTIALS.size)
        while True:
            try:
                raw, sent, flags, _ = self._socket.recvmsg(LARGEST_BYTES, room)
            except OSError as error:
                if not self._closing:
                    log.warning("marks are not heard any more: %s", error)
                return
            if not raw and self._closing:  # nobody can send any more, and what was sent is read
                return
            if flags & socket.MSG_TRUNC or not self._may(sent):
                continue
            text = parse_mark(raw)
            if text is not None:
                self._take(text)

    def _may(self, sent: list[tuple[int, int, bytes]]) -> bool:
        for level, kind, data in sent:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
                return uid in self._uids and self._allowance.take(pid)
        return False


def listen(clock: Clock, take: Callable[[str], None], environment: Mapping[str, str]) -> MarksSocket | None:
    """The socket of this monitor; None where there is no place for one, which is logged and no trouble."""
    path = environment.get(SOCKET_VARIABLE)
    try:
        if path is None:
            folder = marks_folder(environment, os.geteuid())
            if folder is None:
                return None
            _own_folder(os.path.dirname(folder))
            _own_folder(folder)
            path = os.path.join(folder, f"{os.getpid()}.sock")
        return MarksSocket(path, clock, take)
    except (OSError, UnknownError) as error:
        log.warning("marks are not heard: %s", error)
        return None


def _own_folder(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise UnknownError(f"{path} is not this user's alone")


def send_mark(text: str, environment: Mapping[str, str]) -> int:
    """Send a mark to every monitor of this user; to how many it went.

    Raises UsageError for an empty or too long text. A monitor whose queue is full counts as not reached.
    """
    shown = clean(text.strip(), LONGEST_TEXT)
    if not shown:
        raise UsageError("a mark needs a text")
    import json

    message = json.dumps({"kind": "mark", "text": shown}, ensure_ascii=False).encode()
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        sender.setblocking(False)
        return sum(_sent(sender, message, path) for path in _sockets(environment))
    finally:
        sender.close()


def _sockets(environment: Mapping[str, str]) -> list[str]:
    named = environment.get(SOCKET_VARIABLE)
    if named is not None:
        return [named]
    folder = marks_folder(environment, os.geteuid())
    try:
        return [] if folder is None else [os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".sock")]
    except FileNotFoundError:
        return []


def _sent(sender: socket.socket, message: bytes, path: str) -> bool:
    try:
        sender.sendto(message, path)
    except ConnectionRefusedError:  # its monitor was killed
        with contextlib.suppress(OSError):
            os.unlink(path)
        return False
    except OSError:
        return False
    return True
