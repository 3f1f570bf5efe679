"""How the awaits of a device spread over the last minute: a row of bounds, shares of reads and writes, bars."""

from __future__ import annotations

from iotop_ai.model.block import BlockKey
from iotop_ai.model.frame import Frame
from iotop_ai.present.columns import rule
from iotop_ai.present.device_figures import BOUNDS_MS, FEW_BOUNDS_MS, Spread, spread
from iotop_ai.present.line import Cell, Line, Span, place
from iotop_ai.present.units import percent, token_of

_LABEL, _PART = 9, 5
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def spread_rows(frame: Frame, key: BlockKey, width: int, bars: int) -> list[Line]:
    """A rule, ``bars`` rows of bars, the bounds, a row each for reads and writes; [] while nothing was done."""
    bounds = BOUNDS_MS if width >= _LABEL + _PART * (len(BOUNDS_MS) + 1) else FEW_BOUNDS_MS
    if width < _LABEL + _PART * (len(bounds) + 1):
        return []
    found = spread(frame.history, key, bounds)
    reads, writes = sum(found.reads), sum(found.writes)
    if not reads and not writes:
        return []
    # The kernel adds up, it times no single request; the mean of its interval stands for each.
    told = f"{reads:,.0f} reads, {writes:,.0f} writes, each by its interval's mean"
    if len(told) > width - 40:
        told = f"{reads:,.0f} reads, {writes:,.0f} writes"
    out = [rule(width, f"awaits of {found.seconds:.0f} s", [Span(told, "dim")])]
    part = min(2 * _PART, (width - _LABEL - 1) // (len(bounds) + 1))
    out += _bars(width, found, part, bars)
    names = [_ms(bound) for bound in bounds] + ["more"]
    out.append(_line(width, "below ms", names, part, "dim"))
    for label, counts, whole in (("reads %", found.reads, reads), ("writes %", found.writes, writes)):
        if whole:
            out.append(_line(width, label, [percent(n / whole) for n in counts], part))
    return out


def _ms(bound: float) -> str:
    return f"{bound / 1000:g}k" if bound >= 1000 else f"{bound:g}"


def _line(width: int, label: str, texts: list[str], part: int, token: str = "") -> Line:
    cells = [
        Cell(_LABEL + part * (i + 1) - 1, text, token or token_of(text), right=True) for i, text in enumerate(texts)
    ]
    return place(width, Cell(1, label, "dim"), *cells)


def _bars(width: int, found: Spread, part: int, rows: int) -> list[Line]:
    """A bar a part, of all requests; the fullest part has all rows."""
    both = [r + w for r, w in zip(found.reads, found.writes, strict=True)]
    most = max(both)
    high = [0 if not n else max(1, round(n / most * rows * 8)) for n in both]
    out = []
    wide = max(2, part - 2)
    for base in range((rows - 1) * 8, -1, -8):
        cells = [
            Cell(_LABEL + part * (i + 1) - 1, _EIGHTHS[min(8, n - base)] * wide, "graph", right=True)
            for i, n in enumerate(high)
            if n > base
        ]
        out.append(place(width, *cells))
    return out
