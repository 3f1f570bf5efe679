"""Text charts with plotext, identical for its versions 5 and 6. No other module imports plotext.

Version 6 replaced the module-level functions of version 5 with a figure object. Both versions keep global state, so
all charts are built by one thread, each from a cleared figure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from iotop_ai.model.errors import UnknownError

Point = tuple[float, float | None]

_SGR = re.compile(r"\x1b\[[0-9;]*m")
_TO_ASCII = str.maketrans("─│┌┐└┘├┤┬┴┼", "-|+++++++++")
_MARKER = "braille"
_ASCII_MARKER = "*"
_LEAST_WIDTH, _LEAST_HEIGHT = 30, 6
_TICK_COUNT = 5


class _Chart(NamedTuple):
    """What a chart shows. size: its columns and rows. top: the end of the value axis. span: the ends of the x axis."""

    title: str
    lines: list[list[tuple[float, float]]]
    size: tuple[int, int]
    top: float
    span: tuple[float, float]
    marker: str
    x_ticks: tuple[list[float], list[str]]


def runs(points: Sequence[Point]) -> list[list[tuple[float, float]]]:
    """Runs of consecutive known values.

    An unknown value leaves a gap; it is neither drawn as 0 nor bridged by a line.
    """
    out: list[list[tuple[float, float]]] = []
    in_run = False
    for x, y in points:
        if y is None:
            in_run = False
            continue
        if not in_run:
            out.append([])
            in_run = True
        out[-1].append((x, y))
    return out


def scale_top(highest: float) -> float:
    """The smallest number of the form 1, 2 or 5 x 10**n that is not below the highest value; 1 if all values are 0."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** len(str(int(highest))) / 10 if highest >= 1 else 1.0
    while highest < power:
        power /= 10
    # For some large powers of ten, rounding leaves even 10 * power below the highest value.
    return next((top for top in (power, 2 * power, 5 * power, 10 * power) if top >= highest), highest)


def chart(
    title: str,
    points: Sequence[Point],
    width: int,
    height: int,
    ascii_only: bool = False,
    labels: Sequence[str] = (),
) -> str:
    """A line chart of (x, value), with a value axis from 0 to a round number.

    The chart has ``width`` columns but at least 30, and ``height`` rows but at least 6. labels: the text for each point
    on the horizontal axis, instead of its x. Raises UnknownError if no value is known, or if plotext cannot be loaded.
    """
    lines = runs(points)
    if not lines:
        raise UnknownError(f"{title}: no known value")
    try:
        import plotext
    except ImportError as error:
        raise UnknownError(f"charts need plotext, which does not load here: {error}") from None
    width, height = max(width, _LEAST_WIDTH), max(height, _LEAST_HEIGHT)
    top = scale_top(max(y for line in lines for _, y in line))
    span = (points[0][0], max(points[-1][0], points[0][0] + 1))
    marker = _ASCII_MARKER if ascii_only else _MARKER
    draw = _draw_5 if hasattr(plotext, "plot") else _draw_6
    ticks = ([x for x, _ in points], list(labels)) if labels else _ticks(*span)
    text = _SGR.sub("", draw(plotext, _Chart(title, lines, (width, height), top, span, marker, ticks)))
    rows = [row.rstrip() for row in text.splitlines()]
    text = "\n".join(rows).strip("\n")
    return text.translate(_TO_ASCII) if ascii_only else text


def _ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    at = [low + (high - low) * i / (_TICK_COUNT - 1) for i in range(_TICK_COUNT)]
    return at, [f"{value:.3g}" if value < 10 else f"{value:.0f}" for value in at]


def _draw_5(plotext: Any, chart: _Chart) -> str:
    plotext.clear_figure()
    plotext.limit_size(False, False)
    plotext.plot_size(*chart.size)
    plotext.theme("clear")
    for line in chart.lines:
        plotext.plot([x for x, _ in line], [y for _, y in line], marker=chart.marker)
    plotext.title(chart.title)
    plotext.ylim(0, chart.top)
    plotext.xlim(*chart.span)
    plotext.yticks(*_ticks(0, chart.top))
    plotext.xticks(*chart.x_ticks)
    return str(plotext.build())


def _draw_6(plotext: Any, chart: _Chart) -> str:
    figure = plotext.figure
    plotext.terminal.limit(False, False)
    figure.clear()
    figure.plot_size(*chart.size)
    figure.theme("colorless")
    for line in chart.lines:
        signal = figure.signal([x for x, _ in line], [y for _, y in line], marker=chart.marker)
        signal.lines()
        figure.draw(signal)
    figure.title(chart.title)
    y_ticks = _ticks(0.0, chart.top)
    for axis, limits, ticks in (("y", (0.0, chart.top), y_ticks), ("x", chart.span, chart.x_ticks)):
        ruler = figure.ruler(axis)
        ruler.lim(*limits)
        ruler.ticks(*ticks)
    return str(figure.build())
