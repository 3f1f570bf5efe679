"""Receives marks and step counts from other programs on a Unix datagram socket. Each monitor has its own socket.

The socket is the file PID.sock in the folder ``marks.d``, which only its owner can enter; IOTOP_AI_SOCKET may name
another path. The socket has mode 0600, the kernel reports which user sent a message (SO_PASSCRED, unix(7)), and the
monitor accepts messages only from root and from its own user. A message is one JSON object of at most 4 KiB: a mark
(a text for the monitor's timeline), or the totals of a training process (``model.job.steps.StepCounts``).

    {"kind": "mark", "text": "epoch 3"}
    {"kind": "steps", "at_ns": 81234567890, "steps": 40, "batches": 40, "data_ns": 1200000000, "rank": 0,
     "loader": {"num_workers": 4, "prefetch_factor": 2, "pin_memory": true, "persistent_workers": false}}
"""

from __future__ import annotations

import _socket as socket  # importing socket itself (selectors, enumerations) would add 2 ms to each start
import contextlib
import errno
import logging
import os
import stat
import struct
import threading
from collections.abc import Callable, Mapping

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.monitor_sockets import LONGEST_TEXT, SOCKET_VARIABLE, marks_folder
from iotop_ai.collectors.io.own_file import parent_of
from iotop_ai.collectors.io.socket_file import SocketFile, check_free
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError, UnknownError, UsageError
from iotop_ai.model.job.steps import StepCounts, step_counts_of

log = logging.getLogger(__name__)

LARGEST_MESSAGE_BYTES = 4096
"""The largest message, in bytes; a larger one is discarded."""
MARKS_PER_SECOND = 10
"""The most marks that the monitor accepts from one process in a second."""
_MESSAGES_PER_SECOND = 20
"""The most messages of any kind that the monitor accepts from one process in a second; further ones are not parsed."""
LONGEST_AGE_NS = 60_000_000_000
"""The greatest plausible age of a message, in nanoseconds.

An older time comes from another clock, so the time of arrival replaces it.
"""
_CREDENTIALS = struct.Struct("iII")
"""The kernel's struct ucred: PID, UID and GID."""
_MOST_SENDERS = 1000
"""The most processes whose messages are counted in one second; messages of further processes are not accepted."""
_UNLINK_S = 0.3
"""How long ``close`` waits for the removal of the socket's file, in seconds."""


def parse_message(raw: bytes, now_ns: int) -> str | StepCounts | None:
    """Return the text of a mark, or the totals of a training process; None for an invalid message.

    now_ns: the monotonic time at which the message arrived.
    """
    import json

    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    kind = message.get("kind") if isinstance(message, dict) else None
    if kind == "steps":
        return step_counts_of(message, now_ns, now_ns - LONGEST_AGE_NS)
    text = message.get("text") if kind == "mark" else None
    return clean(text, LONGEST_TEXT) if isinstance(text, str) and text.strip() else None


class RateLimit:
    """Accepts at most ``most`` messages a second from each process."""

    def __init__(self, clock: Clock, most: int = MARKS_PER_SECOND) -> None:
        self._clock = clock
        self._most = most
        self._counts: dict[int, tuple[int, int]] = {}
        """(second of the newest message, number of messages in that second) by PID."""

    def allows(self, pid: int) -> bool:
        """Count a message of this process; return whether the message is accepted.

        A message above the limit is refused, and so is one of a new process if _MOST_SENDERS have sent this second.
        """
        this_second = self._clock.monotonic_ns() // 10**9
        counted_second, count = self._counts.get(pid, (this_second, 0))
        if counted_second != this_second:
            counted_second, count = this_second, 0
        if len(self._counts) >= _MOST_SENDERS and pid not in self._counts:
            self._counts = {p: s for p, s in self._counts.items() if s[0] == this_second}
            if len(self._counts) >= _MOST_SENDERS:
                return False
        self._counts[pid] = (counted_second, count + 1)
        return count < self._most


class MarksSocket:
    """Listens for messages on a separate thread. Raises OSError or IotopError when it cannot listen.

    take: called with the text of each mark. take_steps: called with the PID of a training process and its totals; None
    to ignore these.
    """

    def __init__(
        self,
        path: str,
        clock: Clock,
        take: Callable[[str], None],
        take_steps: Callable[[int, StepCounts], None] | None = None,
    ) -> None:
        self.path = path
        self._take = take
        self._take_steps = take_steps
        self._clock = clock
        self._uids = {0, os.geteuid()}
        self._messages = RateLimit(clock, _MESSAGES_PER_SECOND)
        self._marks = RateLimit(clock)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._file = SocketFile(self._socket, path)
        except BaseException:
            self._socket.close()
            raise
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="marks", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # this user has too many threads
            self._socket.close()
            with contextlib.suppress(OSError):
                self._file.unlink()
            raise OSError(errno.EAGAIN, str(error), path) from None

    def close(self) -> None:
        """Stop listening and remove the socket. Marks that were sent before this call are still passed on."""
        if self._closing:
            return
        self._closing = True
        with contextlib.suppress(OSError):
            # The second argument must differ from that in ``listen``: ``opened`` may call this method after ``listen``
            # has timed out, and then another call with the argument "marks" would fail at once.
            call_with_timeout(_UNLINK_S, self.path, self._file.unlink)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(1.0)
        self._socket.close()

    def _run(self) -> None:
        ancillary_bytes = socket.CMSG_SPACE(_CREDENTIALS.size)
        while True:
            try:
                raw, ancillary, flags, _ = self._socket.recvmsg(LARGEST_MESSAGE_BYTES, ancillary_bytes)
            except OSError as error:
                if not self._closing:
                    log.warning("listening for marks ended: %s", error)
                return
            if not raw and self._closing:  # this is the shutdown, which arrives after all marks that were sent
                return
            pid = None if flags & socket.MSG_TRUNC else self._sender(ancillary)
            if pid is not None and self._messages.allows(pid):
                self._pass_on(pid, parse_message(raw, self._clock.monotonic_ns()))

    def _sender(self, ancillary: list[tuple[int, int, bytes]]) -> int | None:
        """Return the PID of the sender; None unless its user is root or our own.

        The PID is 0 for a process outside our PID namespace.
        """
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
                return pid if uid in self._uids else None
        return None

    def _pass_on(self, pid: int, message: str | StepCounts | None) -> None:
        if isinstance(message, str):
            if self._marks.allows(pid):
                self._take(message)
        elif message is not None and self._take_steps is not None and pid:
            self._take_steps(pid, message)


def listen(
    clock: Clock,
    take: Callable[[str], None],
    environment: Mapping[str, str],
    take_steps: Callable[[int, StepCounts], None] | None = None,
    opened: Callable[[MarksSocket], None] | None = None,
) -> MarksSocket | None:
    """Open the socket of this monitor and return it; None for a user without a runtime folder.

    opened: called with the socket, on the thread that opened it, even when this happens after the timeout. Raises
    IotopError and OSError; TimeoutError when the socket's folder does not answer.
    """

    def open_socket() -> MarksSocket | None:
        path = environment.get(SOCKET_VARIABLE) or _own_path(environment)
        if path is None:
            return None
        marks_socket = MarksSocket(path, clock, take, take_steps)
        if opened is not None:
            opened(marks_socket)
        return marks_socket

    return call_with_timeout(HOME_TIMEOUT_S, "marks", open_socket)


def check_socket_variable(environment: Mapping[str, str]) -> None:
    """Raise UsageError, with the reason, if IOTOP_AI_SOCKET holds a path at which no socket can be created."""
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


def _own_path(environment: Mapping[str, str]) -> str | None:
    """Return the path of this monitor's socket; make its folder. None for a user without a runtime folder."""
    folder = marks_folder(environment, os.geteuid())
    if folder is None:
        return None
    _make_private_folder(os.path.dirname(folder))
    _make_private_folder(folder)
    return os.path.join(folder, f"{os.getpid()}.sock")


def _make_private_folder(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise UnknownError(f"{path} is not private to this user")
