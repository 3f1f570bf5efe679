"""Finds out whether a signal was sent to the recorded command too, which then must not get it a second time.

``kill -TERM -PGID``, systemd and batch systems signal every process of a group, and a handler that saves a checkpoint
would run twice. The kernel does not say to which other processes a signal was sent. Therefore a process of ours beside
the command reports the signals that it gets.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable

from iotop_ai.cli.commands.record.report_signals import READY
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.spawn import own_environment, own_python, start_with_blocked_signals

START_S = 2.0
"""The longest wait for the witness to start, in seconds. What it gets before waits until then."""
LATE_S = 0.1
"""The longest time from the arrival of a signal here to its report, in seconds."""
EARLY_S = 0.3
"""How much older than its arrival here the report of a signal may be, in seconds, where our thread runs late."""


class Witness:
    """A process in our process group and cgroup that reports its signals. If it cannot run, no signal counts as shared.

    Create it while the calling thread blocks these signals, so that the process starts with them blocked.
    """

    def __init__(self, numbers: Iterable[signal.Signals], clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._text = b""
        self._reports: list[tuple[int, int]] = []
        """(signal, monotonic time in ns) of each report that has not been asked for."""
        self._ready = False
        self._process: subprocess.Popen[bytes] | None = None
        arguments = [str(int(number)) for number in numbers]
        try:
            self._process = start_with_blocked_signals(
                own_python("iotop_ai.cli.commands.record.report_signals", *arguments),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
                env=own_environment(),
            )  # fmt: skip
        except OSError:  # such as the limit of processes
            return

    def saw(self, number: signal.Signals) -> bool:
        """Whether the witness got this signal too, which has just arrived here; waits shortly for its report."""
        since_ns = self._clock.monotonic_ns() - int(EARLY_S * 1e9)
        with self._lock:
            if not self._read_until(lambda: self._ready, START_S):
                return False
            reported = self._read_until(
                lambda: any(one == number and at_ns >= since_ns for one, at_ns in self._reports), LATE_S
            )
            self._reports = [(one, at_ns) for one, at_ns in self._reports if one != number and at_ns >= since_ns]
            return reported

    def _read_until(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Read reports until ``is_done`` returns True or the time is over; return its last answer."""
        end_ns = self._clock.monotonic_ns() + int(seconds * 1e9)
        while not is_done() and self._process is not None and self._process.stdout is not None:
            stdout, left_s = self._process.stdout.fileno(), (end_ns - self._clock.monotonic_ns()) / 1e9
            if not select.select([stdout], [], [], max(0.0, left_s))[0]:
                break
            if not (data := os.read(stdout, 4096)):  # the process was killed
                self._end()
                break
            *lines, self._text = (self._text + data).split(b"\n")
            self._ready = self._ready or READY in lines
            for line in lines:
                if line != READY:
                    one, at_ns = map(int, line.split())
                    self._reports.append((one, at_ns))
        return is_done()

    def close(self) -> None:
        """End the process; may be called twice."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
