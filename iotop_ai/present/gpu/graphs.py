"""The graphs of one GPU over time."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuRates
from iotop_ai.model.sample import Sample
from iotop_ai.present.screen.graphs import Graph, axis_and_graphs
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import nice_top, series
from iotop_ai.present.text.line import Line
from iotop_ai.present.text.units import GIB, brief, percent, rate_bytes

Value = Callable[[GpuRates], float | None]
_FIRST = ("busy", "SM", "power", "temp", "throttle")
_HOT_SHARE, _NEAR_LIMIT = 0.01, 0.97
TALLEST = 6
"""Rows of a graph."""


def gpu_graphs(frame: Frame, view: View, uuid: str, slots: int) -> list[Graph]:
    """A graph for each figure known at least once in the time shown, in a fixed order."""
    samples = (*view.past, *frame.history)
    interval_s = frame.snapshot.interval_s

    def graph(
        label: str,
        unit: str,
        value: Value,
        *,
        scale: float = 0.01,
        top: float | None = 1.0,
        text: Callable[[float | None], str] = percent,
        limit: float | None = None,
    ) -> Graph:
        def of_sample(sample: Sample) -> float | None:
            rates = (sample.gpu.value or {}).get(uuid)
            return None if rates is None else value(rates)

        data = series(samples, of_sample, slots, interval_s)
        # The scale has at least 1 unit, so that a tiny value does not fill the graph.
        free_top = max(1.0, nice_top((data.peak or 0.0) / scale)) * scale
        return Graph(label, unit, data, scale, top or free_top, text, limit)

    def scaled(scale: float) -> Callable[[float | None], str]:
        return lambda v: brief(None if v is None else v / scale)

    now, mega = (frame.sample.gpu.value or {}).get(uuid), rate_bytes(2)
    watts = None if now is None else now.power_limit_watts
    total = None if now is None else now.memory_total_bytes
    graphs = [
        graph("busy", "%", lambda r: r.busy_ratio),
        graph("SM", "%", lambda r: r.sm_ratio),
        graph("memory", "GB", lambda r: r.memory_used_bytes, scale=GIB, top=total, text=scaled(GIB)),
        graph(
            "power",
            "W",
            lambda r: r.power_watts,
            scale=1.0,
            top=watts,
            text=scaled(1.0),
            limit=None if watts is None else _NEAR_LIMIT * watts,
        ),
        graph("temp", "C", lambda r: r.temperature_celsius, scale=1.0, top=100.0, text=scaled(1.0)),
        graph("PCIe in", "MB/s", lambda r: r.pcie_rx_bytes_per_s, scale=mega, top=None, text=scaled(mega)),
        graph("tensor", "%", lambda r: r.tensor_ratio),
        graph("PCIe out", "MB/s", lambda r: r.pcie_tx_bytes_per_s, scale=mega, top=None, text=scaled(mega)),
        graph("capped", "%", lambda r: r.power_cap_ratio),
        graph("throttle", "%", throttle_ratio, limit=_HOT_SHARE),
    ]
    drawable = [one for one in graphs if one.data.peak is not None]
    # Where not all fit, the last ones are left out: graphs of limits come first, graphs that are always 0 last.
    return sorted(drawable, key=lambda one: 2 if not one.data.peak else 0 if one.label in _FIRST else 1)


def throttle_ratio(rates: GpuRates) -> float | None:
    """Share of time at a lowered clock because of heat or a power brake; None without a counter."""
    ratios = (rates.sw_thermal_ratio, rates.hw_thermal_ratio, rates.power_brake_ratio)
    known = [ratio for ratio in ratios if ratio is not None]
    return max(known) if known else None


def gpu_graph_rows(frame: Frame, view: View, uuid: str, width: int, height: int) -> list[Line]:
    """The axis, then as many graphs as fit."""
    return axis_and_graphs(frame, view, width, height, lambda slots: gpu_graphs(frame, view, uuid, slots), TALLEST)
