"""The distribution of a disk's awaits over the last minute: bars, their bounds, and the shares of reads and writes."""

from __future__ import annotations

from iotop_ai.model.block.counters import BlockKey
from iotop_ai.model.frame import Frame
from iotop_ai.present.block.figures import (
    BOUNDS_MS,
    FEW_BOUNDS_MS,
    AwaitHistogram,
    await_histogram,
    await_percentiles,
)
from iotop_ai.present.block.table import await_text
from iotop_ai.present.text.line import Cell, Line, Span, cells, place
from iotop_ai.present.text.table import rule
from iotop_ai.present.text.units import percent, token_of

_LABEL_WIDTH, _LEAST_BIN_WIDTH = 9, 5
"""The width of a row's label in columns, and the minimum width of a bin."""
_RULE_RESERVE = 11
"""The number of columns of a rule that are not available for its title and note."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"
"""The bars of 0 to 8 eighths of a row."""


def await_rows(frame: Frame, key: BlockKey, width: int, bar_rows: int) -> list[Line]:
    """A rule, ``bar_rows`` rows of bars, the bounds, and a row each for reads and writes if there were any; [] if no
    request completed or the screen is too narrow.
    """
    bounds = BOUNDS_MS if width >= _LABEL_WIDTH + _LEAST_BIN_WIDTH * (len(BOUNDS_MS) + 1) else FEW_BOUNDS_MS
    if width < _LABEL_WIDTH + _LEAST_BIN_WIDTH * (len(bounds) + 1):
        return []
    histogram = await_histogram(frame.history, key, bounds)
    reads, writes = sum(histogram.reads), sum(histogram.writes)
    if not reads and not writes:
        return []
    title = f"latency, last {histogram.seconds:.0f} s"
    out = [rule(width, title, _note(frame, key, histogram, width - cells(title) - _RULE_RESERVE))]
    bin_width = min(2 * _LEAST_BIN_WIDTH, (width - _LABEL_WIDTH - 1) // (len(bounds) + 1))
    out += _bars(width, histogram, bin_width, bar_rows)
    labels = [_ms(bound) for bound in bounds] + ["more"]
    out.append(_line(width, "below ms", labels, bin_width, "dim"))
    for label, counts, total in (("reads %", histogram.reads, reads), ("writes %", histogram.writes, writes)):
        if total:
            out.append(_line(width, label, [percent(n / total) for n in counts], bin_width))
    return out


def _note(frame: Frame, key: BlockKey, histogram: AwaitHistogram, room: int) -> list[Span]:
    """The await percentiles of reads and writes, with the numbers of requests if there is room; with little room, only
    the percentiles of the reads (of the writes if nothing was read); an empty text if nothing fits.

    They are percentiles of the mean awaits of intervals, because the kernel counts only the total time of all requests,
    not the time of each.
    """
    parts = []
    for direction, bins in (("read", histogram.reads), ("write", histogram.writes)):
        percentiles = await_percentiles(frame.history, key, direction)
        if percentiles is not None:
            requests = sum(bins)
            figures = "/".join(await_text(ms, requests / histogram.seconds) for ms in percentiles)
            parts.append((direction, requests, figures))
    title = "p50/p90/p99 of interval means"
    long_texts = [f"{requests:,.0f} {direction}s {figures}" for direction, requests, figures in parts]
    short_texts = [f"{direction[0]} {figures}" for direction, _, figures in parts]
    texts = (
        f"{title}: {', '.join(long_texts)} ms",
        f"{title}: {', '.join(short_texts)}",
        f"{title}: {short_texts[0]}",
        f"p50/90/99: {short_texts[0]}",
    )
    return [Span(next((text for text in texts if cells(text) <= room), ""), "dim")]


def _ms(bound: float) -> str:
    return f"{bound / 1000:g}k" if bound >= 1000 else f"{bound:g}"


def _line(width: int, label: str, texts: list[str], bin_width: int, token: str = "") -> Line:
    spots = [
        Cell(_LABEL_WIDTH + bin_width * (i + 1) - 1, text, token or token_of(text), right=True)
        for i, text in enumerate(texts)
    ]
    return place(width, Cell(1, label, "dim"), *spots)


def _bars(width: int, histogram: AwaitHistogram, bin_width: int, rows: int) -> list[Line]:
    """A bar for each bin, of reads and writes together; the fullest bin fills all rows."""
    totals = [r + w for r, w in zip(histogram.reads, histogram.writes, strict=True)]
    fullest = max(totals)
    heights = [0 if not n else max(1, round(n / fullest * rows * 8)) for n in totals]
    out = []
    bar_width = max(2, bin_width - 2)
    for base in range((rows - 1) * 8, -1, -8):
        spots = [
            Cell(
                _LABEL_WIDTH + bin_width * (i + 1) - 1, _EIGHTHS[min(8, height - base)] * bar_width, "graph", right=True
            )
            for i, height in enumerate(heights)
            if height > base
        ]
        out.append(place(width, *spots))
    return out
