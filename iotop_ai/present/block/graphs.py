"""The graphs of one disk over time: awaits and rates of reads and writes, queue and busy time."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockKey, BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.present.block.await_chart import LEAST_CHART_ROWS, chart_rows
from iotop_ai.present.block.table import await_text
from iotop_ai.present.screen.graphs import LEAST_GRAPH_CELLS, Graph, axis, graph_lines, room
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import Series, nice_top, series
from iotop_ai.present.text.line import Line
from iotop_ai.present.text.units import UNDEFINED, brief, percent, rate_unit

_HEIGHT_FOR_TWO_ROWS = 1 + 8 + 2 * 4
"""With at least this many rows (the axis, a chart of eight rows, four graphs of two), the graphs below the chart have
two rows each.
"""

FigureOf = Callable[[BlockRates], float | None]
"""A function that takes one figure from the rates of a disk; it returns None when the figure is unknown."""


def device_graphs(frame: Frame, view: View, key: BlockKey, slots: int, hot_ms: float | None = None) -> list[Graph]:
    """The graphs in a fixed order. Reads and writes share a scale.

    slots: the number of intervals in a graph. hot_ms: the read await above which its graph is drawn in the colour
    "hot"; None for no limit.
    """
    samples = (*view.past, *frame.history)

    def series_of(figure_of: FigureOf) -> Series:
        def of_sample(sample: Sample) -> float | None:
            rates = (sample.block.value or {}).get(key)
            return None if rates is None else figure_of(rates)

        return series(samples, of_sample, slots, frame.snapshot.interval_s)

    now = (frame.sample.block.value or {}).get(key)
    awaits = {direction: series_of(_await_of(direction)) for direction in ("read", "write")}
    await_top = nice_top(max((s.peak or 0.0 for s in awaits.values()), default=0.0))
    rates = {direction: series_of(_field(f"{direction}_bytes_per_s")) for direction in ("read", "write")}
    highest_rate = max((s.peak or 0.0 for s in rates.values()), default=0.0)
    unit, scale = rate_unit(highest_rate)
    rate_top = nice_top(highest_rate / scale) * scale
    queue, busy = series_of(_field("queue_size")), series_of(_field("busy_ratio"))

    def await_graph(direction: str) -> Graph:
        idle = now is not None and getattr(now, f"{direction}s_per_s") == 0

        def text(v: float | None) -> str:
            if v == 0 and now is not None:
                return UNDEFINED if idle else await_text(v, getattr(now, f"{direction}s_per_s"))
            return brief(v)

        return Graph(
            f"{direction[0]}_await",
            "ms",
            awaits[direction],
            1.0,
            await_top,
            text,
            hot_ms if direction == "read" else None,
        )

    def rate_graph(direction: str) -> Graph:
        return Graph(
            direction, unit, rates[direction], scale, rate_top, lambda v: brief(None if v is None else v / scale)
        )

    return [
        await_graph("read"),
        await_graph("write"),
        rate_graph("read"),
        rate_graph("write"),
        Graph("aqu-sz", "", queue, 1.0, nice_top(queue.peak), brief),
        Graph("%util", "%", busy, 0.01, 1.0, percent),
    ]


def _field(name: str) -> FigureOf:
    def value(rates: BlockRates) -> float | None:
        number: float | None = getattr(rates, name)
        return number

    return value


def _await_of(direction: str) -> FigureOf:
    def value(rates: BlockRates) -> float | None:
        await_ms: float | None = getattr(rates, f"{direction}_await_ms")
        # Without requests, the await is undefined: it is drawn blank, unlike an unknown await, which is drawn as a gap.
        return 0.0 if await_ms is None and getattr(rates, f"{direction}s_per_s") == 0 else await_ms

    return value


class AwaitLimits(NamedTuple):
    """Levels of the read await in the graphs.

    hot_ms: the await above which the graph is drawn in the colour "hot". typical_ms: the level of the line in the
    chart. Each is None when unknown.
    """

    hot_ms: float | None = None
    typical_ms: float | None = None


def device_graph_rows(
    frame: Frame,
    view: View,
    key: BlockKey,
    width: int,
    height: int,
    limits: AwaitLimits = AwaitLimits(),  # noqa: B008 - a frozen record
    *,
    log: bool = False,
    alone: bool = False,
) -> list[Line]:
    """The time axis and as many graphs as fit; [] without room for one graph. If there is room, the awaits share a tall
    chart; with still more room, the graphs below it have two rows each.

    log: whether the chart's scale is logarithmic. alone: whether the chart takes all rows below the axis, provided that
    it fits.
    """
    where = room(width)
    if where.cells < LEAST_GRAPH_CELLS or height < 2:
        return []
    graphs = device_graphs(frame, view, key, 2 * where.cells, limits.hot_ms)
    others = graphs[2:]
    chart_height = height - 1 if alone else height - 1 - (2 if height >= _HEIGHT_FOR_TWO_ROWS else 1) * len(others)
    out = [axis(frame, view._replace(focus=""), width, where)]
    if chart_height >= LEAST_CHART_ROWS:
        out += chart_rows(graphs[0], graphs[1], width, where, chart_height, limits.typical_ms, log=log)
        graphs = [] if alone else others
    rows = 2 if len(out) + 2 * len(graphs) <= height else 1
    for graph in graphs:
        out += graph_lines(graph, view, width, where, rows)
    return out[:height]
