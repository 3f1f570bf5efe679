"""The largest screen that is painted: memory and time grow with its cells, and a remote client sets its size."""

from __future__ import annotations

MOST_COLUMNS = 1000
MOST_ROWS = 400
"""More than a display of 7680 by 4320 pixels has, at 8 by 11 pixels per cell."""


def bounded(columns: int, rows: int) -> tuple[int, int]:
    """The size, limited to what can be painted."""
    return max(1, min(columns, MOST_COLUMNS)), max(1, min(rows, MOST_ROWS))
