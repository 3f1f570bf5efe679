"""Times no finer than they mean anything: a recording of an idle machine is mostly their last digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import OwnCost

AT_NS = 10_000
"""A Reading's time and a Snapshot's: 1e-4 of the shortest interval."""
INNER_AT_NS = 1_000_000
"""The time of one of many devices that answer by themselves: a GPU's own figures are at least 20 ms old."""
TOOK_NS = 100_000
EXACT = ("processes",)
"""Readings whose time also stands in their value."""


def _taken(reading: Reading[Any], step: int) -> Reading[Any]:
    at_ns = reading.at_ns
    return reading._replace(
        at_ns=None if at_ns is None else at_ns - at_ns % step, took_ns=-(-reading.took_ns // TOOK_NS) * TOOK_NS
    )


class Coarse:
    """Rounds Readings; a Reading that is repeated stays the same object."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Reading[Any], Reading[Any]]] = {}

    def reading(self, field: str, reading: Reading[Any]) -> Reading[Any]:
        """The Reading with its time rounded down to 10 µs and its duration up to 0.1 ms."""
        seen = self._seen.get(field)
        if seen is not None and seen[0] is reading:
            return seen[1]
        out = _taken(reading, 1 if field in EXACT else AT_NS)
        value = reading.value
        if isinstance(value, Mapping) and any(isinstance(part, Reading) for part in value.values()):
            inner = {
                key: _taken(part, INNER_AT_NS) if isinstance(part, Reading) else part for key, part in value.items()
            }
            out = out._replace(value=inner)
        self._seen[field] = (reading, out)
        return out


def own(cost: OwnCost) -> OwnCost:
    """Our own cost, rounded down to 0.1 ms."""
    cpu_ns, collect_ns, late_ns = (
        None if ns is None else ns - ns % TOOK_NS for ns in (cost.cpu_ns, cost.collect_ns, cost.late_ns)
    )
    return cost._replace(cpu_ns=cpu_ns, collect_ns=collect_ns, late_ns=late_ns)
