"""What the trainer of a stack shares with the benchmark: its command line, its true state, and its step.

It uses only the standard library, because each trainer runs in the environment of its stack. The state is in a file on
tmpfs that both sides map: the seconds of each state so far, the current state and its start. The reader adds the time
since that start, so that a wait that still lasts is included.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.scenarios.steps import KINDS, Step

T = TypeVar("T")
_HALVES = struct.Struct("2q")
"""The nanoseconds that a process's loaders have spent on reading and on decoding."""

STATES = ("startup", "wait", "step", "save", "host", "collective")
STARTUP, WAIT, STEP, SAVE, HOST, COLLECTIVE = range(len(STATES))
LAYOUT = struct.Struct(f"{len(STATES) + 5}q")
"""The nanoseconds of each state, the current state, its start (monotonic ns), the batches, ``ready``, and the pid."""
DRAIN_S, MEASURE_S, SETTLE_S = 1.5, 5.0, 2.0
"""For how long the first batches are not counted, batches are measured, and steps settle before the clock is ready."""


class Truth(NamedTuple):
    """The state of a trainer at one moment. seconds: the time in each state, including the current one."""

    seconds: tuple[float, ...]
    batches: int
    ready: bool
    pid: int


def read(path: Path, now_ns: int) -> Truth | None:
    """Return the state in a file; None before the trainer has made it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < LAYOUT.size:
        return None
    *spent, state, since, batches, ready, pid = LAYOUT.unpack_from(data)
    if pid:
        spent[state] += max(0, now_ns - since)
    return Truth(tuple(ns / 1e9 for ns in spent), batches, bool(ready), pid)


class Halves:
    """Times the two halves of a loader's work, in a file of each process beside the clock's file."""

    def __init__(self, clock: Path) -> None:
        self._clock, self._pid = clock, 0
        self._map: mmap.mmap | None = None
        self._spent = [0, 0]

    def add(self, read_ns: int, decode_ns: int) -> None:
        """Add the times of one sample. A forked process begins its own file."""
        if self._map is None or self._pid != os.getpid():
            self._pid, self._spent = os.getpid(), [0, 0]
            path = self._clock.with_name(f"{self._clock.name}.halves.{self._pid}")
            path.write_bytes(bytes(_HALVES.size))
            with path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), _HALVES.size)
        self._spent[0] += read_ns
        self._spent[1] += decode_ns
        self._map[:] = _HALVES.pack(*self._spent)


def halves(clock: Path) -> tuple[float, float]:
    """Return the seconds that all loaders of a trainer have spent on reading and on decoding; 0 if it times neither."""
    found = [_HALVES.unpack(path.read_bytes()) for path in clock.parent.glob(f"{clock.name}.halves.*")]
    return sum(read_ns for read_ns, _ in found) / 1e9, sum(decode_ns for _, decode_ns in found) / 1e9


def epochs(loader: Iterable[T]) -> Iterator[T]:
    """Yield the loader's batches, epoch after epoch."""
    while True:
        yield from loader


def shuffled(count: int, size: int) -> Iterator[list[int]]:
    """Yield lists of ``size`` numbers below ``count``, epoch after epoch, each epoch in an order of its own."""
    while True:
        order = list(range(count))
        random.shuffle(order)
        for begin in range(0, count - size + 1, size):
            yield order[begin : begin + size]


class Clock:
    """The clock of a trainer. Use it as ``for batch in clock.batches(loader): clock.compute()``.

    The first batches measure how long a batch takes when nothing holds the loader up. The length of a step follows from
    that, so that the wanted share of time is lost (--loss), unless --step sets the length.
    """

    def __init__(self, a: argparse.Namespace) -> None:
        self._a, self.step_s = a, max(0.0, a.step)
        path = a.clock if a.rank == 0 else a.clock.with_name(f"{a.clock.name}.{a.rank}")
        path.write_bytes(bytes(LAYOUT.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), LAYOUT.size)
        self._spent = [0] * len(STATES)
        self._state, self._since = STARTUP, time.monotonic_ns()
        self._batches = self._ready = 0
        self._began = self._from = self._calibrated = 0.0
        self._counted = 0
        self._step = Step(a.kind)
        self.enter(STARTUP)

    def enter(self, state: int) -> None:
        """Note that the trainer is in this state from now on."""
        now = time.monotonic_ns()
        self._spent[self._state] += now - self._since
        self._state, self._since = state, now
        values = (*self._spent, state, now, self._batches, self._ready, os.getpid())
        self._map[:] = LAYOUT.pack(*values)

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """Yield the loader's batches until --seconds have passed. Each ``next`` is a wait for data."""
        iterator, end = iter(loader), time.monotonic() + self._a.seconds
        while time.monotonic() < end:
            self.wait()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self.arrived()
            yield batch

    def wait(self) -> None:
        """Note that the trainer waits for data."""
        self.enter(WAIT)

    def arrived(self) -> None:
        """Note that the data has arrived."""
        self._batches += 1
        self._calibrate(time.monotonic())
        self.enter(STEP)

    def _calibrate(self, now: float) -> None:
        if self._ready:
            return
        if not self._began:
            self._began = now
        elif self._a.step >= 0 or self._calibrated:
            self._ready = int(now - (self._calibrated or self._began) >= SETTLE_S)
        elif now - self._began < DRAIN_S or not self._from:
            self._counted, self._from = self._batches, now
        elif now - self._from >= MEASURE_S and self._batches - self._counted >= 5:
            batch_s = (now - self._from) / (self._batches - self._counted)
            self.step_s = batch_s * (1 - self._a.loss) / (self._a.loss if self._a.serial else 1.0)
            self._calibrated = now

    def compute(self, share: float = 1.0) -> None:
        """Do a step, or a part of it: what the main thread does while the accelerator works, as --kind says."""
        seconds = self.step_s * share
        if self._state != STEP:
            self.enter(STEP)
        if seconds:
            self._step.run(seconds)


def options(parser: argparse.ArgumentParser | None = None) -> argparse.Namespace:
    """Parse the command line that all trainers share: ``prepare FOLDER`` or ``train FOLDER --clock FILE``."""
    parser = parser or argparse.ArgumentParser()
    parser.add_argument("action", choices=("prepare", "train"))
    parser.add_argument("data", help="a folder, or the address of a server")
    parser.add_argument("--megabytes", type=int, default=64, help="prepare: how much to write")
    parser.add_argument("--clock", type=Path, default=Path("/dev/shm/clock"))
    parser.add_argument("--kind", choices=KINDS, default="sleep", help="what main does in a step")
    parser.add_argument("--step", type=float, default=-1.0, help="seconds of a step; else it follows from --loss")
    parser.add_argument("--loss", type=float, default=0.5, help="the wanted share of time without data")
    parser.add_argument("--serial", action="store_true", help="the main thread loads by itself")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=int, default=1, help="how often each sample is augmented")
    parser.add_argument("--rank", type=int, default=int(os.environ.get("RANK", "0")))
    return parser.parse_args()
