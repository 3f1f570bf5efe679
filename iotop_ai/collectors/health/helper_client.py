"""The caller's side of the SMART helper. The helper is started when it is first needed, and killed if it hangs."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING, Any

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.spawn import start_own_child
from iotop_ai.model.clean import clean
from iotop_ai.model.reading import Status

if TYPE_CHECKING:
    import subprocess

HELPER = "iotop_ai.collectors.health.helper"
_END_WAIT_S = 1.0
_LONGEST_RESPONSE_BYTES = 1 << 24


class SmartProcess:
    """One helper process. Only one thread at a time may use it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None
        self._id = 0
        self._unread = b""
        """The bytes that were received after the last response."""

    @property
    def pid(self) -> int | None:
        """The PID of the helper while it runs; otherwise None."""
        return None if self._child is None else self._child.pid

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and return the response. Kills a helper that does not answer in time. Raises Unavailable."""
        try:
            child = self._running_child()
        except OSError as error:
            raise Unavailable(Status.FAILED, f"the SMART helper cannot start: {error.strerror or error}") from error
        self._id += 1
        import json

        line = json.dumps({"id": self._id, **request}).encode() + b"\n"
        try:
            os.write(child.stdin.fileno(), line)  # type: ignore[union-attr]
            response = self._response(child, timeout_s)
        except OSError as error:
            self.stop()
            raise Unavailable(Status.FAILED, f"the SMART helper ended: {error.strerror}") from error
        if "error" in response:
            raise Unavailable(Status.FAILED, clean(str(response["error"])))
        return response

    def _running_child(self) -> subprocess.Popen[bytes]:
        """Return the helper; start one if none runs. Raises OSError."""
        if self._child is not None and self._child.poll() is not None:
            self.stop()
        if self._child is None:
            self._child = start_own_child(HELPER)
            self._unread = b""
        return self._child

    def _response(self, child: subprocess.Popen[bytes], timeout_s: float) -> dict[str, Any]:
        source = child.stdout.fileno()  # type: ignore[union-attr]
        until_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        poll = select.poll()
        poll.register(source, select.POLLIN)
        while b"\n" not in self._unread:
            left_ms = (until_ns - self._clock.monotonic_ns()) // 1_000_000
            if left_ms <= 0 or not poll.poll(left_ms):
                self.stop()
                raise Unavailable(Status.FAILED, f"the SMART helper did not answer within {timeout_s:g} s")
            more = os.read(source, 1 << 16)
            self._unread += more
            if not more or len(self._unread) > _LONGEST_RESPONSE_BYTES:
                self.stop()
                raise Unavailable(Status.FAILED, _failure_text(child, oversized=bool(more)))
        line, _, self._unread = self._unread.partition(b"\n")
        import json

        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or answer.get("id") != self._id:
            self.stop()
            raise Unavailable(Status.FAILED, "the SMART helper sent an unexpected response")
        return answer

    def interrupt(self) -> None:
        """End the helper.

        Any thread can call this; the thread that waits for a response notices the end and cleans up.
        """
        child = self._child
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()

    def stop(self) -> None:
        """End the helper, which then kills its smartctl; kill the helper if it still runs after one second.

        Does nothing if no helper runs.
        """
        child, self._child = self._child, None
        if child is None:
            return
        import subprocess

        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        try:
            child.wait(_END_WAIT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_END_WAIT_S)


def _failure_text(child: subprocess.Popen[bytes], *, oversized: bool) -> str:
    """Return why a stopped helper gave no complete response."""
    if oversized:
        return f"the SMART helper sent more than {_LONGEST_RESPONSE_BYTES >> 20} MiB"
    if child.returncode is None:
        return "the SMART helper closed its output and cannot be killed"
    return f"the SMART helper ended with status {child.returncode}"
