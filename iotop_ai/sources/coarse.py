"""Times no finer than they mean anything: a recording of an idle machine is mostly their last digits."""

from __future__ import annotations

from iotop_ai.model.cpu import CpuTable, without_idle
from iotop_ai.model.memory import MemoryState
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import OwnCost
from iotop_ai.model.typed import Any

FINEST_NS, COARSEST_NS = 10_000, 1_000_000
INNER_AT_NS = 1_000_000
"""The time of one of many devices that answer by themselves: a GPU's own figures are at least 20 ms old."""
TOOK_NS = 1_000_000
OWN_NS = 100_000
OWN_BYTES = 1 << 18
_LIMIT_PAGES = 1024
LEVELS = frozenset({"disks", "mounts", "smart", "filesystems", "kernel"})
"""Readings of which no rate is taken: as fine as is told how old they are."""
EXACT = ("processes",)
"""Readings whose time also stands in their value."""


def step_ns(interval_s: float) -> int:
    """How fine a Reading's time and a Snapshot's is: 1e-4 of the interval."""
    return max(FINEST_NS, min(COARSEST_NS, int(interval_s * 1e5)))


def _taken(reading: Reading[Any], step: int) -> Reading[Any]:
    value, status, reason, remedy, at_ns, took_ns = reading
    at_ns = None if at_ns is None else at_ns - at_ns % step
    return Reading(value, status, reason, remedy, at_ns, -(-took_ns // TOOK_NS) * TOOK_NS)


def _limits(state: MemoryState) -> MemoryState:
    """The two limits of dirty pages, which the kernel works out anew from what is free, to 1024 pages."""
    return state._replace(
        dirty_threshold_pages=_rounded(state.dirty_threshold_pages),
        dirty_background_pages=_rounded(state.dirty_background_pages),
    )


def _rounded(pages: int | None) -> int | None:
    return pages if pages is None or pages < _LIMIT_PAGES else pages - pages % _LIMIT_PAGES


class Coarse:
    """Rounds Readings; a Reading that is repeated stays the same object."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Reading[Any], Reading[Any]]] = {}

    def reading(self, field: str, reading: Reading[Any], step: int) -> Reading[Any]:
        """The Reading with its time rounded down to a step and its duration up to 1 ms; cores without idle time."""
        seen = self._seen.get(field)
        if seen is not None and seen[0] is reading:
            return seen[1]
        out = _taken(reading, 1 if field in EXACT else INNER_AT_NS if field in LEVELS else step)
        value = reading.value
        if isinstance(value, dict) and Reading in map(type, value.values()):
            inner = {
                key: _taken(part, INNER_AT_NS) if isinstance(part, Reading) else part for key, part in value.items()
            }
            out = out._replace(value=inner)
        elif isinstance(value, CpuTable):
            out = out._replace(value=without_idle(value))
        elif isinstance(value, MemoryState):
            out = out._replace(value=_limits(value))
        self._seen[field] = (reading, out)
        return out


def own(cost: OwnCost) -> OwnCost:
    """Our own cost, rounded down to 0.1 ms and 256 KiB."""
    cpu_ns, collect_ns, late_ns = (
        None if ns is None else ns - ns % OWN_NS for ns in (cost.cpu_ns, cost.collect_ns, cost.late_ns)
    )
    rss = None if cost.rss_bytes is None else cost.rss_bytes - cost.rss_bytes % OWN_BYTES
    return cost._replace(cpu_ns=cpu_ns, rss_bytes=rss, collect_ns=collect_ns, late_ns=late_ns)
