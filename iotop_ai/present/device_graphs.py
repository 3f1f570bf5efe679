"""The graphs of one device over time: awaits and rates by read and write, queue and busy time."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.model.block import BlockKey, BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.present.block import await_text
from iotop_ai.present.graph import Series, nice_top, series
from iotop_ai.present.graphs import Graph, axis, graph_lines, room
from iotop_ai.present.line import Line
from iotop_ai.present.units import GIB, MIB, UNDEFINED, brief, percent
from iotop_ai.present.view import View

Value = Callable[[BlockRates], float | None]


def device_graphs(frame: Frame, view: View, key: BlockKey, slots: int, hot_ms: float | None = None) -> list[Graph]:
    """In a fixed order; reads and writes have one scale. hot_ms: read await from which it is drawn as hot."""
    samples = (*view.past, *frame.history)

    def of(value: Value) -> Series:
        def one(sample: Sample) -> float | None:
            rates = (sample.block.value or {}).get(key)
            return None if rates is None else value(rates)

        return series(samples, one, slots, frame.snapshot.interval_s)

    now = (frame.sample.block.value or {}).get(key)
    waits = {kind: of(_await_of(kind)) for kind in ("read", "write")}
    wait_top = nice_top(max((s.peak or 0.0 for s in waits.values()), default=0.0))
    moved = {kind: of(_field(f"{kind}_bytes_per_s")) for kind in ("read", "write")}
    most = max((s.peak or 0.0 for s in moved.values()), default=0.0)
    unit, scale = ("GB/s", GIB) if most >= 999.5 * MIB else ("MB/s", MIB)
    rate_top = nice_top(most / scale) * scale
    queue, busy = of(_field("queue_size")), of(_field("busy_ratio"))

    def waited(kind: str) -> Graph:
        idle = now is not None and getattr(now, f"{kind}s_per_s") == 0

        def text(v: float | None) -> str:
            if v == 0 and now is not None:
                return UNDEFINED if idle else await_text(v, getattr(now, f"{kind}s_per_s"))
            return brief(v)

        return Graph(f"{kind[0]}_await", "ms", waits[kind], 1.0, wait_top, text, hot_ms if kind == "read" else None)

    def moves(kind: str) -> Graph:
        return Graph(kind, unit, moved[kind], scale, rate_top, lambda v: brief(None if v is None else v / scale))

    return [
        waited("read"),
        waited("write"),
        moves("read"),
        moves("write"),
        Graph("aqu-sz", "", queue, 1.0, nice_top(queue.peak), brief),
        Graph("%util", "%", busy, 0.01, 1.0, percent),
    ]


def _field(name: str) -> Value:
    def value(rates: BlockRates) -> float | None:
        found: float | None = getattr(rates, name)
        return found

    return value


def _await_of(kind: str) -> Value:
    def value(rates: BlockRates) -> float | None:
        found: float | None = getattr(rates, f"{kind}_await_ms")
        # Nothing was done: undefined, drawn as nothing, unlike what is not known.
        return 0.0 if found is None and getattr(rates, f"{kind}s_per_s") == 0 else found

    return value


def device_graph_rows(
    frame: Frame, view: View, key: BlockKey, width: int, height: int, hot_ms: float | None = None
) -> list[Line]:
    """The axis, then as many graphs as have room, each of two rows where all have."""
    where = room(width)
    if where.cells < 10 or height < 2:
        return []
    found = device_graphs(frame, view, key, 2 * where.cells, hot_ms)
    rows = 2 if 1 + 2 * len(found) <= height else 1
    out = [axis(frame, view._replace(focus=""), width, where)]
    for graph in found:
        out += graph_lines(graph, width, where, rows)
    return out[:height]
