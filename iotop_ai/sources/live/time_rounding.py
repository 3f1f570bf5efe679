"""Rounds times to their real precision: further digits would be most of an idle machine's recording."""

from __future__ import annotations

from typing import Any

from iotop_ai.model.machine.cpu import CpuTable, without_idle
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import OwnCost

FINEST_NS, COARSEST_NS = 10_000, 1_000_000
INNER_AT_NS = 1_000_000
"""Precision of the times within a Reading, of single devices: a GPU's own figures are at least 20 ms old."""
TOOK_NS = 1_000_000
OWN_NS = 100_000
OWN_BYTES = 1 << 18
_LIMIT_PAGES = 1024
LEVELS = frozenset({"disks", "mounts", "smart", "filesystems", "kernel"})
"""Readings without rates, whose time only shows their age."""
EXACT = ("processes",)
"""Readings whose value contains their time too."""
_GRAINS_NS = {**dict.fromkeys(LEVELS, INNER_AT_NS), **dict.fromkeys(EXACT, 1)}
_LIMIT_AT = MemoryState._fields.index("dirty_threshold_pages")
"""The background limit is the next field."""


def step_ns(interval_s: float) -> int:
    """The precision of a Reading's and a Snapshot's time: 1e-4 of the interval."""
    return max(FINEST_NS, min(COARSEST_NS, int(interval_s * 1e5)))


def _taken(reading: Reading[Any], step: int, value: Any) -> Reading[Any]:
    _, status, reason, remedy, at_ns, took_ns = reading
    at_ns = None if at_ns is None else at_ns - at_ns % step
    return Reading(value, status, reason, remedy, at_ns, -(-took_ns // TOOK_NS) * TOOK_NS)


def _limits(state: MemoryState) -> MemoryState:
    """The state with its two dirty limits rounded down to 1024 pages, as the kernel computes them from free memory."""
    threshold, background = state.dirty_threshold_pages, state.dirty_background_pages
    limits = _rounded(threshold), _rounded(background)
    return MemoryState._make((*state[:_LIMIT_AT], *limits, *state[_LIMIT_AT + 2 :]))


def _rounded(pages: int | None) -> int | None:
    return pages if pages is None or pages < _LIMIT_PAGES else pages - pages % _LIMIT_PAGES


class TimeRounder:
    """Rounds Readings; a Reading that is repeated stays the same object."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Reading[Any], Reading[Any]]] = {}

    def reading(self, field: str, reading: Reading[Any], step: int) -> Reading[Any]:
        """The Reading with its time rounded down to a step and its duration up to 1 ms; cores without idle time."""
        seen = self._seen.get(field)
        if seen is not None and seen[0] is reading:
            return seen[1]
        before = reading.value
        value = seen[1].value if seen is not None and before is seen[0].value else _value(before)
        at_ns, took_ns = reading.at_ns, reading.took_ns
        fine_ns = self.fine_ns(field, step)
        out = reading
        if value is not before or took_ns % TOOK_NS or (at_ns is not None and at_ns % fine_ns):
            out = _taken(reading, fine_ns, value)
        self._seen[field] = (reading, out)
        return out

    @staticmethod
    def fine_ns(field: str, step: int) -> int:
        """The precision of the time of this field's Reading."""
        return _GRAINS_NS.get(field, step)


def _value(value: Any) -> Any:
    """The rounded value."""
    if isinstance(value, CpuTable):
        return without_idle(value)
    if isinstance(value, MemoryState):
        return _limits(value)
    if isinstance(value, dict) and Reading in set(map(type, value.values())):
        return {
            key: _taken(part, INNER_AT_NS, part.value) if isinstance(part, Reading) else part
            for key, part in value.items()
        }
    return value


def rounded_cost(cost: OwnCost) -> OwnCost:
    """Our own cost, rounded down to 0.1 ms and 256 KiB."""
    pid, cpu_ns, rss_bytes, collect_ns, late_ns = cost
    return OwnCost(
        pid, _down(cpu_ns, OWN_NS), _down(rss_bytes, OWN_BYTES), _down(collect_ns, OWN_NS), _down(late_ns, OWN_NS)
    )


def _down(number: int | None, step: int) -> int | None:
    return None if number is None else number - number % step
