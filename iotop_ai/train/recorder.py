"""The recorder of a training process: ``iotop-ai record`` as a child process, which does not need this Python's GIL.

The training process and the recorder communicate through pipes. The recorder ends when the training process ends, even
if that process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from iotop_ai.collectors.io.spawn import start_with_blocked_signals
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, NotDoneError, UnknownError, UsageError
from iotop_ai.train.program import program_environment

if TYPE_CHECKING:
    import subprocess

_LONGEST_LINE = 1 << 20
_BLOCK = 1 << 16
_SINGLE_WAIT_S = 0.2
"""The longest single wait for an answer, in seconds. It is short, because another thread may take the answer."""
_REAP_S = 0.1
"""How long ``reason`` waits for the exit code of a recorder that has closed its output, in seconds."""
_SIGNAL_S = 2.0
"""How long a process has to end after SIGTERM, and again after SIGKILL, in seconds."""
_ERRORS = tuple(f"{error.word}: " for error in (UsageError, InputError, UnknownError, NotDoneError))
"""The beginnings of the lines that report why ``iotop-ai`` has failed."""
_REMARKS = ("record: ", "settings: ", "warning: ")
"""The beginnings of the lines that a recorder also writes when nothing is wrong."""
_NO_STATUS: dict[str, Any] = {}


class Recorder:
    """A running recorder. argv: the command that starts it. Raises OSError if it cannot be started.

    status: the newest answer; {} before the first one. ready: whether the recorder has taken its first Snapshot. ended:
    whether it has closed its output, or ``end`` has waited for it. All methods but ``ask``, ``end`` and ``reason``
    return at once.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        import subprocess  # imported here: slow, and only needed to record

        # The recorder gets a separate session, so that Ctrl-C and a scheduler's signal end the training first, and the
        # recording includes that end.
        self._child: subprocess.Popen[bytes] = start_with_blocked_signals(
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
        self._in, self._out, self._stderr = (
            pipe.fileno() for pipe in (self._child.stdin, self._child.stdout, self._child.stderr)
        )
        for pipe in (self._in, self._out, self._stderr):
            os.set_blocking(pipe, False)
        # A signal handler may send a mark, ask, or end the recorder while the thread that it interrupts holds a lock.
        self._lock = threading.RLock()
        self._write_lock = threading.RLock()
        self._reading = False
        """Whether the thread that holds ``_lock`` reads the output."""
        self._waited = False
        """Whether ``end`` has waited for the recorder, so that its output is not needed any more."""
        self._rest = b""
        """The newest line of the recorder's output, while it is incomplete."""
        self._stderr_tail = b""
        self._stderr_ended = False
        self._killed_in_vain = False
        """Whether the recorder had not ended after SIGKILL."""
        self._requests = 0
        self._answers = 0
        self.status: dict[str, Any] = _NO_STATUS
        self.ready = self.ended = False

    @property
    def pid(self) -> int:
        """The pid of the recorder."""
        return self._child.pid

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message without waiting. The message is lost if the pipe is full or the message is too long for it."""
        self._try_send(message)

    def _try_send(self, message: Mapping[str, object]) -> bool:
        """Send a message of at most PIPE_BUF bytes without waiting; return whether it was written."""
        raw = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        if len(raw) <= select.PIPE_BUF:  # a write of this size is all or nothing
            with self._write_lock, contextlib.suppress(OSError, ValueError), _without_sigpipe():
                return os.write(self._in, raw) > 0
        return False

    def poll(self) -> None:
        """Read the answers that have arrived, and request the next status if no answer is due."""
        self._read_output(0.0)
        if self.ready and self._requests == self._answers:
            self._request_status()

    def ask(self, seconds: float) -> None:
        """Request a new status and wait for it, for at most ``seconds``."""
        end = time.monotonic() + seconds
        readable = True
        while readable and not (self.ready or self.ended) and time.monotonic() < end:
            readable = self._read_output(end - time.monotonic())
        if self.ended:
            return
        self._request_status()
        while readable and self._answers < self._requests and not self.ended and time.monotonic() < end:
            readable = self._read_output(end - time.monotonic())

    def end(self, seconds: float) -> int | None:
        """Let the recorder take a last Snapshot and end; kill it after ``seconds``.

        Return what ``wait_or_kill`` returns.
        """
        try:
            # Closing the pipe is not enough, because a forked worker may hold a copy of its descriptor.
            self.send({"kind": "end"})
            with self._write_lock:
                self._in = -1  # a file that is opened later may get the pipe's descriptor
                if self._child.stdin is not None:
                    self._child.stdin.close()
            return self._wait_for_end(seconds)
        except BaseException:  # on Ctrl-C the caller goes on at once, and a thread waits for the recorder
            with contextlib.suppress(RuntimeError):  # no thread starts while Python ends; the recorder then ends too
                threading.Thread(target=self._wait_for_end, args=(seconds,), daemon=True).start()
            raise

    def _wait_for_end(self, seconds: float) -> int | None:
        """Read the rest of the recorder's output and wait for its end; return what ``wait_or_kill`` returns."""
        end = time.monotonic() + seconds
        readable = True
        while readable and not self.ended and time.monotonic() < end:
            readable = self._read_output(end - time.monotonic())
        code = wait_or_kill(self._child, max(1.0, end - time.monotonic()))
        self._killed_in_vain = code is None
        self._read_output(0.0)
        with self._lock:
            self.ended = self._waited = True  # no other thread reads the pipes from here on
            if not self._reading:  # else this is a signal handler, and the reading that it interrupts goes on
                self._close_outputs()
        return code

    def _close_outputs(self) -> None:
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()

    def reason(self) -> str:
        """Return why the recorder has ended: its error, a signal or its exit code."""
        from subprocess import TimeoutExpired

        code = None
        with contextlib.suppress(TimeoutExpired):  # a program may close its output and run on
            code = self._child.wait(_REAP_S)
        lines = self._stderr_tail.decode("utf-8", "replace").strip().splitlines()[::-1]
        reason_line = next((line for line in lines if line.startswith(_ERRORS)), "")
        if not reason_line and code is not None and code < 0:
            return f"the recorder was ended by {_signal_name(-code)}"
        if not reason_line and code is None and self._killed_in_vain:
            return not_ended("the recorder", self.pid)
        if not reason_line and code != 0:
            reason_line = next((line for line in lines if not line.startswith(_REMARKS)), "")
        return clean(reason_line) or (f"the recorder ended with exit code {code}" if code else "the recorder has ended")

    def _request_status(self) -> None:
        with self._lock:  # another thread must not take the answer before the request is counted
            self._requests += 1  # before it is sent, because a signal handler may take the answer
            if not self._try_send({"kind": "status"}):
                self._requests -= 1

    def _read_output(self, seconds: float) -> bool:
        """Read the recorder's output, waiting for at most ``seconds`` and at most _SINGLE_WAIT_S; handle each line.

        Return whether this was possible. It is not possible in a signal handler that has interrupted a reading.
        """
        if self._interrupts_reading():
            return False
        if self.ended:
            return True
        poller = select.poll()
        poller.register(self._out, select.POLLIN)
        if not self._stderr_ended:
            poller.register(self._stderr, select.POLLIN)
        ready = dict(poller.poll(max(0, int(min(seconds, _SINGLE_WAIT_S) * 1000))))
        with self._lock:
            try:
                self._reading = True
                if not self.ended:  # read after ``_reading`` is set: a signal handler may end the recorder before
                    self._handle_output(ready)
            finally:
                self._reading = False
                if self._waited:  # a signal handler has ended the recorder meanwhile
                    self._close_outputs()
        return True

    def _interrupts_reading(self) -> bool:
        """Return whether this is a signal handler that has interrupted this thread while it reads."""
        # Another thread that holds the lock reads without waiting, so the lock is free soon.
        with self._lock:
            return self._reading

    def _handle_output(self, ready: Mapping[int, int]) -> None:
        """Read the outputs in ``ready``, and handle each line."""
        if self._stderr in ready:
            stderr = _read(self._stderr)
            self._stderr_ended = stderr == b""
            self._stderr_tail = (self._stderr_tail + (stderr or b""))[-4096:]
        read = _read(self._out) if self._out in ready else None
        if read is None:
            return
        self.ended = self.ended or not read
        *lines, self._rest = (self._rest + read).split(b"\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            self._handle_line(line)

    def _handle_line(self, line: bytes) -> None:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            self._answers = self._requests  # the pipe was full, so any answer that is still due may be lost
            return
        if not isinstance(answer, dict):
            return
        kind = answer.pop("kind", "")
        if kind == "ready":
            self.ready = True
        elif kind == "status":
            self._answers = min(self._requests, self._answers + 1)
        elif kind != "end":
            return
        self.status = answer


@contextlib.contextmanager
def _without_sigpipe() -> Iterator[None]:
    """Drop the SIGPIPE of a write to an ended recorder: it would end a program that restored the signal's default."""
    pipe = (signal.SIGPIPE,)
    was_pending = signal.SIGPIPE in signal.sigpending()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:  # begins before the signal is blocked: pthread_sigmask may block it and then raise KeyboardInterrupt
        signal.pthread_sigmask(signal.SIG_BLOCK, pipe)
        try:
            yield
        except BrokenPipeError:
            if not was_pending:
                signal.sigtimedwait(pipe, 0)
            raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def wait_or_kill(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Wait for the exit code of a child; after ``seconds`` send SIGTERM, and then SIGKILL.

    Return None if the child does not end even then, because it waits for a disk or a filesystem (state D). A negative
    exit code is the number of the signal that ended the child.
    """
    from subprocess import TimeoutExpired

    for stop in (child.terminate, child.kill):
        try:
            return child.wait(seconds)
        except TimeoutExpired:
            stop()
            seconds = _SIGNAL_S
    with contextlib.suppress(TimeoutExpired):
        return child.wait(seconds)
    return None


def not_ended(name: str, pid: int) -> str:
    """Return a sentence about a process for which ``wait_or_kill`` has returned None."""
    return f"{name}, pid {pid}, has not ended after SIGKILL: it may wait for a disk or a filesystem (state D)"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _read(pipe: int) -> bytes | None:
    """Return the available bytes; b"" at the end, None if another thread or process has taken them."""
    try:
        return os.read(pipe, _BLOCK)
    except BlockingIOError:
        return None


def record_command(program: list[str], path: str, interval_s: float, options: Sequence[str]) -> list[str]:
    """Return the command that records into a file until its parent process ends the recording, or ends."""
    return [*program, "record", "--control", "-o", path, "-d", f"{interval_s:g}", *options]
