"""Series to braille: two samples a cell, newest at the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

from iotop_ai.model.sample import Sample
from iotop_ai.present.line import Span

GAP = "╌"
_LEFT = (0x40, 0x04, 0x02, 0x01)
_RIGHT = (0x80, 0x20, 0x10, 0x08)


class Series(NamedTuple):
    """One value a slot, oldest first. None: unknown. known: slots that lie within the time that was watched."""

    values: tuple[float | None, ...]
    known: int

    @property
    def peak(self) -> float | None:
        """The largest known value; None when none is known."""
        return max((v for v in self.values if v is not None), default=None)


def series(samples: Sequence[Sample], value: Callable[[Sample], float | None], slots: int, interval_s: float) -> Series:
    """The newest ``slots`` intervals of a series, padded with unknown before the first sample.

    A sample whose own interval is within a quarter of ``interval_s`` takes one slot, so that jitter moves nothing; a
    longer one is the mean of as many slots, a shorter one shares a slot of which the largest value is kept. A gap in
    the watching is unknown.
    """
    out: list[float | None] = []
    place = 0.0
    for sample in reversed(samples):
        first = int(place + 1e-9)
        if first >= slots:
            break
        span = 1.0 if sample.seconds is None else sample.seconds / interval_s
        if 0.75 <= span <= 1.25:
            span = 1.0
            if first == len(out):
                out.append(None if sample.gap else value(sample))
                place = first + 1.0
                continue
        last = min(slots - 1, max(first, ceil(place + span - 1e-9) - 1))
        out.extend([None] * (last + 1 - len(out)))
        this = None if sample.gap else value(sample)
        if this is not None:
            for slot in range(first, last + 1):
                held = out[slot]
                out[slot] = this if held is None else max(held, this)
        place += span
    known = len(out)
    return Series((*[None] * (slots - known), *reversed(out)), known)


def nice_top(value: float | None) -> float:
    """The scale's top: the next of 1, 2, 5 times a power of ten; 1 for nothing."""
    if not value or value <= 0:
        return 1.0
    top = 1.0
    while top < value:
        top *= 10
    while top / 10 >= value:
        top /= 10
    for part in (0.2, 0.5):
        if top * part >= value:
            return top * part
    return top


def area(values: Sequence[float | None], top: float, rows: int = 1) -> list[str]:
    """Rows of braille from top to bottom, ``len(values) / 2`` cells wide.

    One row fills 3 of its 4 dot rows, two rows 7 of 8, so that stacked graphs do not merge. 0 is blank, any value
    above 0 has a dot, a cell with both samples unknown is a gap on the bottom row.
    """
    high = 4 * rows - 1
    levels = [None if v is None else 0 if v <= 0 else max(1, min(high, round(v / top * high))) for v in values]
    pairs = list(zip(levels[::2], levels[1::2], strict=True))
    out = []
    for base in range(4 * (rows - 1), -1, -4):
        text = []
        for left, right in pairs:
            if left is None and right is None:
                text.append(GAP if base == 0 else " ")
                continue
            bits = 0
            for k in range(4):
                if left is not None and left > base + k:
                    bits |= _LEFT[k]
                if right is not None and right > base + k:
                    bits |= _RIGHT[k]
            text.append(chr(0x2800 + bits) if bits else " ")
        out.append("".join(text))
    return out


def coloured(cells: str, data: Series, limit: float | None = None) -> list[Span]:
    """One row of ``area`` as spans: ``hot`` past the limit, ``faint`` before anything was watched, ``dim`` gaps."""
    first = len(data.values) - data.known
    runs: list[tuple[str, str]] = []
    for i, char in enumerate(cells):
        pair = [v for v in data.values[2 * i : 2 * i + 2] if v is not None]
        if not pair:
            token = "faint" if 2 * i + 1 < first else "dim"
        else:
            token = "hot" if limit is not None and max(pair) > limit else "graph"
        if runs and runs[-1][1] == token:
            runs[-1] = (runs[-1][0] + char, token)
        else:
            runs.append((char, token))
    return [Span(text, token) for text, token in runs]
