"""The largest screen that is painted. It is limited because memory and time grow with the number of cells, and a remote
client sets the size.
"""

from __future__ import annotations

MOST_COLUMNS = 1000
MOST_ROWS = 400
"""A display of 7680 by 4320 pixels has fewer cells, at 8 by 11 pixels per cell."""


def clamp_size(columns: int, rows: int) -> tuple[int, int]:
    """The size (columns, rows), limited to what is painted, and at least 1 by 1."""
    return max(1, min(columns, MOST_COLUMNS)), max(1, min(rows, MOST_ROWS))
