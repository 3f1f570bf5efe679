"""Cached graphs: when they move on by one value, only the cells at both ends are drawn again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.text.braille import area
from iotop_ai.present.text.curve import curve_text

Values: TypeAlias = "tuple[float | None, ...]"
Draw: TypeAlias = "Callable[[Sequence[float | None], float, int], list[str]]"
"""``area`` or ``curve_text``: the rows of a graph by its values, the top of its scale and the number of rows."""


class _Picture(NamedTuple):
    """The newest rows of one graph. rest: the values without the first.

    earlier: the rows of the picture before, () without any. A cell holds two values, so the next rows are these earlier
    ones shifted by one cell.
    """

    values: Values
    rest: Values
    rows: tuple[str, ...]
    earlier: tuple[str, ...]


class GraphCache:
    """The newest pictures by kind, top of the scale, rows and number of values."""

    def __init__(self) -> None:
        self.newest: dict[tuple[Draw, float, int, int], list[_Picture]] = {}

    def area(self, values: Sequence[float | None], top: float, rows: int = 1) -> list[str]:
        """Like the function ``area``, cached."""
        return self._rows(area, tuple(values), top, rows)

    def curve(self, values: Sequence[float | None], top: float, rows: int) -> list[str]:
        """Like the function ``curve_text``, cached."""
        return self._rows(curve_text, tuple(values), top, rows)

    def _rows(self, draw: Draw, values: Values, top: float, rows: int) -> list[str]:
        if len(self.newest) > _MOST_SCALES:
            self.newest.clear()
        pictures = self.newest.setdefault((draw, top, rows, len(values)), [])
        at, before = -1, None
        older = values[:-1]
        for i, known in enumerate(pictures):
            if known.values == values:
                return list(known.rows)
            if known.rest == older:
                at, before = i, known
                break
        if before is not None and before.earlier and len(values) >= 4:
            # In a curve the last cell joins the one before it, and the first cell has no join.
            firsts, lasts = draw(values[:2], top, rows), draw(values[-4:], top, rows)
            parts = zip(firsts, before.earlier, lasts, strict=True)
            out = [first + text[2:] + last[-1] for first, text, last in parts]
        else:
            out = draw(values, top, rows)
        newest = _Picture(values, values[1:], tuple(out), before.rows if before is not None else ())
        if at >= 0:
            pictures[at] = newest
        else:
            pictures[:0] = [newest]
            del pictures[_MOST_PICTURES:]
        return out


_MOST_SCALES, _MOST_PICTURES = 16, 20
