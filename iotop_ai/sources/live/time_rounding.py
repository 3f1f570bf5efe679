"""Rounds times to their real precision: more digits would take up most of an idle machine's recording."""

from __future__ import annotations

from typing import Any

from iotop_ai.model.machine.cpu import CpuTable, without_idle
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import OwnCost

FINEST_NS, COARSEST_NS = 10_000, 1_000_000
"""The limits of ``step_ns``."""
INNER_AT_NS = 1_000_000
"""The precision, in ns, of the times inside a Reading, such as those of single GPUs."""
TOOK_NS = 1_000_000
"""The precision, in ns, of the durations of reads."""
OWN_NS = 100_000
OWN_BYTES = 1 << 18
"""The precision of the monitor's own times, in ns, and of its own memory, in bytes."""
_LIMIT_STEP_PAGES = 1024
"""The step, in pages, to which the dirty limits are rounded."""
FIELDS_WITHOUT_RATES = frozenset({"disks", "mounts", "smart", "filesystems", "kernel"})
"""The time of such a field's Reading is only used to show its age, so it may be coarse."""
EXACT_FIELDS = ("processes",)
"""The fields whose value also contains the time of the Reading, so that the time must stay exact."""
_FIXED_STEPS_NS = {**dict.fromkeys(FIELDS_WITHOUT_RATES, INNER_AT_NS), **dict.fromkeys(EXACT_FIELDS, 1)}
"""The precision, in ns, of the fields whose precision does not depend on the interval."""
_LIMIT_INDEX = MemoryState._fields.index("dirty_threshold_pages")
"""The index of the first of two dirty limits in MemoryState; the background limit is the next field."""


def step_ns(interval_s: float) -> int:
    """Return the precision of the times of Readings and Snapshots, in ns: 1e-4 of the interval, within limits."""
    return max(FINEST_NS, min(COARSEST_NS, int(interval_s * 1e5)))


def _with_rounded_times(reading: Reading[Any], step: int, value: Any) -> Reading[Any]:
    _, status, reason, remedy, at_ns, took_ns = reading
    at_ns = None if at_ns is None else at_ns - at_ns % step
    return Reading(value, status, reason, remedy, at_ns, -(-took_ns // TOOK_NS) * TOOK_NS)


def _with_rounded_limits(state: MemoryState) -> MemoryState:
    """Return the state with its two dirty limits rounded down to multiples of 1024 pages, unless they are smaller.

    The kernel computes these limits from the free memory, so they change constantly.
    """
    threshold, background = state.dirty_threshold_pages, state.dirty_background_pages
    limits = _rounded_pages(threshold), _rounded_pages(background)
    return MemoryState._make((*state[:_LIMIT_INDEX], *limits, *state[_LIMIT_INDEX + 2 :]))


def _rounded_pages(pages: int | None) -> int | None:
    return pages if pages is None or pages < _LIMIT_STEP_PAGES else pages - pages % _LIMIT_STEP_PAGES


class TimeRounder:
    """Rounds Readings. If the same Reading is passed again, the same rounded object is returned."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Reading[Any], Reading[Any]]] = {}
        """The newest Reading and its rounded form, by field."""

    def reading(self, field: str, reading: Reading[Any], step: int) -> Reading[Any]:
        """Return the Reading with its time rounded down to its precision and its duration rounded up to 1 ms.

        The dirty limits and inner times are rounded too, and the cores of a CpuTable lose their idle time.
        """
        seen = self._seen.get(field)
        if seen is not None and seen[0] is reading:
            return seen[1]
        exact_value = reading.value
        value = seen[1].value if seen is not None and exact_value is seen[0].value else _rounded_value(exact_value)
        at_ns, took_ns = reading.at_ns, reading.took_ns
        precision_ns = self.precision_ns(field, step)
        out = reading
        if value is not exact_value or took_ns % TOOK_NS or (at_ns is not None and at_ns % precision_ns):
            out = _with_rounded_times(reading, precision_ns, value)
        self._seen[field] = (reading, out)
        return out

    @staticmethod
    def precision_ns(field: str, step: int) -> int:
        """Return the precision, in ns, of the time of this field's Reading."""
        return _FIXED_STEPS_NS.get(field, step)


def _rounded_value(value: Any) -> Any:
    """Return the value in its rounded form."""
    if isinstance(value, CpuTable):
        return without_idle(value)
    if isinstance(value, MemoryState):
        return _with_rounded_limits(value)
    if isinstance(value, dict) and Reading in set(map(type, value.values())):
        return {
            key: _with_rounded_times(part, INNER_AT_NS, part.value) if isinstance(part, Reading) else part
            for key, part in value.items()
        }
    return value


def rounded_cost(cost: OwnCost) -> OwnCost:
    """Return the monitor's own cost, rounded down to multiples of 0.1 ms and 256 KiB."""
    pid, cpu_ns, rss_bytes, collect_ns, late_ns = cost
    return OwnCost(
        pid,
        _round_down(cpu_ns, OWN_NS),
        _round_down(rss_bytes, OWN_BYTES),
        _round_down(collect_ns, OWN_NS),
        _round_down(late_ns, OWN_NS),
    )


def _round_down(number: int | None, step: int) -> int | None:
    return None if number is None else number - number % step
