"""The graphs of one GPU over time, and how long it was held back."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu import GpuRates
from iotop_ai.model.sample import Sample
from iotop_ai.present.graph import series
from iotop_ai.present.graphs import Graph, axis, graph_lines, room
from iotop_ai.present.line import Line
from iotop_ai.present.units import GIB, MIB, brief, percent
from iotop_ai.present.view import View

Value = Callable[[GpuRates], float | None]
_FIRST = ("busy", "SM", "power", "temp", "throttle")
_HOT_SHARE, _NEAR_LIMIT = 0.01, 0.97


def gpu_graphs(frame: Frame, view: View, uuid: str, slots: int) -> list[Graph]:
    """What this GPU has told at least once in the time shown, in a fixed order."""
    samples = (*view.past, *frame.history)
    interval_s = frame.snapshot.interval_s

    def drawn(
        label: str,
        unit: str,
        value: Value,
        *,
        scale: float = 0.01,
        top: float | None = 1.0,
        text: Callable[[float | None], str] = percent,
        limit: float | None = None,
    ) -> Graph:
        def of(sample: Sample) -> float | None:
            rates = (sample.gpu.value or {}).get(uuid)
            return None if rates is None else value(rates)

        data = series(samples, of, slots, interval_s)
        return Graph(label, unit, data, scale, top or _top(data.peak), text, limit)

    def scaled(scale: float) -> Callable[[float | None], str]:
        return lambda v: brief(None if v is None else v / scale)

    now = (frame.sample.gpu.value or {}).get(uuid)
    watts = None if now is None else now.power_limit_watts
    total = None if now is None else now.memory_total_bytes
    out = [
        drawn("busy", "%", lambda r: r.busy_ratio),
        drawn("SM", "%", lambda r: r.sm_ratio),
        drawn("memory", "GB", lambda r: r.memory_used_bytes, scale=GIB, top=total, text=scaled(GIB)),
        drawn(
            "power",
            "W",
            lambda r: r.power_watts,
            scale=1.0,
            top=watts,
            text=scaled(1.0),
            limit=None if watts is None else _NEAR_LIMIT * watts,
        ),
        drawn("temp", "C", lambda r: r.temperature_celsius, scale=1.0, top=100.0, text=scaled(1.0)),
        drawn("PCIe in", "MB/s", lambda r: r.pcie_rx_bytes_per_s, scale=MIB, top=None, text=scaled(MIB)),
        drawn("tensor", "%", lambda r: r.tensor_ratio),
        drawn("PCIe out", "MB/s", lambda r: r.pcie_tx_bytes_per_s, scale=MIB, top=None, text=scaled(MIB)),
        drawn("capped", "%", lambda r: r.power_cap_ratio),
        drawn("throttle", "%", throttled, limit=_HOT_SHARE),
    ]
    known = [graph for graph in out if graph.data.peak is not None]
    # Where not all fit the last go: what held it back stands before the rest, what never did behind it.
    return sorted(known, key=lambda g: 2 if not g.data.peak else 0 if g.label in _FIRST else 1)


def throttled(rates: GpuRates) -> float | None:
    """Share of time at a lowered clock for heat or a power brake; None when no counter tells."""
    known = [
        share
        for share in (rates.sw_thermal_ratio, rates.hw_thermal_ratio, rates.power_brake_ratio)
        if share is not None
    ]
    return max(known) if known else None


def gpu_graph_rows(frame: Frame, view: View, uuid: str, width: int, height: int) -> list[Line]:
    """The axis, then as many graphs as have room, each of two rows where all have."""
    where = room(width)
    if where.cells < 10 or height < 2:
        return []
    found = gpu_graphs(frame, view, uuid, 2 * where.cells)
    rows = 2 if 1 + 2 * len(found) <= height else 1
    out = [axis(frame, view._replace(focus=""), width, where)]
    for graph in found:
        out += graph_lines(graph, width, where, rows)
    return out[:height]


def _top(peak: float | None) -> float:
    """A scale in steps of 1, 2, 5 from 1 MB/s on."""
    top = float(MIB)
    for step in (2.0, 2.5, 2.0) * 8:
        if top >= (peak or 0.0):
            break
        top *= step
    return top
