"""A tall chart of one disk's awaits: reads, writes and the typical await, on a linear or a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.screen.graphs import Graph, Room
from iotop_ai.present.text.braille import GAP, nice_top, token_runs
from iotop_ai.present.text.curve import Level, curve, level_dots, linear, logarithmic
from iotop_ai.present.text.line import Line, Span, cells, row
from iotop_ai.present.text.units import brief, figure, token_of

LEAST_CHART_ROWS = 6
"""The minimum number of rows of a chart."""
_LOWEST_MS = 0.1
"""The lowest value on the logarithmic scale."""
_FAR_RATIO = 10.0
"""A typical await above this multiple of the peak has a figure but no line, because a scale that includes it would
flatten the curves.
"""
_NEAR_HALF = 0.02
"""The middle row is labelled with half of the scale's top if the row's highest value is within this fraction of that
half, and if one decimal shows the half exactly.
"""


class _Scale(NamedTuple):
    """The scale of the chart. level: the function that converts a value to a height in dots. labels: the labels on the
    left, by row from the top.
    """

    level: Level
    labels: dict[int, str]


def chart_rows(
    reads: Graph, writes: Graph, width: int, where: Room, rows: int, typical_ms: float | None, *, log: bool
) -> list[Line]:
    """The chart in ``rows`` rows.

    reads, writes: the await graphs of the disk's screen; only the graph of reads may have a limit. where: the columns
    of the chart. typical_ms: the typical await; None when unknown. log: whether the scale is logarithmic.
    """
    peak = max((graph.data.peak for graph in (reads, writes) if graph.data.peak is not None), default=None)
    highest_ms = peak or 0.0
    has_line = typical_ms is not None and 0 < typical_ms <= _FAR_RATIO * highest_ms
    if has_line and typical_ms is not None:
        highest_ms = max(highest_ms, typical_ms)
    scale = _log_scale(highest_ms, rows) if log else _linear_scale(highest_ms, rows)
    dots = [curve(graph.data.values, rows, scale.level) for graph in (reads, writes)]
    height = scale.level(typical_ms) if has_line and typical_ms is not None else 0
    typical = level_dots(where.cells, rows, height) if height else [[0] * where.cells] * rows
    tokens = [token for length, token in token_runs(reads.data, reads.limit) for _ in range(length)]
    legend = _legend(reads, writes, peak, typical_ms, rows, height, width - where.start - where.cells)
    out = []
    for y in range(rows):
        name = (" await ms", " log" if log else "")[y] if y < 2 else ""
        label = name + scale.labels.get(y, "").rjust(where.start - 2 - cells(name)) + "  "
        bottom_values = reads.data.values if y == rows - 1 else None
        body = _cells(dots[0][y], dots[1][y], typical[y], tokens, bottom_values)
        spans = legend.get(y, [])
        out.append(row(width, [Span(label, "dim"), *body], [*spans, Span(" ")] if spans else []))
    return out


def _linear_scale(highest_ms: float, rows: int) -> _Scale:
    top = nice_top(highest_ms)
    values = {0: top, rows - 1: 0.0}
    half, middle = top / 2, rows // 2
    value = top * (rows - middle) / rows  # the highest value that the row shows
    if abs(value - half) <= _NEAR_HALF * half and round(half, 1) == half:
        values[middle] = half
    labels = {y: figure(value).removesuffix(".0") for y, value in values.items()}
    return _Scale(linear(top, rows), labels)


def _log_scale(highest_ms: float, rows: int) -> _Scale:
    # The top is a power of ten: at least the highest value, and at least 1 ms. 1e-9 allows for rounding errors.
    top = 10.0 ** max(0, ceil(log10(max(highest_ms, _LOWEST_MS)) - 1e-9))
    level = logarithmic(_LOWEST_MS, top, rows)
    labels = {}
    for power in range(floor(log10(_LOWEST_MS)), round(log10(top)) + 1):
        labels[rows - 1 - (level(10.0**power) - 1) // 4] = figure(10.0**power).removesuffix(".0")
    return _Scale(level, labels)


def _cells(
    reads: Sequence[int],
    writes: Sequence[int],
    typical: Sequence[int],
    tokens: Sequence[str],
    values: Sequence[float | None] | None,
) -> list[Span]:
    """One row of the chart. A cell with both reads and writes has the token of the reads.

    reads, writes, typical: the Braille dots of each cell, for the two curves and the line of the typical await. tokens:
    the token of the reads in each cell. values: the values of the reads if this is the bottom row, in which gaps are
    drawn; otherwise None.
    """
    out: list[Span] = []
    for x, (read, write, typical_dots) in enumerate(zip(reads, writes, typical, strict=True)):
        if values is not None and values[2 * x] is None and values[2 * x + 1] is None and not write:
            char, token = GAP, tokens[x]
        elif read or write:
            char, token = chr(0x2800 + (read | write)), tokens[x] if read else "dim"
        else:
            char, token = (chr(0x2800 + typical_dots), "faint") if typical_dots else (" ", "faint")
        if out and out[-1].token == token:
            out[-1] = Span(out[-1].text + char, token)
        else:
            out.append(Span(char, token))
    return out


def _legend(
    reads: Graph, writes: Graph, peak: float | None, typical_ms: float | None, rows: int, height: int, room: int
) -> dict[int, list[Span]]:
    """The figures on the right, by row: the peak, the current await of reads and of writes, the typical await.

    The typical await is in the row of its line, or in the first row below the other figures if they reach that far;
    without a line, it is in the last row.

    height: the height of the line in dots; 0 for no line. room: the number of columns right of the chart.
    """
    latest = [graph.data.values[-1] if graph.data.values else None for graph in (reads, writes)]
    texts = [graph.text(value) for graph, value in zip((reads, writes), latest, strict=True)]
    hot = reads.limit is not None and latest[0] is not None and latest[0] > reads.limit
    out = {
        0: [Span("peak ", "dim"), Span(brief(peak), token_of(brief(peak), "text"))],
        1: [Span("r ", "dim"), Span(texts[0], "bad" if hot else token_of(texts[0], "strong"))],
        2: [Span("w ", "dim"), Span(texts[1], token_of(texts[1]))],
    }
    if typical_ms is not None:
        word = "typical ≤ " if room >= 15 else "typ ≤"
        typical_row = rows - 1 - (height - 1) // 4 if height else rows - 1
        out[max(3, typical_row)] = [Span(word, "dim"), Span(brief(typical_ms), "dim")]
    return out
