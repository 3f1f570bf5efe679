"""Merges the events of the kernel's log with the Xids (GPU errors) of NVML. An Xid in both is reported once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from iotop_ai.collectors.machine.kernel_log.event import OOM_KILL, XID, LogEvent
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Event

if TYPE_CHECKING:
    from iotop_ai.collectors.gpu.nvml.xid_events import XidEvent
    from iotop_ai.model.gpu.state import GpuState

REPEAT_NS = 5_000_000_000
"""An Xid of the same GPU that the log or NVML reports again within this time, in ns, gives no second Event."""


def bus_address(address: str) -> str:
    """Return a PCI address in a common form: "0:3b:00" for NVML's "00000000:3B:00.0" and the log's "0000:3b:00"."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest.split('.')[0]}"


class KernelEvents:
    """Merges the events of the kernel's log and of NVML.

    on_xid: called with each Xid in the log whose GPU has a known UUID
    """

    def __init__(self, on_xid: Callable[[XidEvent], None]) -> None:
        self._on_xid = on_xid
        self._uuids: dict[str, str] = {}
        """The UUID of each GPU by its PCI address."""
        self._xids: dict[tuple[str, int], int] = {}
        """The time of an Xid's newest Event, by (GPU, Xid number). The GPU is its UUID; if that is unknown, it is
        the PCI address for an Xid in the log, and "" for one of NVML. Each Xid in the log has a second entry with "".
        """
        self._unidentified: set[int] = set()
        """The numbers of the Xids that NVML has reported without a UUID, and that the log has not had since."""
        self._logged_kills = 0
        """The number of OOM kills in the log that ``count_unlogged`` has not taken into account yet."""
        self._at_ns = 0
        """The time of the newest tick."""
        self._killed_at_ns: dict[int | None, int] = {}
        """The time of the last OOM kill by PID; the PID is None if the kill is not in the log."""

    def merge(
        self,
        log: Iterable[LogEvent],
        xids: Iterable[XidEvent],
        gpus: Mapping[str, Reading[GpuState]] | None,
        at_ns: int,
        wall_ns: int,
    ) -> list[Event]:
        """Return the events of one tick. Events of the log get the time of the tick, because the log's clock drifts."""
        # The log names a lost GPU by its address, but NVML no longer lists that GPU, so known addresses are kept.
        if gpus:
            self._uuids |= {bus_address(r.value.bus_id): uuid for uuid, r in gpus.items() if r.value is not None}
        if self._xids:
            self._xids = {key: ns for key, ns in self._xids.items() if at_ns - ns < REPEAT_NS}
            self._unidentified = {number for number in self._unidentified if ("", number) in self._xids}
        self._at_ns = at_ns
        if self._killed_at_ns:
            from iotop_ai.model.job.exits import may_end_by_kill  # only an OOM kill needs it

            self._killed_at_ns = {pid: ns for pid, ns in self._killed_at_ns.items() if may_end_by_kill(pid, at_ns - ns)}
        out = []
        for entry in log:
            text = entry.text
            if entry.kind == XID and entry.number is not None:
                uuid = self._uuids.get(bus_address(entry.subject), "")
                if uuid:
                    # Pass it on even if NVML has reported it: only the log shows which recovery the driver asks for.
                    from iotop_ai.collectors.gpu.nvml.xid_events import XidEvent  # only a GPU error needs it

                    self._on_xid(XidEvent(uuid, entry.number, at_ns, wall_ns, entry.recovery))
                if not self._is_new_in_log(uuid or entry.subject, entry.number, at_ns):
                    continue
                if uuid:
                    text = text.replace(entry.subject, uuid, 1)
            if entry.kind == OOM_KILL:
                self._logged_kills += 1
                self._killed_at_ns[entry.pid] = at_ns
            out.append(Event(at_ns, wall_ns, entry.kind, text, pid=entry.pid))
        for xid in xids:
            if self._is_new(xid.uuid, xid.number, at_ns):
                out.append(Event(xid.at_ns, xid.wall_ns, XID, f"{xid.uuid or 'a GPU'}: Xid {xid.number}"))
                if not xid.uuid:
                    self._unidentified.add(xid.number)
        return out

    def _is_new_in_log(self, gpu: str, number: int, at_ns: int) -> bool:
        """Whether the log's Xid is new. A report of NVML without a UUID stands for the first GPU that the log names."""
        if not self._is_new(gpu, number, at_ns):
            return False
        self._xids["", number] = at_ns
        if number in self._unidentified:
            self._unidentified.remove(number)
            return False
        return True

    def _is_new(self, gpu: str, number: int, at_ns: int) -> bool:
        if (gpu, number) in self._xids:
            return False
        # A repeated Xid does not renew this time, so that a lasting fault is reported again.
        self._xids[gpu, number] = at_ns
        return True

    def count_unlogged(self, kills: int) -> int:
        """Return how many of the OOM kills that the kernel counted since the last call are not in its log."""
        logged = min(kills, self._logged_kills)
        self._logged_kills -= logged
        if kills > logged:
            self._killed_at_ns[None] = self._at_ns
        return kills - logged

    def killed_before(self, pid: int) -> bool:
        """Whether the process ``pid`` may end now because of an earlier OOM kill.

        An OOM kill that is not in the log may concern any process.
        """
        return pid in self._killed_at_ns or None in self._killed_at_ns
