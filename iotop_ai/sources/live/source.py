"""The running machine as a Source of Snapshots."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root, root_from_options
from iotop_ai.collectors.job.collector import JobCollector
from iotop_ai.collectors.machine.cpu import CpuCollector
from iotop_ai.collectors.machine.filesystem import FilesystemCollector
from iotop_ai.collectors.machine.host import HostReader, OwnCostReader
from iotop_ai.collectors.machine.kernel_log.collector import KernelLogCollector
from iotop_ai.collectors.machine.memory import MemoryCollector
from iotop_ai.collectors.machine.mounts import MountsCollector
from iotop_ai.collectors.machine.netfs import NetfsCollector
from iotop_ai.collectors.machine.network.links import NetworkCollector
from iotop_ai.collectors.machine.pressure import PressureCollector
from iotop_ai.collectors.process.adaptive import AdaptiveSelection
from iotop_ai.collectors.process.collector import ProcessCollector
from iotop_ai.collectors.schedule import ScheduledCollector
from iotop_ai.collectors.state.folder import state_path
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError
from iotop_ai.model.job.steps import StepCounts
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.settings import LONGEST_S, SHORTEST_S, Settings
from iotop_ai.model.snapshot import MOST_EVENTS, Event, Snapshot, newest_events
from iotop_ai.sources.live.kernel_events import KernelEvents
from iotop_ai.sources.live.state_files import StateFiles
from iotop_ai.sources.live.time_rounding import TOOK_NS, TimeRounder, rounded_cost, step_ns

if TYPE_CHECKING:
    from iotop_ai.collectors.gpu.nvml.xid_events import XidEvent
    from iotop_ai.collectors.io.marks_socket import MarksSocket
    from iotop_ai.collectors.job.steps import StepReports
    from iotop_ai.sources.live.events import DescendantTracker
    from iotop_ai.sources.live.slow_collectors import SlowCollectors

_PENDING_REASONS = {
    "gpu": "NVML has not answered yet",
    "gpu_slow": "NVML has not answered yet",
    "smart": "the disks are not listed yet",
}
"""The reasons of the pending Readings before ``begin``, by field."""
SLEPT_NS = 100_000_000
"""The shortest suspend that counts, in ns. Smaller differences arise because one clock is read after the other."""


class LiveSource:
    """Yields the first Snapshot immediately, then one in each interval, until ``close`` is called.

    The collectors run on the thread that iterates. Collectors that may be slow (GPU, SMART, statvfs) have their own
    threads or processes and return their newest answer. Methods other than the iterator may be called from any thread.

    marks: whether to listen on the socket to which other programs send marks and step counts
    quick_start: whether to yield the first Snapshot without GPUs, SMART and marks; ``begin`` starts these, at the
        latest before the second Snapshot
    """

    live = True

    def __init__(
        self,
        settings: Settings = Settings(),  # noqa: B008 - a frozen record
        root: Root | None = None,
        clock: Clock | None = None,
        *,
        marks: bool = False,
        quick_start: bool = False,
    ) -> None:
        self._quick_start = quick_start
        self.root = self._root = root or root_from_options(settings.procfs, settings.sysfs)
        self._clock = clock or Clock()
        self._interval_s = settings.interval_s
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed, self._dropped_events = False, 0
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._newest_events: tuple[int, tuple[Event, ...]] = (0, ())
        """The number and the events of the newest Snapshot."""
        self._host = HostReader(self._root, self._clock)
        self._own = OwnCostReader(self._root, self._clock)
        self._block = BlockCollector(self._root, self._clock)
        self._mounts = MountsCollector(self._root)
        self._state_files: StateFiles | None = None
        self._suspended_ns: int | None = None
        self._in_flight: tuple[str, int] | None = None
        self._kernel = KernelLogCollector(self._root, self._clock)
        self._kernel_events = KernelEvents(self._take_logged_xid)
        self.smartctl = settings.smartctl
        self._collectors = self._first_collectors(exact=settings.exact)
        self._jobs = JobCollector(self._root, self._clock)
        self._cgroups: ScheduledCollector | None = None
        self._disks: Mapping[str, BlockInfo] | None = None
        self._rounder = TimeRounder()
        self._previous: Snapshot | None = None
        self._descendants: DescendantTracker | None = None
        self._child_codes: dict[int, int] = {}
        self._marks_wanted = marks
        self._marks: MarksSocket | None = None
        self._marks_reading: Reading[bool] = Reading()
        self._steps: StepReports | None = None
        self._settings = settings
        self._slow: SlowCollectors | None = None
        self._starting = threading.Lock()
        self._seq, self._iterating = 0, False
        if not quick_start:
            self.begin()

    def _first_collectors(self, *, exact: bool) -> list[ScheduledCollector]:
        """Return the collectors that the first screen needs; ``SlowCollectors`` makes the others.

        They are read in this order. Devices and processes come first, one directly after the other, because their
        figures are compared.
        """
        root, clock, block, mounts = self._root, self._clock, self._block, self._mounts
        collectors = (
            block,
            ProcessCollector(root, clock, adaptive=None if exact else AdaptiveSelection(root)),
            CpuCollector(root, clock),
            MemoryCollector(root),
            PressureCollector(root),
            NetworkCollector(root),
            mounts,
            BlockInfoCollector(root, clock, block, mounts),
            NetfsCollector(root, mounts),
            FilesystemCollector(root, clock, mounts),
            self._kernel,
        )
        return [ScheduledCollector(collector, clock) for collector in collectors]

    def begin(self) -> None:
        """Start what the first Snapshot does not need: the slow collectors, the state files and the socket for marks.

        Any thread can call this method; only the first call has an effect.
        """
        with self._starting:
            if self._slow is not None or self._closed:
                return
            from iotop_ai.sources.live.slow_collectors import SlowCollectors

            slow = SlowCollectors(self._root, self._clock, self._settings, self._interval_s, self._block, self._mounts)
            late = (slow.gpu, slow.details, *((slow.smart,) if slow.smart else ()), *slow.rare)
            self._collectors += [ScheduledCollector(collector, self._clock) for collector in late]
            self._slow = slow
            if self._root.live:
                self._state_files = StateFiles(state_path(), self._clock, baselines=self._settings.remember)
            if self._marks_wanted:
                self._listen()
            if self._quick_start:
                slow.start()
            if self._closed and not self._iterating:
                self._release()  # ``close`` was called meanwhile and did not see these collectors

    def _listen(self) -> None:
        """Listen for the marks and steps of other programs. If that fails, the Reading of marks has the reason."""
        from iotop_ai.collectors.io.marks_socket import listen
        from iotop_ai.collectors.job.steps import StepReports

        at_ns = self._clock.monotonic_ns()
        self._steps = StepReports(at_ns)
        try:
            listen(self._clock, self.add_mark, os.environ, self._steps.take, self._keep_socket)
        except (OSError, IotopError) as error:
            why = (error.strerror if isinstance(error, OSError) else str(error)) or "no socket"
            failed: Reading[bool] = Reading(None, Status.FAILED, clean(f"marks cannot be received: {why}"), "", at_ns)
            with self._lock:
                self._marks_reading = failed if self._marks is None else self._marks_reading

    def _keep_socket(self, marks: MarksSocket) -> None:
        """Keep the socket for marks, or close it if this source is already closed."""
        with self._lock:
            if not self._closed:
                self._marks = marks
                self._marks_reading = Reading(True, Status.OK, at_ns=self._clock.monotonic_ns())
                return
        marks.close()

    def _slow_collectors(self) -> SlowCollectors | None:
        self.begin()
        return self._slow

    def __iter__(self) -> Iterator[Snapshot]:
        self._iterating = True
        try:
            yield from self._ticks()
        finally:
            self._iterating = False
            self._closed = True
            self._release()

    def _ticks(self) -> Iterator[Snapshot]:
        planned_ns: int | None = None
        while not self._closed:
            now_ns = self._clock.monotonic_ns()
            # The due time is computed again after each wake, so that a shorter interval takes effect at once.
            due_ns = now_ns if planned_ns is None else planned_ns + int(self._interval_s * 1e9)
            if now_ns < due_ns:
                self._wake.wait((due_ns - now_ns) / 1e9)
                self._wake.clear()
                continue
            # Ticks keep to a fixed grid. A tick that is an interval late starts a new grid, to avoid a burst.
            late = now_ns - due_ns > self._interval_s * 1e9
            planned_ns = now_ns if late else due_ns
            yield self.snapshot(now_ns - due_ns)
            self.begin()

    def snapshot(self, late_ns: int = 0) -> Snapshot:
        """Read every collector that is due and return the Snapshot. late_ns: how late this tick began."""
        step = step_ns(self._interval_s)
        at_ns, wall_ns = (ns - ns % step for ns in (self._clock.monotonic_ns(), self._clock.wall_ns()))
        readings = self._readings(at_ns, wall_ns, step)
        self._note_changes(readings, at_ns, wall_ns)
        with self._lock:
            events = newest_events((*self._events,), at_ns, wall_ns, self._dropped_events)
            self._events.clear()
            self._dropped_events = 0
            interval_s = self._interval_s
            self._seq += 1
            self._newest_events = (self._seq, events)
        cost = rounded_cost(self._own.read(self._clock.monotonic_ns() - at_ns, late_ns))
        self._in_flight = None
        suspended_ns, host = self._suspended(), self._host.read()
        snapshot = Snapshot(
            self._seq, at_ns, wall_ns, interval_s, host, events, cost, **readings, suspended_ns=suspended_ns
        )
        return self._with_derived_events(snapshot)

    def _readings(self, at_ns: int, wall_ns: int, step: int) -> dict[str, Reading[Any]]:
        """Return the Readings of a Snapshot by field name. step: the precision of their times, in ns."""
        # ``_slow`` is read before the loop, because begin() on another thread may add collectors during the loop.
        slow = self._slow
        readings: dict[str, Reading[Any]] = {}
        for scheduled in self._collectors:
            readings[scheduled.field] = self._read(scheduled, at_ns, step)
        if slow is None:
            for name, reason in _PENDING_REASONS.items():
                readings[name] = Reading(None, Status.PENDING, reason, "", at_ns)
        if not self._settings.smart:
            readings["smart"] = Reading(None, Status.OFF, "SMART is switched off", "leave out --no-smart", at_ns)
        self._in_flight = ("jobs", at_ns)
        if not self._closed:
            self._jobs.see(readings["processes"].value, readings["gpu"].value)
            readings["jobs"] = take_reading(self._jobs, self._clock, step, TOOK_NS)
        readings["marks"] = self._marks_reading
        if self._steps is not None:
            readings["steps"] = self._steps.reading(readings["processes"].value)
        if self._cgroups is None and slow is not None and self._jobs.jobs:
            self._cgroups = ScheduledCollector(slow.cgroups(self._jobs), self._clock)
        if self._cgroups is not None:
            readings["cgroups"] = self._read(self._cgroups, at_ns, step)
        if self._state_files is not None:
            self._state_files.start_read(at_ns, wall_ns)
            if (baselines := self._state_files.baselines(at_ns)) is not None:
                readings["baselines"] = baselines
        return readings

    def _note_changes(self, readings: Mapping[str, Reading[Any]], at_ns: int, wall_ns: int) -> None:
        """Add events about devices, the kernel's log, GPU errors and acknowledgements."""
        self._note_devices(readings["disks"], at_ns, wall_ns)
        log = self._kernel.events()
        for event in self._kernel_events.merge(log, self._xids(), readings["gpu"].value, at_ns, wall_ns):
            self._note(event)
        for name, value in () if self._state_files is None else self._state_files.changes():
            kind, text = ("ack_undone", name) if value is None else ("ack", f"{name} {value}")
            self._note(Event(at_ns, wall_ns, kind, text))

    def _with_derived_events(self, snapshot: Snapshot) -> Snapshot:
        """Return the Snapshot with the events that a comparison with the previous Snapshot shows."""
        descendants, table = self._descendants, snapshot.processes.value
        members = frozenset() if descendants is None else descendants.members
        more: list[Event] = []
        if self._previous is not None:
            # The first Snapshot does not need this import.
            from iotop_ai.sources.live.events import derive_events

            kernel = self._kernel_events
            more = derive_events(
                self._previous, snapshot, members, self._child_codes, kernel.count_unlogged, kernel.killed_before
            )
        if descendants is not None and table is not None:
            descendants.update(table)
        self._previous = snapshot
        if not more:
            return snapshot
        events = newest_events((*snapshot.events, *more), snapshot.at_ns, snapshot.wall_ns)
        return snapshot._replace(events=events)

    def _read(self, scheduled: ScheduledCollector, at_ns: int, step: int) -> Reading[Any]:
        self._in_flight = (scheduled.field, at_ns)
        reading = scheduled.reading(at_ns, self._rounder.precision_ns(scheduled.field, step), TOOK_NS)
        return self._rounder.reading(scheduled.field, reading, step)

    def _suspended(self) -> int | None:
        """Return how long the machine has been suspended since boot, in ns. Changes below SLEPT_NS are ignored."""
        now_ns, last_ns = self._clock.suspended_ns(), self._suspended_ns
        if last_ns is None or abs(now_ns - last_ns) >= SLEPT_NS:
            self._suspended_ns = now_ns
        return self._suspended_ns

    def in_flight(self) -> tuple[str, int] | None:
        """Return (the field that is being read, the monotonic time in ns when its tick began); None between ticks.

        Any thread can call this method.
        """
        return self._in_flight

    def _take_logged_xid(self, xid: XidEvent) -> None:
        if self._slow is not None:
            self._slow.gpu.note_xid(xid)

    def _xids(self) -> list[XidEvent]:
        return [] if self._slow is None else self._slow.gpu.events()

    def _note_devices(self, disks: Reading[Mapping[str, BlockInfo]], at_ns: int, wall_ns: int) -> None:
        if disks.value is None or disks.value is self._disks:
            return
        if self._disks is not None:
            for name in disks.value.keys() - self._disks.keys():
                self._note(Event(at_ns, wall_ns, "device_added", name))
            for name in self._disks.keys() - disks.value.keys():
                self._note(Event(at_ns, wall_ns, "device_removed", name))
        self._disks = disks.value

    def _note(self, event: Event) -> None:
        with self._lock:
            # Many marks or kernel messages in a long interval must not fill the memory, so the oldest event is dropped.
            self._dropped_events += len(self._events) == MOST_EVENTS
            self._events.append(event)

    def wait_smart(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the first round of SMART queries; return True if it ended or SMART is off."""
        slow = self._slow_collectors()
        return slow is None or slow.smart is None or slow.smart.wait(seconds)

    def wait_gpu(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the first answer of the GPU thread. Return whether it has arrived."""
        slow = self._slow_collectors()
        return slow is not None and slow.gpu.wait(seconds)

    def set_interval(self, seconds: float) -> None:
        """Use another interval, limited to the range from 0.1 s to 1 h. It also applies to the current wait."""
        with self._lock:
            self._interval_s = min(LONGEST_S, max(SHORTEST_S, seconds))
        if self._slow is not None:
            self._slow.gpu.every_s = max(1.0, self._interval_s)
        self._wake.set()

    def suspend_smart_queries(self, suspend: bool) -> None:
        """Stop the SMART queries (True) or allow them again (False)."""
        slow = self._slow_collectors()
        if slow is not None and slow.smart is not None:
            slow.smart.suspend_queries(suspend)

    def refresh_smart(self) -> None:
        """Query every disk now at the user's request, even while ``suspend_smart_queries`` stops the queries."""
        slow = self._slow_collectors()
        if slow is not None and slow.smart is not None:
            slow.smart.refresh()

    def add_event(self, kind: str, text: str) -> None:
        """Add an event, such as an action or a mark, to the next Snapshot."""
        self._note(Event(self._clock.monotonic_ns(), self._clock.wall_ns(), kind, text))

    def add_mark(self, text: str) -> None:
        """Add a mark to the next Snapshot."""
        self.add_event("mark", text)

    def take_steps(self, pid: int, counts: StepCounts) -> None:
        """Accept step counts that came without the socket; ignored without ``marks``. pid: the training process."""
        if self._steps is not None:
            self._steps.take(pid, counts)

    def pending(self, seq: int) -> tuple[Event, ...]:
        """Return the events after the Snapshot with number ``seq``. The events stay in the source.

        If several Snapshots have followed, only the events of the newest one are included. Events that a comparison of
        two Snapshots shows are not included.
        """
        with self._lock:
            number, events = self._newest_events
            return (*(events if number > seq else ()), *self._events)

    def watch(self, pid: int) -> None:
        """Report from now on each descendant of this process that ends with an exit code other than 0."""
        from iotop_ai.sources.live.events import DescendantTracker

        self._descendants = DescendantTracker(pid)

    def child_ended(self, pid: int, code: int) -> None:
        """Take the exit code of a child of the monitor, or minus the number of the signal that ended it.

        Only root could read this code from /proc.
        """
        self._child_codes = {pid: code}

    def close(self) -> None:
        """Stop the iteration and release descriptors, threads and helper processes.

        Any thread can call this method, more than once. A thread that iterates releases them itself, at its next step
        or when its iterator is dropped.
        """
        self._closed = True
        self._wake.set()
        if not self._iterating:
            self._release()

    def _release(self) -> None:
        with self._lock:
            collectors, self._collectors = self._collectors, []
            marks = self._marks
        for scheduled in collectors:
            with contextlib.suppress(OSError, RuntimeError):
                scheduled.close()
        self._jobs.close()
        if self._state_files is not None:
            self._state_files.close()
        if marks is not None:
            marks.close()
        self._own.close()
        self._host.close()
