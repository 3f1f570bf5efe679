"""The graphs of one GPU over time."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuRates
from iotop_ai.model.sample import Sample
from iotop_ai.present.screen.graphs import Graph, axis_and_graphs
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import Series, nice_top, series
from iotop_ai.present.text.line import Line
from iotop_ai.present.text.units import GIB, brief, percent, rate_bytes

FigureOf = Callable[[GpuRates], float | None]
"""A function that takes one figure from the rates of a GPU; it returns None when the figure is unknown."""
_FIRST_LABELS = ("busy", "SM", "power", "temp", "throttle")
"""The labels of the figures whose graphs come first."""
_HOT_SHARE, _NEAR_LIMIT = 0.01, 0.97
"""The limits above which a graph is drawn in the colour "hot": _HOT_SHARE of the time throttled, and _NEAR_LIMIT of the
power limit.
"""
_LARGE_RATE = 9999.5
"""From this many MB/s on, rates are drawn in GB/s, because "12k MB/s" is hard to compare with "11 GB/s"."""
MOST_GRAPH_ROWS = 6
"""The maximum number of rows of a graph."""


class GpuFigure(NamedTuple):
    """A figure of a GPU that can be drawn as a graph.

    value: the function that takes the figure from the rates. scale: the size of one ``unit`` in the unit of the values,
    such as 0.01 for a ratio in %. top: the top of the graph's scale; None if the peak decides. limit: the value above
    which the graph is drawn in the colour "hot"; None for no limit.
    """

    label: str
    unit: str
    value: FigureOf
    scale: float = 0.01
    top: float | None = 1.0
    limit: float | None = None

    def graph(self, data: Series) -> Graph:
        """The graph of ``data``, a series of this figure."""
        unit, scale = self.unit, self.scale
        if unit == "MB/s" and (data.peak or 0.0) >= _LARGE_RATE * scale:
            unit, scale = "GB/s", rate_bytes(3)
        # The top is at least one unit (1 MB/s, 1 MHz), so that tiny values do not fill the graph.
        free_top = max(1.0, nice_top((data.peak or 0.0) / scale)) * scale
        text = percent if unit == "%" else _scaled(scale)
        return Graph(self.label, unit, data, scale, self.top or free_top, text, self.limit)


def _scaled(scale: float) -> Callable[[float | None], str]:
    return lambda v: brief(None if v is None else v / scale)


def gpu_figures(now: GpuRates | None) -> list[GpuFigure]:
    """All figures in a fixed order. now: the current rates, whose power limit and memory size set scales."""
    mega = rate_bytes(2)
    watts = None if now is None else now.power_limit_watts
    total = None if now is None else now.memory_total_bytes
    hot_watts = None if watts is None else _NEAR_LIMIT * watts
    return [
        GpuFigure("busy", "%", lambda r: r.busy_ratio),
        GpuFigure("SM", "%", lambda r: r.sm_ratio),
        GpuFigure("memory", "GB", lambda r: r.memory_used_bytes, GIB, total),
        GpuFigure("power", "W", lambda r: r.power_watts, 1.0, watts, hot_watts),
        GpuFigure("temp", "C", lambda r: r.temperature_celsius, 1.0, 100.0),
        GpuFigure("PCIe in", "MB/s", lambda r: r.pcie_rx_bytes_per_s, mega, None),
        GpuFigure("tensor", "%", lambda r: r.tensor_ratio),
        GpuFigure("PCIe out", "MB/s", lambda r: r.pcie_tx_bytes_per_s, mega, None),
        GpuFigure("capped", "%", lambda r: r.power_cap_ratio),
        GpuFigure("throttle", "%", throttle_ratio, limit=_HOT_SHARE),
        GpuFigure("clock", "MHz", lambda r: r.sm_mhz, 1.0, None),
    ]


def gpu_graphs(frame: Frame, view: View, uuid: str, slots: int) -> list[Graph]:
    """A graph for each figure that is known at least once in the time shown, the most important first. slots: the
    number of intervals in a graph.
    """
    samples = (*view.past, *frame.history)

    def graph(figure: GpuFigure) -> Graph:
        def of_sample(sample: Sample) -> float | None:
            rates = (sample.gpu.value or {}).get(uuid)
            return None if rates is None else figure.value(rates)

        return figure.graph(series(samples, of_sample, slots, frame.snapshot.interval_s))

    graphs = [graph(figure) for figure in gpu_figures((frame.sample.gpu.value or {}).get(uuid))]
    drawable = [entry for entry in graphs if entry.data.peak is not None]
    # The last graphs are left out if not all fit, so graphs that are always 0 come last.
    return sorted(drawable, key=lambda entry: 2 if not entry.data.peak else 0 if entry.label in _FIRST_LABELS else 1)


def throttle_ratio(rates: GpuRates) -> float | None:
    """The largest of three shares of time: clocks lowered by software because of heat, by hardware because of heat, or
    by the power brake; None if the GPU counts none of them.
    """
    ratios = (rates.sw_thermal_ratio, rates.hw_thermal_ratio, rates.power_brake_ratio)
    known_ratios = [ratio for ratio in ratios if ratio is not None]
    return max(known_ratios) if known_ratios else None


def gpu_graph_rows(frame: Frame, view: View, uuid: str, width: int, height: int) -> list[Line]:
    """The time axis and as many of the GPU's graphs as fit."""
    return axis_and_graphs(
        frame, view, width, height, lambda slots: gpu_graphs(frame, view, uuid, slots), MOST_GRAPH_ROWS
    )
