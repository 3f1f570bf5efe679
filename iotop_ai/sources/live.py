"""The running machine as a Source of Snapshots."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping

from iotop_ai.collectors.acknowledged import Acknowledged
from iotop_ai.collectors.base import take
from iotop_ai.collectors.block import BlockCollector
from iotop_ai.collectors.block_info import BlockInfoCollector
from iotop_ai.collectors.cadence import Paced
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.cpu import CpuCollector
from iotop_ai.collectors.filesystem import FilesystemCollector
from iotop_ai.collectors.host import OwnCostReader, read_host
from iotop_ai.collectors.job import JobCollector
from iotop_ai.collectors.kernel_log import KernelLogCollector
from iotop_ai.collectors.memory import MemoryCollector
from iotop_ai.collectors.mounts import MountsCollector
from iotop_ai.collectors.netfs import NetfsCollector
from iotop_ai.collectors.network import NetworkCollector
from iotop_ai.collectors.pressure import PressureCollector
from iotop_ai.collectors.process import ProcessCollector
from iotop_ai.collectors.process_adaptive import Adaptive
from iotop_ai.collectors.root import Root
from iotop_ai.collectors.state_folder import state_path
from iotop_ai.model.block import BlockInfo
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.settings import LONGEST_S, SHORTEST_S, Settings
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.model.typed import TYPE_CHECKING, Any
from iotop_ai.sources.coarse import TOOK_NS, Coarse, own, step_ns
from iotop_ai.sources.kernel_events import KernelEvents

if TYPE_CHECKING:
    from iotop_ai.collectors.happened import Family
    from iotop_ai.collectors.marks import MarksSocket
    from iotop_ai.collectors.nvml_events import XidEvent
    from iotop_ai.sources.slow import Slow

_LATER = {"gpu": "NVML is being asked", "gpu_slow": "NVML is being asked", "smart": "the disks are being looked for"}


class LiveSource:
    """Yields a Snapshot at once and then one each interval, until ``close``.

    The collectors run on the thread that iterates; those that may be slow (GPU, SMART, statvfs) keep threads or
    processes of their own and hand out their newest answer. The other methods may be called from any thread.
    marks: whether other programs' marks are heard. soon: the first Snapshot waits for nothing that can come later;
    GPUs, SMART and marks begin with ``begin``, at the latest when a second one is asked for.
    """

    live = True

    def __init__(
        self,
        settings: Settings = Settings(),  # noqa: B008 - a frozen record
        root: Root | None = None,
        clock: Clock | None = None,
        *,
        marks: bool = False,
        soon: bool = False,
    ) -> None:
        self._soon = soon
        self._root = root or Root("/")
        self._clock = clock or Clock()
        self._interval_s = settings.interval_s
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._events: list[Event] = []
        self._given: tuple[int, tuple[Event, ...]] = (0, ())
        """The newest Snapshot's number and events."""
        self._host = read_host(self._root)
        self._own = OwnCostReader(self._root, self._clock)
        block = BlockCollector(self._root, self._clock)
        mounts = MountsCollector(self._root, self._clock)
        self._acked = Acknowledged(state_path()) if self._root.live else None
        self._kernel = KernelLogCollector(self._root, self._clock)
        self._kernel_events = KernelEvents(self._heard)
        self.smartctl = settings.smartctl
        # The order of reading: what is paired most closely (devices and processes) comes first and together.
        self._collectors = [
            Paced(collector, self._clock)
            for collector in (
                block,
                ProcessCollector(self._root, self._clock, adaptive=None if settings.exact else Adaptive(self._root)),
                CpuCollector(self._root, self._clock),
                MemoryCollector(self._root, self._clock),
                PressureCollector(self._root, self._clock),
                NetworkCollector(self._root, self._clock),
                mounts,
                BlockInfoCollector(self._root, self._clock, block, mounts),
                NetfsCollector(self._root, self._clock, mounts),
                FilesystemCollector(self._root, self._clock, mounts),
                self._kernel,
            )
        ]
        self._jobs = JobCollector(self._root, self._clock)
        self._disks: Mapping[str, BlockInfo] | None = None
        self._coarse = Coarse()
        self._before: Snapshot | None = None
        self._family: Family | None = None
        self._told: dict[int, int] = {}
        self._hears = marks
        self._marks: MarksSocket | None = None
        self._settings = settings
        self._knows = settings.remember and self._root.live
        """Whether what was known before is still to be told."""
        self._slow: Slow | None = None
        self._starting = threading.Lock()
        self._seq = 0
        self._iterating = False
        if not soon:
            self.begin()

    def begin(self) -> None:
        """Start what the first Snapshot did not wait for; does no harm when done before. From any thread."""
        with self._starting:
            if self._slow is not None or self._closed:
                return
            from iotop_ai.sources.slow import Slow

            slow = Slow(self._root, self._clock, self._settings, self._interval_s)
            late = (slow.gpu, slow.details, *((slow.smart,) if slow.smart else ()))
            self._collectors += [Paced(collector, self._clock) for collector in late]
            self._slow = slow
            if self._hears:
                from iotop_ai.collectors.marks import listen

                self._marks = listen(self._clock, lambda text: self.add_event("mark", text), os.environ)
            if self._soon:
                slow.start()

    def _begun(self) -> Slow | None:
        self.begin()
        return self._slow

    def __iter__(self) -> Iterator[Snapshot]:
        self._iterating = True
        try:
            yield from self._ticks()
        finally:
            self._iterating = False
            self._closed = True
            self._give_back()

    def _ticks(self) -> Iterator[Snapshot]:
        planned_ns: int | None = None
        while not self._closed:
            now_ns = self._clock.monotonic_ns()
            # The plan is renewed after each wake, so a shorter interval does not wait out the longer one.
            due_ns = now_ns if planned_ns is None else planned_ns + int(self._interval_s * 1e9)
            if now_ns < due_ns:
                self._wake.wait((due_ns - now_ns) / 1e9)
                self._wake.clear()
                continue
            # Ticks keep to a grid; one that took longer than the interval starts a new grid instead of a burst.
            behind = now_ns - due_ns > self._interval_s * 1e9
            planned_ns = now_ns if behind else due_ns
            yield self.snapshot(now_ns - due_ns)
            self.begin()

    def snapshot(self, late_ns: int = 0) -> Snapshot:
        """Read everything that is due, now. late_ns: how late this tick began."""
        step = step_ns(self._interval_s)
        at_ns, wall_ns = (ns - ns % step for ns in (self._clock.monotonic_ns(), self._clock.wall_ns()))
        readings: dict[str, Reading[Any]] = {}
        for paced in self._collectors:
            field = paced.field
            taken = paced.reading(at_ns, self._coarse.fine_ns(field, step), TOOK_NS)
            readings[field] = self._coarse.reading(field, taken, step)
        if self._slow is None:
            for name, reason in _LATER.items():
                readings[name] = Reading(None, Status.PENDING, reason, "", at_ns)
        if not self._settings.smart:
            readings["smart"] = Reading(None, Status.OFF, "SMART is switched off", "leave out --no-smart", at_ns)
        if not self._closed:
            self._jobs.see(readings["processes"].value, readings["gpu"].value)
            readings["jobs"] = take(self._jobs, self._clock, step, TOOK_NS)
        if self._knows and self._slow is not None:
            self._knows = False
            readings["baselines"] = _baselines(at_ns, wall_ns)
        self._note_devices(readings["disks"], at_ns, wall_ns)
        log = self._kernel.events()
        for event in self._kernel_events.of(log, self._xids(), readings["gpu"].value, at_ns, wall_ns):
            self._note(event)
        for name, value in () if self._acked is None else self._acked.changes():
            kind, text = ("ack_undone", name) if value is None else ("ack", f"{name} {value}")
            self._note(Event(at_ns, wall_ns, kind, text))
        with self._lock:
            events, self._events = tuple(self._events), []
            interval_s = self._interval_s
            self._seq += 1
            self._given = (self._seq, events)
        cost = own(self._own.read(self._clock.monotonic_ns() - at_ns, late_ns))
        snapshot = Snapshot(self._seq, at_ns, wall_ns, interval_s, self._host, events, cost, **readings)
        family, table = self._family, snapshot.processes.value
        members = frozenset() if family is None else family.members
        more: list[Event] = []
        if self._before is not None:
            # Here, as a start has nothing before it.
            from iotop_ai.collectors.happened import happened

            more = happened(self._before, snapshot, members, self._told, self._kernel_events.untold)
        if family is not None and table is not None:
            family.look(table)
        self._before = snapshot
        return snapshot._replace(events=(*events, *more)) if more else snapshot

    def _heard(self, xid: XidEvent) -> None:
        if self._slow is not None:
            self._slow.gpu.heard(xid)

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
            self._events.append(event)

    def wait_smart(self, seconds: float) -> bool:
        """Wait until SMART has answered, at most ``seconds``; whether it has (also with a refusal)."""
        slow = self._begun()
        return slow is None or slow.smart is None or slow.smart.wait(seconds)

    def wait_gpu(self, seconds: float) -> bool:
        """Wait until the GPU thread has answered once, at most ``seconds``; whether it has."""
        slow = self._begun()
        return slow is not None and slow.gpu.wait(seconds)

    def set_interval(self, seconds: float) -> None:
        """Use another interval from the next tick on; kept within 0.1 s and 1 h."""
        with self._lock:
            self._interval_s = min(LONGEST_S, max(SHORTEST_S, seconds))
        if self._slow is not None:
            self._slow.gpu.every_s = max(1.0, self._interval_s)
        self._wake.set()

    def hold_smart(self, hold: bool) -> None:
        """Ask no disk while a device is saturated."""
        slow = self._begun()
        if slow is not None and slow.smart is not None:
            slow.smart.hold(hold)

    def refresh_smart(self) -> None:
        """Ask every disk now, also while held: somebody wants to know."""
        slow = self._begun()
        if slow is not None and slow.smart is not None:
            slow.smart.refresh()

    def add_event(self, kind: str, text: str) -> None:
        """Put an action or a mark into the next Snapshot."""
        self._note(Event(self._clock.monotonic_ns(), self._clock.wall_ns(), kind, text))

    def pending(self, seq: int) -> tuple[Event, ...]:
        """The events that no Snapshot up to this number carries; they stay with the source. Nothing reads meanwhile.

        Whoever ends a recording at that Snapshot asks before a second one can come: only the newest is remembered.
        """
        with self._lock:
            number, given = self._given
            return (*(given if number > seq else ()), *self._events)

    def watch(self, pid: int) -> None:
        """Tell how the processes end that descend from this one."""
        from iotop_ai.collectors.happened import Family

        self._family = Family(pid)

    def child_ended(self, pid: int, code: int) -> None:
        """How a child of ours ended, which its parent knows without being root: an exit code, or minus the signal."""
        self._told = {pid: code}

    def close(self) -> None:
        """Stop iterating, and give descriptors, threads and helpers back; safe from any thread and more than once.

        The thread that iterates gives them back itself, at its next step or when its iterator is dropped.
        """
        self._closed = True
        self._wake.set()
        if not self._iterating:
            self._give_back()

    def _give_back(self) -> None:
        with self._lock:
            collectors, self._collectors = self._collectors, []
        for paced in collectors:
            with contextlib.suppress(OSError):
                paced.close()
        self._jobs.close()
        if self._marks is not None:
            self._marks.close()
        self._own.close()


def _baselines(at_ns: int, wall_ns: int) -> Reading[Any]:
    """How long reads took before this start; read only when there is time for it."""
    from iotop_ai.store.baselines import Baselines

    try:
        known = Baselines(state_path()).read(at_ns, wall_ns // 10**9)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        return Reading(None, Status.FAILED, f"baselines.json: {what}", "", at_ns)
    return Reading(known, Status.OK, at_ns=at_ns) if known else Reading()
