"""Watches the processes of a running loader: their states, CPU time, memory and reads."""

from __future__ import annotations

import os
from contextlib import suppress

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.parse import parse_io, parse_stat
from iotop_ai.model.job.task_states import DISK, RUNNING, wait_state_of
from iotop_ai.model.preflight.loader.outcome import LoaderProcess
from iotop_ai.model.preflight.loader.run import Used
from iotop_ai.preflight.environment.host import read_shm
from iotop_ai.preflight.loader.grow import growth_per_batch

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_HELPERS = (b"resource_tracker", b"semaphore_tracker")
_SERVER = b"multiprocessing.forkserver"
_LEAST_PAUSE_S, _PAUSE_FACTOR = 0.25, 10
"""The pause after memory is read lasts at least _LEAST_PAUSE_S seconds, and at least _PAUSE_FACTOR times as long as the
reading took.
"""
_MOST_POINTS = 4000
"""The largest number of memory readings that are kept for ``growth_per_batch``."""
_MOST_TRIES = 3
"""The I/O of all processes is read at most this many times, because some of them may end during the reading."""


class TreeWatch:
    """Samples the loader's main process and its descendants. Use it from one thread only."""

    def __init__(self, root: Root, pid: int, clock: Clock) -> None:
        self._root, self._pid, self._clock = root, pid, clock
        self.workers: list[int] = []
        self.helpers: list[int] = []
        self._ticks: dict[int, int] = {}
        self._ticks_base: dict[int, int] = {}
        self._ended_pids: set[int] = set()
        """The processes that ended before the measurement, such as a program that the factory ran."""
        self._read_base: tuple[int, int] | None = (0, 0)
        self._samples = self._blocked_samples = self._running_samples = 0
        self._points: list[tuple[int, int]] = []
        self._most_memory_bytes: int | None = None
        self.shm_bytes, self._shm_free_before_bytes, _ = read_shm(root)
        self.least_shm_free_bytes = self._shm_free_before_bytes
        self._base_ns = clock.monotonic_ns()
        self._next_memory_ns = 0

    @property
    def pids(self) -> list[int]:
        """The loader's main process, its workers, and multiprocessing's helpers."""
        return [self._pid, *self.workers, *self.helpers]

    def update_processes(self) -> None:
        """Set ``workers`` and ``helpers`` to the processes that exist now."""
        self.workers, self.helpers = [], []
        queue = [self._pid]
        while queue:
            parent = queue.pop()
            for child in self._children(parent):
                queue.append(child)
                cmdline = self._read(child, "cmdline")
                is_server = _SERVER in cmdline and parent == self._pid
                (self.helpers if is_server or any(word in cmdline for word in _HELPERS) else self.workers).append(child)

    def _children(self, pid: int) -> list[int]:
        children: list[int] = []
        for tid in self._root.names(f"proc/{pid}/task"):
            children += [int(word) for word in self._read(pid, f"task/{tid}/children").split()]
        return children

    def _read(self, pid: int, name: str) -> bytes:
        try:
            return self._root.read(f"proc/{pid}/{name}")
        except OSError:
            return b""

    def sample(self) -> None:
        """Sample each process's CPU time and each worker's state.

        Without workers, the states are those of the loader's threads.
        """
        self._read_ticks()
        if not self.workers:
            self._count(
                [self._wait_state(self._pid, f"task/{tid}/") for tid in self._root.names(f"proc/{self._pid}/task")]
            )
        for pid in self.workers:
            self._count([self._wait_state(pid, "")])

    def _read_ticks(self) -> None:
        for pid in self.pids:
            with suppress(ValueError):
                stat = parse_stat(self._read(pid, "stat")).record
                self._ticks[pid] = stat.utime_ticks + stat.stime_ticks

    def _wait_state(self, pid: int, folder: str) -> int | None:
        try:
            state = parse_stat(self._read(pid, f"{folder}stat")).record.state
        except ValueError:
            return None
        return wait_state_of(state.encode(), self._read(pid, f"{folder}wchan"))

    def _count(self, wait_states: list[int | None]) -> None:
        """Count one sample of a worker, or of all threads of the loader. A wait state is None for a task that ended."""
        self._samples += any(wait_state is not None for wait_state in wait_states)
        if DISK in wait_states:
            self._blocked_samples += 1
        elif RUNNING in wait_states:
            self._running_samples += 1

    def sample_memory(self, batches: int) -> None:
        """Update the workers, and read the memory of all processes, unless it was read a moment ago.

        batches: the number of batches read so far; 0 during the warm-up, which does not count as growth.
        """
        start = self._clock.monotonic_ns()
        if start < self._next_memory_ns:
            return
        self.update_processes()
        total = allocated = 0
        for pid in self.pids:
            fields = dict(_sizes(self._read(pid, "smaps_rollup")))
            total += fields.get(b"Pss:", 0)
            allocated += fields.get(b"Pss_Anon:", 0) + fields.get(b"Pss_Shmem:", 0)
        if total:
            self._most_memory_bytes = max(self._most_memory_bytes or 0, total)
        if batches and allocated and len(self._points) < _MOST_POINTS:
            self._points.append((batches, allocated))
        _, free, _ = read_shm(self._root)
        if free is not None and self.least_shm_free_bytes is not None:
            self.least_shm_free_bytes = min(self.least_shm_free_bytes, free)
        end = self._clock.monotonic_ns()
        self._next_memory_ns = end + max(int(_LEAST_PAUSE_S * 1e9), _PAUSE_FACTOR * (end - start))

    def _read_totals(self) -> tuple[int, int] | None:
        """Return the bytes that all processes have read from disks, and by system calls; None if unknown.

        The kernel adds the counters of an ended process to those of its parent. So only processes that exist are read,
        and each parent is read before its children: a child that ends in between makes the reading start again.
        """
        raw: list[bytes] = []
        for _ in range(_MOST_TRIES):
            self.update_processes()
            raw = [self._read(pid, "io") for pid in (self._pid, *self.helpers, *self.workers)]
            if all(raw):
                break
        if not raw[0]:
            return None
        try:
            counters = [parse_io(one) for one in raw if one]
        except ValueError:
            return None
        return sum(one.read_bytes for one in counters), sum(one.rchar for one in counters)

    def begin(self) -> None:
        """Restart the measurement. Call it when the loader has warmed up."""
        self._next_memory_ns = 0
        self.sample_memory(0)
        self._read_ticks()
        self._samples = self._blocked_samples = self._running_samples = 0
        self._points.clear()
        self._ended_pids = self._ticks.keys() - set(self.pids)
        self._ticks_base, self._read_base = dict(self._ticks), self._read_totals()
        self._base_ns = self._clock.monotonic_ns()

    def usage(self) -> Used:
        """Return the cores, waits, memory growth and reads since ``begin``.

        The largest memory and the largest use of /dev/shm are those since the start of the run.

        Without workers, ``worker_cores`` is the same as ``main_cores``.
        """
        self._read_ticks()
        totals, base = self._read_totals(), self._read_base
        seconds = max((self._clock.monotonic_ns() - self._base_ns) / 1e9, 1e-3)
        measured = self._ticks.keys() - self._ended_pids
        ticks = {pid: self._ticks[pid] - self._ticks_base.get(pid, 0) for pid in measured}
        main = ticks.pop(self._pid, None)
        for helper in self.helpers:
            ticks.pop(helper, None)
        main_cores = None if main is None else main / TICKS_PER_S / seconds
        shm = None
        if self._shm_free_before_bytes is not None and self.least_shm_free_bytes is not None:
            shm = self._shm_free_before_bytes - self.least_shm_free_bytes
        return Used(
            worker_cores=sum(ticks.values()) / TICKS_PER_S / seconds if ticks else main_cores,
            main_cores=main_cores,
            blocked_ratio=self._blocked_samples / self._samples if self._samples else None,
            running_ratio=self._running_samples / self._samples if self._samples else None,
            memory_bytes=self._most_memory_bytes,
            growth_bytes=growth_per_batch(self._points),
            shm_bytes=shm,
            storage_bytes=None if totals is None or base is None else max(0, totals[0] - base[0]),
            asked_bytes=None if totals is None or base is None else max(0, totals[1] - base[1]),
        )

    def cpu_seconds(self) -> float:
        """Return the CPU time in seconds that all processes seen so far have used since their start."""
        return sum(self._ticks.values()) / TICKS_PER_S

    def process_states(self) -> list[LoaderProcess]:
        """Return the main process and each worker that still exists, with its state.

        The field ``frame``, the line of Python, is still empty.
        """
        self.update_processes()
        out = []
        for pid in [self._pid, *self.workers]:
            try:
                stat = parse_stat(self._read(pid, "stat"))
            except ValueError:
                continue
            ended = stat.exit_status if stat.record.state in ("Z", "X") else None
            wchan = self._root.text_or(f"proc/{pid}/wchan")
            out.append(LoaderProcess(pid, pid != self._pid, stat.record.state, wchan, exit_status=ended))
        return out

    def catches(self, pid: int, number: int) -> bool:
        """Whether the process has a handler for this signal, and thus survives it."""
        for line in self._read(pid, "status").splitlines():
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        return False


def _sizes(raw: bytes) -> list[tuple[bytes, int]]:
    """Return the name and the bytes of each line such as ``Pss:  1234 kB``."""
    lines = [line.split() for line in raw.splitlines()]
    return [(parts[0], int(parts[1]) * 1024) for parts in lines if len(parts) == 3 and parts[2] == b"kB"]
