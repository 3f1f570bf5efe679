"""Events of the kernel's log and of the GPU driver, each told once though two sources may know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from iotop_ai.collectors.kernel_parse import OOM_KILL, XID, Told
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Event
from iotop_ai.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from iotop_ai.collectors.nvml_events import XidEvent
    from iotop_ai.model.gpu import GpuState

SAME_NS = 5_000_000_000
"""The log and NVML tell of one Xid within this time: the driver does both, and we look once a second."""


def bus(address: str) -> str:
    """A PCI address in one spelling: NVML's "00000000:3B:00.0" and the log's "0000:3b:00" are "0:3b:00"."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest.split('.')[0]}"


class KernelEvents:
    """Joins the two; remembers what was told. hear: gets each Xid of a known GPU that the log told first."""

    def __init__(self, hear: Callable[[XidEvent], None]) -> None:
        self._hear = hear
        self._uuids: dict[str, str] = {}
        self._xids: dict[tuple[str, int], int] = {}
        self._kills = 0

    def of(
        self,
        log: Iterable[Told],
        xids: Iterable[XidEvent],
        gpus: Mapping[str, Reading[GpuState]] | None,
        at_ns: int,
        wall_ns: int,
    ) -> list[Event]:
        """The events of one tick; those of the log at the tick's own time, as the log's clock drifts."""
        # A GPU that fell off the bus is told of by its address when NVML knows it no more.
        if gpus:
            self._uuids |= {bus(r.value.bus_id): uuid for uuid, r in gpus.items() if r.value is not None}
        if self._xids:
            self._xids = {key: ns for key, ns in self._xids.items() if at_ns - ns < SAME_NS}
        out = []
        for one in log:
            text = one.text
            if one.kind == XID and one.number is not None:
                uuid = self._uuids.get(bus(one.subject), "")
                if not self._first(uuid or one.subject, one.number, at_ns):
                    continue
                if uuid:
                    text = text.replace(one.subject, uuid, 1)
                    # Here, as a start without an error of a GPU has no use for what asks NVML.
                    from iotop_ai.collectors.nvml_events import XidEvent

                    self._hear(XidEvent(uuid, one.number, at_ns, wall_ns))
            self._kills += one.kind == OOM_KILL
            out.append(Event(at_ns, wall_ns, one.kind, text, pid=one.pid))
        out += [
            Event(xid.at_ns, xid.wall_ns, XID, f"{xid.uuid or 'a GPU'}: Xid {xid.number}")
            for xid in xids
            if self._first(xid.uuid, xid.number, at_ns)
        ]
        return out

    def _first(self, who: str, number: int, at_ns: int) -> bool:
        new = (who, number) not in self._xids
        self._xids[who, number] = at_ns
        return new

    def untold(self, kills: int) -> int:
        """How many of the kills that the kernel counted since the last call it did not name in its log."""
        told = min(kills, self._kills)
        self._kills -= told
        return kills - told
