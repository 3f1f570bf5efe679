"""The figure by which the process list is sorted, and the words for its order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from iotop_ai.model.process.records import ProcessRates

TEXT_SORT_KEYS = ("name", "user")
"""The sort keys whose order begins with A; the others begin with the largest figure."""


def io_rate(rates: ProcessRates) -> float | None:
    """The bytes read and written per second; None when both are unknown."""
    read, write = rates.read_bytes_per_s, rates.write_bytes_per_s
    return None if read is None and write is None else (read or 0.0) + (write or 0.0)


_FIGURES: dict[str, Callable[[ProcessRates], float | None]] = {
    "read": attrgetter("read_bytes_per_s"),
    "write": attrgetter("write_bytes_per_s"),
    "delay": attrgetter("io_delay_ratio"),
    "cpu": attrgetter("cpu_ratio"),
}


def order_arrow(sort: str, reverse: bool) -> str:
    """▲ if the list begins with the smallest figure or with A, ▼ if it begins with the largest or with Z."""
    return "▲" if reverse != (sort in TEXT_SORT_KEYS) else "▼"


def order_words(sort: str, reverse: bool) -> str:
    """The order of the list in words."""
    if sort in TEXT_SORT_KEYS:
        return "Z to A" if reverse else "A to Z"
    return "smallest first" if reverse else "largest first"


def sort_values(rates: Sequence[ProcessRates], sort: str) -> list[float]:
    """The figures by which processes are sorted: those of the column ``sort``, or the bytes of all I/O if ``sort`` is
    not a column of figures. An unknown figure is 0.
    """
    if figure := _FIGURES.get(sort):
        return [value or 0.0 for value in map(figure, rates)]
    return [(one.read_bytes_per_s or 0.0) + (one.write_bytes_per_s or 0.0) for one in rates]


def sort_value(rates: ProcessRates, sort: str) -> float:
    """The figure by which one process or group is sorted; -1 when unknown, so that it sorts below 0."""
    value = _FIGURES.get(sort, io_rate)(rates)
    return -1.0 if value is None else value
