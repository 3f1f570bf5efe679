"""Our readers: processes that repeat an operation and measure the time of each operation.

The readers are processes, like the workers of a loader. Threads of one interpreter would wait for each other (up to
10 ms per operation with 4 threads). The processes are forked, so the caller must have only one thread. A process that
waits in the kernel cannot be ended: when no read or write ends for HANG_S, or for the limit that the caller gives,
HangError is raised, and the processes stay until the storage answers.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import signal
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup_limits import read_cores
from iotop_ai.model.preflight.storage import Measured, Phase, latency_of
from iotop_ai.preflight.storage.loops import (
    InPieces,
    ManyInFlight,
    Operation,
    Part,
    keep_in_flight,
    repeat,
    repeat_in_pieces,
)
from iotop_ai.preflight.storage.read_queue import ReadQueue

HANG_S = 5.0
"""The seconds without an answer after which the storage counts as hung."""
READ_MOST_BYTES = 16 << 30
"""The most bytes that are read in one phase."""
_TICK_MS = 50
_BUSY_SHARE = 0.9
"""If one reader uses at least this share of a core, or all readers this share of their cores, the limit may be the
readers, not the storage.
"""
_PR_SET_PDEATHSIG = 1
_OPS, _BYTES, _LAST_END, _UNREAD, _ERROR, _WIDTH = 0, 1, 2, 3, 4, 5
"""The positions of a reader's values in the shared memory, and the number of values of a reader."""

Show = Callable[[int, int, float], None]
"""A function that is called several times a second with the operations, bytes and seconds since the start."""


class HangError(Exception):
    """No operation, and no piece of one, has ended for ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Stop:
    """Asks a check to end. A signal handler sets it; unlike an Event it has no lock on which the handler could hang."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Ask the check to end."""
        self._is_set = True

    def is_set(self) -> bool:
        """Whether the check must end."""
        return self._is_set


class Bounds(NamedTuple):
    """The conditions that end a phase early. stop: set by the caller.

    most_bytes, most_ops: the most that all readers together may do; 0 for no limit. hang_s: the seconds without an
    answer after which the storage counts as hung; 0 for HANG_S.
    """

    stop: Stop
    most_bytes: int = 0
    most_ops: int = 0
    hang_s: float = 0.0


class Run:
    """Measures one phase.

    work: an Operation or an InPieces, which ``phase.depth`` readers repeat, each one operation at a time; or a
    ManyInFlight, whose ``readers`` together keep ``phase.depth`` reads in flight.
    """

    def __init__(self, phase: Phase, work: Operation | InPieces | ManyInFlight, bounds: Bounds, clock: Clock) -> None:
        self._phase, self._work, self._bounds, self._clock = phase, work, bounds, clock
        self._count = work.readers if isinstance(work, ManyInFlight) else phase.depth
        """The number of readers."""
        self._shared = memoryview(mmap.mmap(-1, 8 * (_WIDTH * self._count + 1))).cast("q")
        """The values of each reader, followed by the time at which all readers began, in nanoseconds."""
        self._readers: dict[int, int] = {}
        """The pid of each reader, by the descriptor from which its times are read."""
        self._killed: list[int] = []
        self._times = array("q")
        self._cpu_s: list[float] = []

    def measure(self, show: Show) -> Measured:
        """Run the phase until it ends or is stopped; return the result. The result of a stopped phase has 0 operations.

        Raises HangError, and OSError when an operation failed.
        """
        go, start = os.pipe2(os.O_CLOEXEC)  # each reader waits at ``go`` until ``start`` is closed
        start_ns = 0
        try:
            for number in range(self._count):
                self._fork(number, go, start)
            for times_fd in self._readers:
                os.read(times_fd, 1)  # the reader has started
            start_ns = self._shared[-1] = self._clock.monotonic_ns()
            os.close(start)
            start = -1
            self._collect(start_ns, show)
        finally:
            for handle in (go, start):
                if handle >= 0:
                    os.close(handle)
            self._kill_readers()
        failed = max(self._column(_ERROR))
        if failed:
            raise OSError(failed, os.strerror(failed))
        seconds = max(0, *self._column(_LAST_END), start_ns) - start_ns
        name, block, depth, _ = self._phase
        busy = cpu_bound(self._cpu_s, seconds / 1e9, read_cores(Root("/")))
        size = sum(self._column(_BYTES))
        unread = sum(self._column(_UNREAD))
        latency = latency_of(self._times)
        return Measured(name, block, depth, len(self._times), size, seconds / 1e9, latency, busy, unread)

    def _column(self, position: int) -> list[int]:
        """Return the value at this position for each reader."""
        return self._shared[position:-1:_WIDTH].tolist()

    def _fork(self, number: int, go: int, start: int) -> None:
        """Start the reader with this number. It waits at ``go`` for the other readers, and closes its ``start``."""
        times_fd, times_out = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        pid = os.fork()
        if pid:
            os.close(times_out)
            self._readers[times_fd] = pid
            return
        try:
            for end_signal in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(end_signal, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() == parent:  # otherwise the parent ended before prctl, so no signal comes
                os.close(start)
                # Private pages, as in a program's buffer. With shared pages, which are larger, a read would need fewer
                # requests than in a program.
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
                in_flight = len(range(number, self._phase.depth, self._count))
                with mmap.mmap(-1, max(in_flight * self._phase.block_bytes, mmap.PAGESIZE), flags) as buffer:
                    self._read(number, buffer, in_flight, go, times_out)
        finally:
            os._exit(0)

    def _read(self, number: int, buffer: mmap.mmap, in_flight: int, go: int, out: int) -> None:
        """Do this reader's part of the phase, and write the time of each operation to ``out``."""
        base, count, work, now = number * _WIDTH, self._count, self._work, self._clock.monotonic_ns

        def publish(ops: int, size: int, ended_ns: int) -> None:
            self._shared[base + _BYTES], self._shared[base + _LAST_END], self._shared[base + _OPS] = size, ended_ns, ops

        def on_cut(left_bytes: int) -> None:
            self._shared[base + _UNREAD] = left_bytes

        times = array("q")
        try:
            if isinstance(work, ManyInFlight):
                queue = ReadQueue(work.handle, buffer, self._phase.block_bytes, in_flight)
                loop = partial(keep_in_flight, work, queue)
            elif isinstance(work, InPieces):
                loop = partial(repeat_in_pieces, work, buffer, on_cut)
            else:
                loop = partial(repeat, work, buffer)
            os.write(out, b"\0")
            os.read(go, 1)  # returns when all readers have started
            most_bytes = self._bounds.most_bytes // count or 1 << 62
            end_ns = self._shared[-1] + int(self._phase.seconds * 1e9)
            part = Part(number, count, end_ns, most_bytes, self._bounds.most_ops or 1 << 62)
            times = loop(part, now, publish)
        except OSError as error:
            self._shared[base + _ERROR] = error.errno or errno.EIO
        raw = memoryview(times.tobytes())
        while raw:
            raw = raw[os.write(out, raw) :]

    def _collect(self, start_ns: int, show: Show) -> None:
        """Receive the times of all readers until they have ended or ``stop`` is set. Raises HangError."""
        poll, raw = select.poll(), bytearray()
        parts: dict[int, bytearray] = {}
        hang_s = self._bounds.hang_s or HANG_S
        for times_fd in self._readers:
            poll.register(times_fd, select.POLLIN)
            parts[times_fd] = bytearray()
        while parts and not self._bounds.stop.is_set():
            for times_fd, _ in poll.poll(_TICK_MS):
                more = os.read(times_fd, 1 << 20)
                parts[times_fd] += more
                if not more:
                    poll.unregister(times_fd)
                    raw += parts.pop(times_fd)
                    self._reap(times_fd)
            now = self._clock.monotonic_ns()
            show(sum(self._column(_OPS)), sum(self._column(_BYTES)), (now - start_ns) / 1e9)
            silent_ns = now - max(start_ns, *self._column(_LAST_END))
            if parts and silent_ns > hang_s * 1e9:
                raise HangError(silent_ns / 1e9)
        if not parts:  # the times of a stopped run are left out, because they do not match its bytes
            self._times.frombytes(bytes(raw))

    def _reap(self, times_fd: int) -> None:
        _, _, usage = os.wait4(self._readers.pop(times_fd), 0)
        os.close(times_fd)
        self._cpu_s.append(usage.ru_utime + usage.ru_stime)

    def _kill_readers(self) -> None:
        """Kill the readers that still run. Readers that wait in the kernel end when the storage answers."""
        for times_fd, pid in self._readers.items():
            os.close(times_fd)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                if not os.waitpid(pid, os.WNOHANG)[0]:
                    self._killed.append(pid)
        self._readers = {}

    def wait(self) -> None:
        """Wait until the killed readers have ended, which they do when the storage answers."""
        for pid in self._killed:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._killed = []


def cpu_bound(cpu_s: Sequence[float], seconds: float, cores: float) -> bool:
    """Whether the readers, not the storage, may be the limit: one used a whole core, or together they used all.

    cores: the number of cores that the readers can use.
    """
    busy = max(cpu_s, default=0.0) >= _BUSY_SHARE * seconds or sum(cpu_s) >= _BUSY_SHARE * cores * seconds
    return seconds > 0 and busy
