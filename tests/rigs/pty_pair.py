"""A pseudo-terminal without a terminal emulator: its output is bytes, and a new size applies at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

LONG_S = 20.0


def readable(handle: int, seconds: float) -> bool:
    """Whether data arrives within this time. poll() accepts any descriptor, but select() only the first 1,024."""
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


class PtyPair:
    """Use it as ``with PtyPair(["iotop-ai"], 80, 24, environment) as line``: a program, and our end of its terminal.

    The program leads a new session whose controlling terminal is the pseudo-terminal. written: every byte so far.
    """

    def __init__(
        self,
        command: Sequence[str],
        width: int,
        height: int,
        environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> None:
        self._command, self._environment, self._folder = list(command), dict(environment), folder
        self._size = (width, height)
        self.written = b""

    def __enter__(self) -> PtyPair:
        self._ours, theirs = pty.openpty()
        self.resize(*self._size)
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.process = subprocess.Popen(
            self._command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self._environment,
            cwd=self._folder,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.hang_up()

    def resize(self, width: int, height: int) -> None:
        """Change the size of the terminal. If it differs, the kernel sends SIGWINCH to the program."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, text: str) -> None:
        """Send text as if it were typed."""
        os.write(self._ours, text.encode())

    def attributes(self) -> list[object]:
        """The present attributes of the terminal."""
        return termios.tcgetattr(self._theirs)

    def read(self, seconds: float) -> bool:
        """Read output for at most ``seconds``, and return whether there was any."""
        if not readable(self._ours, seconds):
            return False
        try:
            more = os.read(self._ours, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.written += more
        return bool(more)

    def wait_for(self, text: str, after: int = 0) -> int:
        """Wait for ``text`` after byte ``after`` of the output; return the offset of its end. Raises AssertionError."""
        sought, end = text.encode(), time.monotonic() + LONG_S
        while (at := self.written.find(sought, after)) < 0:
            if time.monotonic() > end:
                raise AssertionError(f"not written within {LONG_S} s: {text!r}\n{self.written[after:]!r}")
            self.read(0.1)
        return at + len(sought)

    def ended(self) -> int:
        """Wait for the end of the program, and return its exit code. Raises AssertionError."""
        end = time.monotonic() + LONG_S
        while self.process.poll() is None:
            assert time.monotonic() < end, "still running"
            self.read(0.05)
        while self.read(0.05):
            pass
        return int(self.process.returncode)

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed."""
        for name in ("_ours", "_theirs"):
            descriptor = self.__dict__.pop(name, None)
            if descriptor is not None:
                os.close(descriptor)
