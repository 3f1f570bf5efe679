"""Exact per-process rates between two readings."""

from __future__ import annotations

from iotop_ai.model.process import ProcessSample, ProcessTable
from iotop_ai.model.reading import Rated, Reading


def process_rates(
    before: Reading[ProcessTable] | None, after: Reading[ProcessTable], last: Rated[ProcessSample] | None
) -> Rated[ProcessSample]:
    """Rates of the processes that did something."""
    raise NotImplementedError
