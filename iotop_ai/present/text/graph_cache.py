"""Cached graphs: when a graph shifts by one value, only the cells at its two ends are drawn again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.text.braille import area
from iotop_ai.present.text.curve import curve_text

Values: TypeAlias = "tuple[float | None, ...]"
Draw: TypeAlias = "Callable[[Sequence[float | None], float, int], list[str]]"
"""A function that draws rows from the values, the top of the scale and the number of rows: ``area`` or
``curve_text``.
"""


class _Picture(NamedTuple):
    """The latest rows drawn for one graph.

    rest: the values without the first. earlier: the rows drawn before these; () if there are none. A cell shows two
    values, so the next rows are the earlier rows, shifted by one cell.
    """

    values: Values
    rest: Values
    rows: tuple[str, ...]
    earlier: tuple[str, ...]


class GraphCache:
    """The latest rows of each graph, by drawing function, top of the scale, number of rows and number of values."""

    def __init__(self) -> None:
        self.newest: dict[tuple[Draw, float, int, int], list[_Picture]] = {}

    def area(self, values: Sequence[float | None], top: float, rows: int = 1) -> list[str]:
        """Like the function ``area``, but cached."""
        return self._rows(area, tuple(values), top, rows)

    def curve(self, values: Sequence[float | None], top: float, rows: int) -> list[str]:
        """Like the function ``curve_text``, but cached."""
        return self._rows(curve_text, tuple(values), top, rows)

    def _rows(self, draw: Draw, values: Values, top: float, rows: int) -> list[str]:
        if len(self.newest) > _MOST_SCALES:
            self.newest.clear()
        pictures = self.newest.setdefault((draw, top, rows, len(values)), [])
        index, previous = -1, None
        older = values[:-1]
        for i, picture in enumerate(pictures):
            if picture.values == values:
                return list(picture.rows)
            if picture.rest == older:
                index, previous = i, picture
                break
        if previous is not None and previous.earlier and len(values) >= 4:
            # In a curve, the last cell joins its left neighbour, and the first cell does not join anything.
            firsts, lasts = draw(values[:2], top, rows), draw(values[-4:], top, rows)
            parts = zip(firsts, previous.earlier, lasts, strict=True)
            out = [first + text[2:] + last[-1] for first, text, last in parts]
        else:
            out = draw(values, top, rows)
        newest = _Picture(values, values[1:], tuple(out), previous.rows if previous is not None else ())
        if index >= 0:
            pictures[index] = newest
        else:
            pictures[:0] = [newest]
            del pictures[_MOST_PICTURES:]
        return out


_MOST_SCALES, _MOST_PICTURES = 16, 20
"""_MOST_SCALES: the cache is cleared when it holds more keys than this. _MOST_PICTURES: the maximum number of graphs
kept for each key.
"""
