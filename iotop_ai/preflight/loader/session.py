"""Runs one configuration in a process of the user's Python, and always ends that process."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.spawn import start
from iotop_ai.collectors.machine.host import read_container
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.loader.outcome import LoaderProcess, Outcome
from iotop_ai.model.preflight.loader.run import Built, Configuration, Run, Steady
from iotop_ai.preflight.child_messages import MessageReader
from iotop_ai.preflight.loader.judge import failure_of, user_frame
from iotop_ai.preflight.loader.watch import TreeWatch

POLL_MS = 100
SAMPLE_MS = (50, 150)
"""The shortest and the longest time between two samples of the processes. The time is random, so that the samples do
not follow the rhythm of the batches.
"""
GRACE_S, GONE_S = 3.0, 2.0
"""The seconds that a loader may take to exit by itself after it has yielded batches at a steady rate, and the seconds
that a killed loader may take to disappear.
"""
BUSY_FACTOR = 4
"""The time limit is multiplied by this for a loader that uses the CPU, because it may be slow, not hung."""
BUSY_CORES = 0.05
"""A loader that uses more cores than this counts as using the CPU."""
STACK_S = 0.5
"""The seconds to wait for the stack that a hung process prints."""
MOST_STACKS = 4
"""The largest number of processes whose stack is asked for."""
_KEPT_BYTES = 16 << 10
"""The number of bytes that are kept from the end of standard error."""
_SOURCE = Path(__file__).with_name("run_child.py")


class Request(NamedTuple):
    """The request to the child process.

    module, factory: the parts of MODULE:FACTORY. folder: the user's current folder, which is searched first. seconds:
    the time for which batches are read at a steady rate.

    timeout_s: an idle configuration counts as hung if it sends no message for this time. one_epoch: whether to read
    only one epoch.
    """

    python: str
    module: str
    factory: str
    folder: str
    environment: Mapping[str, str]
    seconds: float
    timeout_s: float
    one_epoch: bool = False


class Session:
    """Runs one configuration. Call ``run`` once. It ends all processes before it returns, even after an exception."""

    def __init__(self, request: Request, configuration: Configuration, root: Root, clock: Clock) -> None:
        self._request, self._configuration, self._clock = request, configuration, clock
        argument = {
            **{name: getattr(request, name) for name in ("module", "factory", "folder", "seconds", "one_epoch")},
            **configuration._asdict(),
            "parent": os.getpid(),
        }
        self._child = start(
            [request.python, "-c", _SOURCE.read_text(), json.dumps(argument)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**request.environment, "PYTHONSAFEPATH": "1"},
            start_new_session=True,
        )
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._out, self._err = self._child.stdout.fileno(), self._child.stderr.fileno()
        self._poll = select.poll()
        for handle in (self._out, self._err):
            self._poll.register(handle, select.POLLIN)
        self._root = root
        self._watch = TreeWatch(root, self._child.pid, clock)
        self._reader, self._stderr = MessageReader(), b""
        self._phase, self._batches, self._is_steady = "import", 0, False
        self._built: Built | None = None
        self._last_message_ns = clock.monotonic_ns()
        self._last_message_cpu_s = 0.0

    def run(self, show: Callable[[int], None]) -> Run:
        """Return a Run with the figures or the failure. show: called with the number of batches so far."""
        try:
            return self._run(show)
        finally:
            self._stop()

    def _run(self, show: Callable[[int], None]) -> Run:
        random, next_sample_ns = Random(1), 0
        while True:
            ended = self._child.poll()  # polled before the read, so that the read gets the last messages
            left_ms = (next_sample_ns - self._clock.monotonic_ns()) // 10**6
            for message in self._receive(max(1, left_ms)):
                kind = message["message"]
                if kind == "done":
                    used = self._watch.usage()
                    steady = Steady(*(message[name] for name in Steady._fields))
                    return Run(self._configuration, self._built, steady, used)
                if kind in ("error", "refused"):
                    return self._failed_run(message)
                self._handle(kind, message)
            if ended is not None:
                return self._failed_run({}, returncode=ended)
            # Samples after each message would be biased, because the loader always runs when it sends one.
            if self._clock.monotonic_ns() >= next_sample_ns:
                self._watch.sample()
                next_sample_ns = self._clock.monotonic_ns() + random.randint(*SAMPLE_MS) * 10**6
            self._watch.sample_memory(self._batches if self._is_steady else 0)
            if silent := self._silent_s():
                return self._failed_run({}, silent_s=silent)
            show(self._batches)

    def _receive(self, wait_ms: int) -> list[dict[str, Any]]:
        """Wait for output, at most ``wait_ms``, and return the messages in it."""
        messages: list[dict[str, Any]] = []
        for handle, _ in self._poll.poll(wait_ms):
            raw = os.read(handle, 1 << 16)
            if not raw:
                self._poll.unregister(handle)
            elif handle == self._err:
                self._stderr = (self._stderr + raw)[-_KEPT_BYTES:]
            else:
                messages += self._reader.feed(raw)
        if messages:
            self._last_message_ns, self._last_message_cpu_s = self._clock.monotonic_ns(), self._watch.cpu_seconds()
        return [message for message in messages if message]

    def _handle(self, kind: str, message: dict[str, Any]) -> None:
        if kind == "phase":
            self._phase = str(message["phase"])
        elif kind == "built":
            epoch_bytes = message["epoch_bytes"]
            self._built = Built(
                clean(message["kind"]),
                clean(message["start"]),
                tuple(map(clean, message["applied"])),
                bool(message["cuda"]),
                tuple(map(clean, message["stages"])),
                None if epoch_bytes is None else int(epoch_bytes),
            )
        elif kind == "steady":
            self._phase, self._is_steady = "batches", True
            self._watch.begin()
        if "batches" in message:
            self._batches = int(message["batches"])

    def _silent_s(self) -> float:
        """Return the seconds since the last message if they exceed the limit, else 0."""
        silent = (self._clock.monotonic_ns() - self._last_message_ns) / 1e9
        limit = self._request.timeout_s
        if silent <= limit:
            return 0.0
        return 0.0 if self._busy_cores(silent) > BUSY_CORES and silent <= BUSY_FACTOR * limit else silent

    def _busy_cores(self, seconds: float) -> float:
        """Return the mean number of cores that the processes used in the seconds since the last message."""
        return (self._watch.cpu_seconds() - self._last_message_cpu_s) / seconds

    def _failed_run(self, message: dict[str, Any], *, silent_s: float = 0.0, returncode: int | None = None) -> Run:
        """Return the Run of a configuration that gave no figures. message: the child's last one; {} without one."""
        busy_cores = self._busy_cores(silent_s) if silent_s else None
        processes = tuple(self._watch.process_states())
        stderr_before_stacks = self._stderr.decode("utf-8", "replace")
        if silent_s:
            with_stack = sorted(processes, key=lambda process: not process.worker)[:MOST_STACKS]
            processes = tuple(
                process._replace(frame=self._frame(process)) if process in with_stack else process
                for process in processes
            )
        self._receive(POLL_MS)
        outcome = Outcome(
            self._phase,
            self._built.start if self._built else self._configuration.start,
            silent_s,
            returncode,
            error=str(message.get("type", "")),
            text=str(message.get("text", "")),
            trace=str(message.get("trace", "")),
            refused=str(message.get("text", "")) if message.get("message") == "refused" else "",
            empty=bool(message.get("empty")),
            stderr=stderr_before_stacks if silent_s else self._stderr.decode("utf-8", "replace"),
            processes=processes,
            busy_cores=busy_cores,
            shm_bytes=self._watch.shm_bytes,
            least_shm_free_bytes=self._watch.least_shm_free_bytes,
            workers=self._configuration.workers,
            container=read_container(self._root),
        )
        return Run(self._configuration, self._built, failure=failure_of(outcome))

    def _frame(self, process: LoaderProcess) -> str:
        """Return the user's line of Python in a process that shows its stack on SIGUSR1; "" for other processes."""
        if process.exit_status is not None or not self._watch.catches(process.pid, signal.SIGUSR1):
            return ""
        self._stderr = b""
        with suppress(OSError):
            os.kill(process.pid, signal.SIGUSR1)
        until = self._clock.monotonic_ns() + int(STACK_S * 1e9)
        while self._clock.monotonic_ns() < until:
            self._receive(POLL_MS)
            if frame := user_frame(self._stderr.decode("utf-8", "replace"), last=False):
                return frame
        return ""

    def _stop(self) -> None:
        """Let a child that yielded batches at a steady rate exit by itself, then kill every process that is left."""
        child = self._child
        self._watch.update_processes()
        if child.stdin is not None:
            with suppress(OSError):
                child.stdin.close()
        until = self._clock.monotonic_ns() + int(GRACE_S * 1e9)
        while self._is_steady and child.poll() is None and self._clock.monotonic_ns() < until:
            self._receive(POLL_MS)
        # multiprocessing's tracker is not killed here, because it removes the semaphores when the other processes are
        # gone.
        for pid in [*self._watch.workers, self._watch.pids[0]]:
            if pid != child.pid or child.poll() is None:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            child.wait(GONE_S)
        self._receive(POLL_MS)
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        for stream in filter(None, (child.stdout, child.stderr)):
            stream.close()
