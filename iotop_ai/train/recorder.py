"""The recorder of a training process: ``iotop-ai record`` as a child, which the interpreter's lock cannot starve.

The training process asks it through pipes. It ends with the training process, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
import time
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from iotop_ai.collectors.io.spawn import start
from iotop_ai.model.clean import clean
from iotop_ai.train.program import program_environment

if TYPE_CHECKING:
    import subprocess

_LONGEST_LINE = 1 << 20
_BLOCK = 1 << 16
_LOOK_S = 0.2
"""Another thread may take the answer that this one waits for."""
_NO_STATUS: dict[str, Any] = {}


class Recorder:
    """A recorder that runs. argv: its command. Raises OSError when it cannot be started.

    status: its newest answer, {} before the first. ready: it has taken its first Snapshot. ended: it has closed its
    output. All calls but ``ask`` and ``end`` return at once.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        import subprocess  # slow import: only a process that records needs it

        # A session of its own: Ctrl-C and a scheduler's signal end the training first, and its end is recorded.
        self._child: subprocess.Popen[bytes] = start(
            argv,
            env=program_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._in, self._out, self._messages = (
            pipe.fileno() for pipe in (self._child.stdin, self._child.stdout, self._child.stderr)
        )
        for pipe in (self._in, self._out, self._messages):
            os.set_blocking(pipe, False)
        self._lock = threading.Lock()
        self._rest = b""
        self._last_words = b""
        self._messages_ended = False
        self._asked = 0
        self._answered = 0
        self.status: dict[str, Any] = _NO_STATUS
        self.ready = self.ended = False

    @property
    def pid(self) -> int:
        """The recorder's pid."""
        return self._child.pid

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message without waiting; one that finds the pipe full is lost."""
        self._sent(message)

    def _sent(self, message: Mapping[str, object]) -> bool:
        """Send a message without waiting; returns whether it was written."""
        raw = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        if len(raw) <= select.PIPE_BUF:  # so that it is written whole or not at all
            with contextlib.suppress(OSError, ValueError):
                return os.write(self._in, raw) > 0
        return False

    def poll(self) -> None:
        """Read the answers that have come, and ask for the next status."""
        self._take(0.0)
        if self.ready and self._asked == self._answered:
            self._ask()

    def ask(self, seconds: float) -> None:
        """Wait for a new status, at most ``seconds``."""
        end = time.monotonic() + seconds
        while not (self.ready or self.ended) and time.monotonic() < end:
            self._take(end - time.monotonic())
        if self.ended:
            return
        self._ask()
        while self._answered < self._asked and not self.ended and time.monotonic() < end:
            self._take(end - time.monotonic())

    def end(self, seconds: float) -> int:
        """Let the recorder take a last Snapshot and end in ``seconds``; returns its exit code (-15, -9: killed)."""
        try:
            # Closing alone is not enough: a forked worker may hold this end of the pipe, too.
            self.send({"kind": "end"})
            if self._child.stdin is not None:
                self._child.stdin.close()
            return self._ended_within(seconds)
        except BaseException:  # Ctrl-C: the caller goes on at once, and the recorder still ends its file and is reaped
            with contextlib.suppress(RuntimeError):  # the interpreter is ending: its parent's end suffices
                threading.Thread(target=self._ended_within, args=(seconds,), daemon=True).start()
            raise

    def _ended_within(self, seconds: float) -> int:
        """Read what the recorder still writes, and reap it; returns its exit code."""
        end = time.monotonic() + seconds
        while not self.ended and time.monotonic() < end:
            self._take(end - time.monotonic())
        code = self._wait(max(1.0, end - time.monotonic()))
        self._take(0.0)
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()
        return code

    def _wait(self, seconds: float) -> int:
        from subprocess import TimeoutExpired

        for stop in (self._child.terminate, self._child.kill):
            try:
                return self._child.wait(seconds)
            except TimeoutExpired:
                stop()
                seconds = 2.0
        return self._child.wait()

    def last_words(self) -> str:
        """Return the newest line of its messages; "" without any."""
        lines = self._last_words.decode("utf-8", "replace").strip().splitlines()
        return clean(lines[-1]) if lines else ""

    def _ask(self) -> None:
        if self._sent({"kind": "status"}):
            self._asked += 1

    def _take(self, seconds: float) -> None:
        """Read what the recorder has written; wait at most ``seconds`` for something."""
        if self.ended:
            return
        waiting = select.poll()
        waiting.register(self._out, select.POLLIN)
        if not self._messages_ended:
            waiting.register(self._messages, select.POLLIN)
        ready = dict(waiting.poll(max(0, int(min(seconds, _LOOK_S) * 1000))))
        with self._lock:
            if self.ended:
                return
            if self._messages in ready:
                words = _read(self._messages)
                self._messages_ended = words == b""
                self._last_words = (self._last_words + (words or b""))[-4096:]
            read = _read(self._out) if self._out in ready else None
            if read is None:
                return
            self.ended = not read
            *lines, self._rest = (self._rest + read).split(b"\n")
            self._rest = self._rest[-_LONGEST_LINE:]
            for line in lines:
                self._understand(line)

    def _understand(self, line: bytes) -> None:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            self._answered = self._asked  # a torn answer
            return
        if not isinstance(answer, dict):
            return
        kind = answer.pop("kind", "")
        if kind == "ready":
            self.ready = True
        elif kind == "status":
            self._answered += 1
        elif kind != "end":
            return
        self.status = answer


def _read(pipe: int) -> bytes | None:
    """Return the available bytes; b"" at the end, None where another thread or process has taken it."""
    try:
        return os.read(pipe, _BLOCK)
    except BlockingIOError:
        return None


def record_command(program: list[str], path: str, interval_s: float, options: Sequence[str]) -> list[str]:
    """Return the command that records into a file while the starting program lives."""
    return [*program, "record", "--control", "-o", path, "-d", f"{interval_s:g}", *options]
