"""The figure by which the process list is sorted."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from iotop_ai.model.process.records import ProcessRates


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


def figure_of(sort: str) -> Callable[[ProcessRates], float | None]:
    """The function that reads a column's figure, or the bytes of all I/O for another column."""
    return _FIGURES.get(sort, io_rate)


def sort_value(rates: ProcessRates, sort: str) -> float:
    """The figure of ``figure_of``. An unknown figure sorts below 0."""
    value = figure_of(sort)(rates)
    return -1.0 if value is None else value
