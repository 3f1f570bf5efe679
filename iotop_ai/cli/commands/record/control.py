"""Requests from the program that started the recording (the starter): JSON Lines on stdin, answers on stdout.

A request is ``{"kind": "mark", "text": "epoch 3"}`` or ``{"kind": "steps", ...}``, as on the socket for marks;
``{"kind": "status"}``, which is answered with one line; or ``{"kind": "end"}``. The recording also ends when the
starter closes its end of the pipe or dies.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import stat
import threading
from collections.abc import Callable, Mapping
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.linux_calls import pidfd_open
from iotop_ai.collectors.io.marks_socket import LARGEST_MESSAGE_BYTES, parse_message
from iotop_ai.model.job.steps import StepCounts
from iotop_ai.sources.live.source import LiveSource

log = logging.getLogger(__name__)
_STATUS, _END = b'{"kind":"status"}', b'{"kind":"end"}'
_BLANKS = b" \t\r"
_BLOCK = 65536
_MOST_EARLY = 100
"""The maximum number of messages that are kept until ``connect``."""


class Control:
    """Reads requests on a thread until the recording has to end, then calls ``on_end``.

    status: returns the answer to a status request. Answers are dropped while the pipe to the starter is full.
    """

    def __init__(self, clock: Clock, status: Callable[[], Mapping[str, Any]], on_end: Callable[[], None]) -> None:
        self.starter_pid = os.getppid()
        self._clock = clock
        self._status = status
        self._on_end = on_end
        self._source: LiveSource | None = None
        self._early: list[str | StepCounts] = []
        """The marks and steps that arrived before ``connect``."""
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._line_is_open = False
        """Whether the last line was written only in part, because the pipe was full."""
        for descriptor in (1, 2):  # a full pipe must not stop the recording
            _set_non_blocking(descriptor)
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def connect(self, source: LiveSource) -> None:
        """Pass marks and steps to this source, including those that arrived earlier."""
        with self._lock:
            self._source, early = source, self._early
            self._early = []
        for message in early:
            self._pass_on(source, message)

    def write_line(self, kind: str, **fields: Any) -> None:
        """Write an object as one line of JSON to standard output. kind: its field "kind". fields: its other fields."""
        line = json.dumps({"kind": kind, **fields}, allow_nan=False).encode() + b"\n"
        with self._write_lock, contextlib.suppress(OSError):
            if self._line_is_open:  # end the incomplete line, so that the reader can parse this one
                os.write(1, b"\n")
                self._line_is_open = False
            self._line_is_open = os.write(1, line) < len(line)

    def _run(self) -> None:
        try:
            self._serve()
        finally:  # without this thread nothing could end the recording
            self._on_end()

    def _serve(self) -> None:
        """Handle requests until the starter requests the end, closes its end of the pipe, or has ended."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        starter_fd = -1
        with contextlib.suppress(OSError):  # the starter has ended already
            starter_fd = pidfd_open(self.starter_pid)
            poll.register(starter_fd, select.POLLIN)
        rest = b""
        while True:
            ready = dict(poll.poll())
            if 0 in ready:
                data = os.read(0, _BLOCK)
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                rest = rest[-LARGEST_MESSAGE_BYTES:]
                for line in lines:
                    self._handle_request(line)
                if any(line.translate(None, _BLANKS) == _END for line in lines):
                    break
            elif starter_fd in ready:  # a child of the starter may still hold the pipe open
                break
        if starter_fd >= 0:
            os.close(starter_fd)

    def _handle_request(self, line: bytes) -> None:
        """Answer a status request, or pass a mark or steps to the source. Other lines are ignored."""
        if len(line) > LARGEST_MESSAGE_BYTES:
            return
        if line.translate(None, _BLANKS) == _STATUS:
            try:
                self.write_line("status", **self._status())
            except Exception as error:  # this thread must go on, to end the recording when the starter dies
                log.warning("no answer to a status request: %r", error)
            return
        message = parse_message(line, self._clock.monotonic_ns())
        if message is None:
            return
        with self._lock:
            source = self._source
            if source is None:
                self._early = [*self._early, message][-_MOST_EARLY:]
                return
        self._pass_on(source, message)

    def _pass_on(self, source: LiveSource, message: str | StepCounts) -> None:
        if isinstance(message, str):
            source.add_mark(message)
        else:
            source.take_steps(self.starter_pid, message)


def _set_non_blocking(descriptor: int) -> None:
    """Make writes to a pipe, terminal or socket fail when it is full.

    The flag belongs to the opened file, which the starter may share, so a pipe or terminal is opened a second time.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        try:
            opened = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:  # the pipe has no reader, or it belongs to another user
            if stat.S_ISFIFO(mode):
                os.set_blocking(descriptor, False)
            return
        os.dup2(opened, descriptor)
        os.close(opened)
    elif stat.S_ISSOCK(mode):
        os.set_blocking(descriptor, False)
