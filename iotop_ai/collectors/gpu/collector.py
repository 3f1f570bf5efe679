"""Reads the GPUs on a separate thread, so that a slow call of the driver does not delay anything else."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Collection, Iterable

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.gpu.drm import DrmSweep
from iotop_ai.collectors.gpu.nvml.library import CallCost, GpuUnavailable, Nvml
from iotop_ai.collectors.gpu.nvml.xid_events import XidEvent, XidWatch
from iotop_ai.collectors.gpu.pid_mapping import PidMapping
from iotop_ai.collectors.gpu.topology import with_topology
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.lazy_thread import LazyThread
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.gpu.detail import GpuDetail, GpuDetails
from iotop_ai.model.gpu.state import GpuState, GpuTable
from iotop_ai.model.gpu.xid import ASKS_RECOVERY, replaces
from iotop_ai.model.reading import Reading, Status

log = logging.getLogger(__name__)

RETRY_S = 5.0
LONGEST_RETRY_S = 60.0
"""The shortest and the longest pause before the library is opened again, in seconds."""
HUNG_S = 15.0
"""How long the thread may take for one GPU, in seconds, before the driver counts as hung."""
OPENING_S = 60.0
"""How long nvmlInit may take, in seconds.

Without a persistence daemon, nvmlInit wakes every GPU, which takes many seconds with eight GPUs.
"""
DETAILS_EVERY_SWEEPS = 5
"""The details are read once in this number of sweeps. A sweep reads all GPUs once."""
WATCH_END_TIMEOUT_S = 2.0
"""How long the GPU thread waits for the end of the thread that receives Xids (NVIDIA's GPU errors), in seconds."""
_LEAD_S = 0.02
"""How long before the next tick a sweep should end, in seconds."""
_NVIDIA = "NVIDIA"
"""The name of the entry that says why NVML has not listed any GPUs."""


class GpuCollector:
    """Collects the field ``gpu``, which has a Reading for each GPU by UUID. ``read`` returns the newest sweep at once.

    The thread makes a sweep every ``every_s``, early enough to end shortly before the reader's next tick. A lost GPU
    keeps its entry, with a failed Reading. Until all GPUs answer, the library is opened again after ``retry_s``, then
    after twice as long, and so on up to 60 s; a missing driver is looked for at the same intervals. The cards of AMD
    and Intel are listed together with NVML's GPUs. root: the /proc and /sys in which these cards are found; None to
    leave them unread.
    """

    field = "gpu"

    def __init__(
        self,
        clock: Clock,
        nvml: Nvml | None = None,
        every_s: float = 1.0,
        *,
        retry_s: float = RETRY_S,
        root: Root | None = None,
    ) -> None:
        self._clock = clock
        self._nvml = nvml or Nvml(clock)
        self._every_s = every_s
        self._retry_s = self._first_retry_s = retry_s
        self._reopen_ns: int | None = 0
        """The time of the next attempt to open the library; None while all GPUs answer."""
        self._root = root
        self._pid_mapping = None if root is None else PidMapping(root)
        self._drm = None if root is None else DrmSweep(root, clock)
        self._is_open = False
        self._unavailable: Unavailable | None = None
        """Why the library is closed; None while it is open, and before the first attempt to open it."""
        self._sweeps = 0
        self._table: dict[str, Reading[GpuState]] = {}
        self._without_handle: dict[str, GpuUnavailable] = {}
        """The GPUs for which the driver gave no handle when it last listed the GPUs, with the reason."""
        self._details: dict[str, Reading[GpuDetail]] = {}
        self._details_at_ns: int | None = None
        self._watch: XidWatch | None = None
        self._xids: list[XidEvent] = []
        self._last_xid: dict[str, XidEvent] = {}
        self._recovery: dict[str, int] = {}
        self._lock = threading.Lock()
        self._newest: tuple[GpuTable, int] | Unavailable = Unavailable(Status.PENDING, "NVML has not answered yet")
        self._returned_ns: int | None = None
        self._asked_ns: int | None = None
        """The time of the last ``read``."""
        self._alive_ns: int | None = None
        """The time at which the thread began its present step; None between two sweeps."""
        self._patience_s = OPENING_S
        """How long this step may take, in seconds, before the driver counts as hung."""
        self._answered = threading.Event()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = LazyThread("gpu", self._run)

    @property
    def every_s(self) -> float:
        """The seconds between two sweeps, which may be changed while the thread runs."""
        return self._every_s

    @every_s.setter
    def every_s(self, seconds: float) -> None:
        self._every_s = seconds
        self._wake.set()

    def read(self) -> GpuTable:
        """Return the newest sweep; {} when there is a driver but no GPU.

        Raises Unavailable with the status pending, absent, denied or failed. A driver that hangs counts as failed.
        """
        self._start()
        now_ns = self._clock.monotonic_ns()
        self._asked_ns = now_ns
        alive_ns = self._alive_ns
        if alive_ns is not None and now_ns - alive_ns > self._patience_s * 1e9:
            raise Unavailable(Status.FAILED, f"NVML has not answered for {(now_ns - alive_ns) / 1e9:.0f} s")
        newest = self._newest
        if isinstance(newest, Unavailable):
            raise Unavailable(newest.status, newest.reason, newest.remedy)
        table, self._returned_ns = newest
        return table

    def details(self) -> tuple[GpuDetails, int | None]:
        """Return (the newest details, the time when they were read). Raises Unavailable while there is no sweep."""
        newest = self._newest
        if isinstance(newest, Unavailable):
            raise Unavailable(newest.status, newest.reason, newest.remedy)
        return self._details, self._details_at_ns

    def events(self) -> list[XidEvent]:
        """Return the Xid events since the last call, oldest first. Any thread can call this method."""
        with self._lock:
            out, self._xids = self._xids, []
        return out

    def note_xid(self, xid: XidEvent) -> None:
        """Store an Xid as the newest fault of its GPU, or clear the fault if no recovery is needed any more.

        The Xid may also come from the kernel log, since NVML does not report the Xids of a lost GPU. Any thread can
        call this method.
        """
        earlier = self._last_xid.get(xid.uuid)
        if xid.recovery is not None:
            self._recovery[xid.uuid] = xid.recovery
            if not xid.recovery:
                # The driver does not ask for a recovery any more, so this Xid is not a fault.
                if earlier is not None and earlier.number == xid.number:
                    del self._last_xid[xid.uuid]
                return
        elif xid.number == ASKS_RECOVERY and self._recovery.get(xid.uuid) == 0:
            # This Xid comes from NVML, which does not report which recovery the driver asks for. The kernel log has
            # shown that the driver asks for none.
            return
        if earlier is None or replaces(xid.number, earlier.number):
            self._last_xid[xid.uuid] = xid

    def at_ns(self) -> int | None:
        """Return the end time of the sweep that ``read`` returned last; None before the first."""
        return self._returned_ns

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for NVML's first answer or refusal; return whether it has come."""
        with contextlib.suppress(Unavailable):
            self._start()
        return self._thread.started and self._answered.wait(seconds)

    def costs(self) -> dict[str, CallCost]:
        """Return the cost of each NVML call."""
        return self._nvml.costs()

    def close(self) -> None:
        """End the thread. A thread that hangs in the driver is abandoned."""
        self._stopping = True
        self._wake.set()
        self._thread.join(1.0)

    def _start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            raise Unavailable(Status.FAILED, f"the GPUs are not read: {error}") from error

    def _run(self) -> None:
        while not self._stopping:
            began_ns = self._clock.monotonic_ns()
            if isinstance(self._newest, Unavailable) and self._reopen_ns is not None and began_ns < self._reopen_ns:
                self._pause(began_ns)
                continue
            self._alive_ns = began_ns
            try:
                self._sweep()
            except Unavailable as unavailable:
                self._close_library(unavailable)
            except Exception as error:  # report the error and keep the thread alive
                log.exception("reading the GPUs failed")
                self._close_library(Unavailable(Status.FAILED, clean(f"{type(error).__name__}: {error}")))
            self._alive_ns = None
            self._answered.set()
            self._pause(began_ns)
        self._stop_watch()
        self._nvml.close()

    def _close_library(self, unavailable: Unavailable) -> None:
        """Close the library and plan the next attempt to open it.

        The cards of AMD and Intel are still published; if there are none, ``unavailable`` is published.
        """
        self._stop_watch()
        self._nvml.close()
        self._is_open, self._unavailable = False, unavailable
        self._plan_reopening()
        try:
            published = self._publish_drm_alone()
        except Exception:  # the error may come from these cards; the thread must stay alive
            log.exception("reading the cards of AMD and Intel failed")
            published = False
        if not published:
            self._newest = unavailable

    def _publish_drm_alone(self) -> bool:
        """Publish the cards of AMD and Intel, if there are any, and why NVIDIA GPUs are not read.

        Returns whether there is a card.
        """
        unread = self._unread_gpus()
        cards = None if self._drm is None else self._drm.read(len(self._table))
        if self._drm is not None and cards:
            self._details, self._details_at_ns = self._drm.details, self._drm.details_at_ns
            self._newest = unread | cards, self._clock.monotonic_ns()
        return bool(cards)

    def _unread_gpus(self) -> dict[str, Reading[GpuState]]:
        """Return a Reading with the reason for each GPU that NVML listed before; {} while the library is open.

        If NVML has not listed any GPUs, there is one entry with the reason; without a driver, there is none.
        """
        unavailable, now_ns = self._unavailable, self._clock.monotonic_ns()
        if unavailable is None:
            return {}
        if self._table:
            return {
                uuid: Reading(
                    None, unavailable.status, self._with_xid(uuid, unavailable.reason), unavailable.remedy, now_ns
                )
                for uuid in self._table
            }
        if unavailable.status is Status.ABSENT:
            return {}
        # FAILED would mean that a GPU was lost, but it is unknown whether the machine has a GPU.
        return {_NVIDIA: Reading(None, Status.ABSENT, unavailable.reason, unavailable.remedy, now_ns)}

    def _plan_reopening(self) -> None:
        self._reopen_ns = self._clock.monotonic_ns() + int(self._retry_s * 1e9)
        self._retry_s = min(LONGEST_RETRY_S, 2 * self._retry_s)

    def _sweep(self) -> None:
        listed: dict[str, GpuUnavailable | None] | None = None
        if self._reopen_ns is not None and self._clock.monotonic_ns() >= self._reopen_ns:
            self._stop_watch()
            self._nvml.close()
            self._reopen_ns, self._patience_s = None, OPENING_S
            self._nvml.open()
            self._is_open, self._unavailable = True, None
            listed = self._nvml.gpus()
            self._without_handle = {uuid: error for uuid, error in listed.items() if error is not None}
            # First the time, then the shorter limit: in the other order, a reader would take a slow opening for a hang.
            self._alive_ns = self._clock.monotonic_ns()
            self._patience_s = HUNG_S
            watch = self._nvml.watch()
            if watch is not None:
                with contextlib.suppress(RuntimeError):  # without a new thread, the GPUs are read without their Xids
                    watch.start()
                    self._watch = watch
        if not self._is_open:
            if not self._publish_drm_alone() and self._unavailable is not None:
                self._newest = self._unavailable  # the last card has vanished
            return
        self._take_events()
        if self._pid_mapping is not None:
            self._pid_mapping.begin()
        table: dict[str, Reading[GpuState]] = {}
        for uuid in self._table if listed is None else _merged(self._table, listed):
            table[uuid] = self._read_one(uuid, self._without_handle.get(uuid))
        self._table = table
        if self._sweeps % DETAILS_EVERY_SWEEPS == 0 or listed is not None:
            self._read_details(table)
        self._sweeps += 1
        cards = {} if self._drm is None else self._drm.read(len(table))
        if cards and self._drm is not None:
            self._details = self._details | self._drm.details
        self._newest = table | cards, self._clock.monotonic_ns()
        if all(reading.status is Status.OK for reading in table.values()):
            self._reopen_ns, self._retry_s = None, self._first_retry_s
        elif self._reopen_ns is None:
            self._plan_reopening()

    def _read_one(self, uuid: str, error: GpuUnavailable | None) -> Reading[GpuState]:
        start_ns = self._alive_ns = self._clock.monotonic_ns()
        try:
            if error is not None:
                raise error
            state = self._nvml.state(uuid)
            end_ns = self._clock.monotonic_ns()
            if self._pid_mapping is not None and state.processes:
                minor = self._nvml.minor(uuid)
                state = state._replace(processes=self._pid_mapping.resolve(uuid, minor, state.processes))
        except GpuUnavailable as unavailable:
            end_ns = self._clock.monotonic_ns()
            return Reading(
                None,
                unavailable.status,
                self._with_xid(uuid, unavailable.reason),
                unavailable.remedy,
                end_ns,
                end_ns - start_ns,
            )
        return Reading(self._with_faults(state), Status.OK, "", "", end_ns, end_ns - start_ns)

    def _with_faults(self, state: GpuState) -> GpuState:
        xid = self._last_xid.get(state.uuid)
        if xid is not None:
            state = state._replace(last_xid=xid.number, last_xid_at_ns=xid.at_ns)
        watched = self._watch is not None and state.uuid in self._watch.registered
        return state._replace(recovery=self._recovery.get(state.uuid), xid_watched=watched)

    def _with_xid(self, uuid: str, reason: str) -> str:
        xid = self._last_xid.get(uuid)
        return reason if xid is None else f"{reason} (Xid {xid.number})"

    def _read_details(self, table: GpuTable) -> None:
        out: dict[str, Reading[GpuDetail]] = {}
        for uuid, reading in table.items():
            start_ns = self._alive_ns = self._clock.monotonic_ns()
            if reading.value is None:
                out[uuid] = Reading(None, reading.status, reading.reason, reading.remedy, start_ns, 0)
                continue
            try:
                detail = self._nvml.detail(uuid)
            except GpuUnavailable as unavailable:
                out[uuid] = Reading(None, unavailable.status, unavailable.reason, unavailable.remedy, start_ns, 0)
                continue
            if self._root is not None:
                detail = with_topology(self._root, detail, reading.value.bus_id)
            end_ns = self._clock.monotonic_ns()
            out[uuid] = Reading(detail, Status.OK, "", "", end_ns, end_ns - start_ns)
        self._details, self._details_at_ns = out, self._clock.monotonic_ns()

    def _take_events(self) -> None:
        if self._watch is None:
            return
        xids = self._watch.take_events()
        for event in xids:
            self.note_xid(event)
        if xids:
            with self._lock:
                self._xids += xids

    def _stop_watch(self) -> None:
        self._take_events()
        if self._watch is not None:
            self._watch.stop(WATCH_END_TIMEOUT_S)
            self._watch = None

    def _pause(self, began_ns: int) -> None:
        now_ns = self._clock.monotonic_ns()
        every_ns = int(self._every_s * 1e9)
        due_ns = began_ns + every_ns
        asked_ns = self._asked_ns
        if isinstance(self._newest, Unavailable):
            due_ns = self._reopen_ns if self._reopen_ns is not None else due_ns
        elif asked_ns is not None and now_ns - asked_ns < 2 * every_ns:
            # Start early enough to end shortly before the reader's next tick.
            lead_ns = min(every_ns // 2, int(_LEAD_S * 1e9) + 2 * (now_ns - began_ns))
            due_ns = asked_ns + every_ns - lead_ns
            while due_ns < began_ns + every_ns // 2:
                due_ns += every_ns
        if not self._stopping and due_ns > now_ns:
            self._wake.wait((due_ns - now_ns) / 1e9)
        self._wake.clear()


def _merged(known: Iterable[str], listed: Collection[str]) -> list[str]:
    """Return the known GPUs in their order, with each new GPU at its position in ``listed``.

    The position matters, because a lost GPU is shown by its position. A GPU with an unknown UUID is listed as "gpu N"
    until its UUID is known.
    """
    merged = [key for key in known if key in listed or not key.startswith("gpu ")]
    for position, key in enumerate(listed):
        if key not in merged:
            merged.insert(position, key)
    return merged


class GpuDetailCollector:
    """Collects the field ``gpu_slow``: the details that the GPU thread reads in every fifth sweep."""

    field = "gpu_slow"
    every_s = 0.0

    def __init__(self, gpu: GpuCollector) -> None:
        self._gpu = gpu
        self._at_ns: int | None = None

    def read(self) -> GpuDetails:
        """Return the newest details. Raises Unavailable."""
        details, self._at_ns = self._gpu.details()
        return details

    def at_ns(self) -> int | None:
        """Return the time when the details were read; None before the first ``read``."""
        return self._at_ns

    def close(self) -> None:
        """Do nothing: the GPU collector closes the library."""
