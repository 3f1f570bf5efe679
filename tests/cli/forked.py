"""Runs of the program that are forked from a process which has imported it: each costs a small part of a start."""

from __future__ import annotations

import atexit
import functools
import io
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tests.cli.fork_server import NUMBER_BYTES

TOP = Path(__file__).resolve().parents[2]
READ_AT_START = ("PYTHON", "LANG", "LC_")
"""The beginnings of the names of variables that Python reads only when it starts."""
GIVEN = {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
"""The values that these variables have in every run."""


class Run:
    """A running program, with the methods of ``subprocess.Popen`` that the tests need.

    Its standard input is empty; its other streams are pipes unless ``out`` and ``errors`` are files. Its parent is the
    process that forks.
    """

    def __init__(
        self,
        words: tuple[str, ...],
        environment: Mapping[str, str],
        out: IO[Any] | None = None,
        errors: IO[Any] | None = None,
    ) -> None:
        special = {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}
        assert special.items() <= GIVEN.items(), f"needs a start of Python: {special}"
        request = json.dumps({"words": words, "environment": dict(environment), "folder": str(TOP)})
        self.words = words
        self.returncode: int | None = None
        status, answer = os.pipe()
        out_reader, out_writer = os.pipe()
        error_reader, error_writer = os.pipe()
        with open(os.devnull) as empty:
            try:
                to_send = (empty, out or out_writer, errors or error_writer, answer)
                files = [stream if isinstance(stream, int) else stream.fileno() for stream in to_send]
                socket.send_fds(_server(), [request.encode()], files)
            finally:
                for file in (answer, out_writer, error_writer):
                    os.close(file)
        self.stdout, self.stderr = os.fdopen(out_reader), os.fdopen(error_reader)
        self._status = os.fdopen(status, "rb", 0)
        self.pid = self._number()

    def _number(self) -> int:
        data = self._status.read(NUMBER_BYTES)
        assert data, "the server that forks has ended"
        return int.from_bytes(data, "big", signed=True)

    def poll(self) -> int | None:
        """Return the exit status, or None before the end."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if timeout is not None and not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.words, timeout)
            self.returncode = self._number()
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both streams to their ends and wait. Raises subprocess.TimeoutExpired."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        data = {self.stdout: b"", self.stderr: b""}
        with selectors.DefaultSelector() as waiting:
            for stream in data:
                waiting.register(stream, selectors.EVENT_READ)
            while waiting.get_map():
                if (left := end - time.monotonic()) <= 0:
                    raise subprocess.TimeoutExpired(self.words, timeout or 0)
                for key, _ in waiting.select(None if timeout is None else left):
                    if more := os.read(key.fd, 1 << 16):
                        data[key.fileobj] += more  # type: ignore[index]
                    else:
                        waiting.unregister(key.fileobj)
        self.stdout.close()
        self.stderr.close()
        self.wait(None if timeout is None else max(0.0, end - time.monotonic()))
        out, errors = (io.TextIOWrapper(io.BytesIO(one), "utf-8").read() for one in data.values())
        return out, errors

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()


@functools.cache
def _server() -> socket.socket:
    """Start the process that forks, and return the connection to it. It ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        line = [sys.executable, "-m", "tests.cli.fork_server", str(theirs.fileno())]
        environment = {"PATH": os.environ.get("PATH", os.defpath), **GIVEN}
        process = subprocess.Popen(
            line, cwd=TOP, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )  # fmt: skip

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
