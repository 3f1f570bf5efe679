"""Tall graphs as a continuous line in braille, because a filled area would outweigh the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10

from iotop_ai.present.text.braille import GAP

TALL_ROWS = 4
"""A graph with at least this many rows is drawn as a line, not as an area."""
_LEFT = (0x40, 0x04, 0x02, 0x01)
_RIGHT = (0x80, 0x20, 0x10, 0x08)
"""The bits of the dots in the left and the right half of a braille character, from the bottom up."""

Level = Callable[[float], int]
"""Returns the height of a value above 0 in dots, from 1 to ``4 * rows``."""


def linear(top: float, rows: int) -> Level:
    """A linear scale from 0 to ``top``."""
    high = 4 * rows
    return lambda value: max(1, min(high, round(value / top * high)))


def logarithmic(low: float, top: float, rows: int) -> Level:
    """A logarithmic scale from ``low`` to ``top``."""
    high = 4 * rows
    decades = log10(top / low)
    return lambda value: max(1, min(high, 1 + round(log10(max(value, low) / low) / decades * (high - 1))))


def curve(values: Sequence[float | None], rows: int, level: Level) -> list[list[int]]:
    """The rows of dots from top to bottom; each number holds the dots of one cell, which shows two values. A value that
    is 0 or unknown has no dot.
    """
    out = [[0] * (len(values) // 2) for _ in range(rows)]
    previous: int | None = None
    for i, value in enumerate(values):
        if value is None or value <= 0:
            previous = None
            continue
        height = level(value)
        low, high = height, height
        if previous is not None:
            # The column of dots reaches the dot of the previous value, so that the line has no holes.
            low, high = min(height, previous + 1), max(height, previous - 1)
        sides = _RIGHT if i % 2 else _LEFT
        for dot in range(low - 1, high):
            out[rows - 1 - dot // 4][i // 2] |= sides[dot % 4]
        previous = height
    return out


def level_dots(cells: int, rows: int, height: int) -> list[list[int]]:
    """A horizontal line at this height, with one dot in each cell, in the form that ``curve`` returns."""
    out = [[0] * cells for _ in range(rows)]
    out[rows - 1 - (height - 1) // 4] = [_LEFT[(height - 1) % 4]] * cells
    return out


def curve_text(values: Sequence[float | None], top: float, rows: int) -> list[str]:
    """The values as a line: rows of braille from top to bottom, as from ``area``. A cell whose two values are unknown
    shows GAP in the bottom row.
    """
    dots = curve(values, rows, linear(top, rows))
    out = ["".join([chr(0x2800 + bits) if bits else " " for bits in line]) for line in dots[:-1]]
    pairs = zip(dots[-1], values[::2], values[1::2], strict=True)
    return [*out, "".join([chr(0x2800 + d) if d else GAP if a is None and b is None else " " for d, a, b in pairs])]
