"""The graphs: GPU or CPU, the rate of the selected device and its await, on one time axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockKey, BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.model.verdict_class import State
from iotop_ai.present.block import devices
from iotop_ai.present.block.table import await_text
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import Series, SlidingSeries, nice_top, token_runs, token_spans
from iotop_ai.present.text.curve import TALL_ROWS
from iotop_ai.present.text.frame_cache import cache_part
from iotop_ai.present.text.graph_cache import GraphCache
from iotop_ai.present.text.line import Line, Span, cells, cut
from iotop_ai.present.text.panel import panel
from iotop_ai.present.text.units import UNKNOWN, brief, figure, percent, rate_unit, token_of
from iotop_ai.present.verdict.culprit import Culprit, culprit_of

_HOUR = 3600
_STEPS = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, *(_HOUR * hours for hours in (1, 2, 4, 8, 12, 24, 48, 168)))
"""Seconds between two labels of the axis; whole hours from the first hour on."""

READ, WRITE, BOTH = _WAYS = ("read", "write", "both")
"""The directions of a graph; BOTH is their sum."""


class _PanelSeries:
    """The panel's series from tick to tick."""

    def __init__(self) -> None:
        self.busy = SlidingSeries()
        self.rate = {way: SlidingSeries() for way in _WAYS}
        self.wait = {way: SlidingSeries() for way in _WAYS}


class Graph(NamedTuple):
    """One graph. scale: the size of ``unit`` in the value's unit. top: of the scale; limit: above it, the graph is hot.

    strong: whether its figure is highlighted. hue: the verdict's colour, where the verdict names the graph's subject.
    of: the number of graphs that share the rows of one.
    """

    label: str
    unit: str
    data: Series
    scale: float
    top: float
    text: Callable[[float | None], str]
    limit: float | None = None
    strong: bool = False
    hue: str = ""
    of: int = 1


class Room(NamedTuple):
    """Columns of a graph: its first cell, their number, and the last columns of value, peak and scale."""

    start: int
    cells: int
    value_end: int
    peak_end: int
    top_end: int | None


def room(width: int) -> Room:
    """The columns of a graph's parts at this width."""
    if width >= 120:
        return Room(24, width - 40, 15, width - 2, width - 10)
    return Room(20, width - 30, 13, width - 2, None)


@panel
def graph_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The axis in the section's rule, then one or three graphs, which share the other rows."""
    where = room(width)
    if where.cells < 10:
        return []
    number = _GRAPHS if devices.selected_device(frame, view) is not None else 1
    heights = graph_heights(height - 1, number)
    out = [axis(frame, view, width, where)]
    at, begins_pair = -1, False
    for graph in graphs(frame, view, 2 * where.cells, apart=min(heights) > 1):
        begins_pair = graph.of > 1 and not begins_pair
        at += graph.of == 1 or begins_pair
        # In a pair that shares an odd number of rows, the first graph has one more.
        rows = heights[at] if graph.of == 1 else (heights[at] + begins_pair) // 2
        out += graph_lines(graph, view, width, where, rows)
    return out


def graph_heights(rows: int, number: int) -> list[int]:
    """The rows of each graph, at least one; the first graphs have the remainder."""
    least, more = divmod(rows, number)
    return [max(1, least + (at < more)) for at in range(number)]


_GRAPHS = 3


def graphs(frame: Frame, view: View, slots: int, *, apart: bool = False) -> list[Graph]:
    """GPU or CPU busy, then the selected device's rate and its await, if there is a device.

    A device that reads and writes shows both: their sum and the await of all requests, or, with ``apart``, a graph for
    each on one scale.
    """
    samples = (*view.past, *frame.history)
    sliding = cache_part(view, _PanelSeries)
    out = [_busy(frame, samples, slots, sliding.busy, culprit_of(frame, view))]
    device = devices.selected_device(frame, view)
    if device is None:
        return out
    ways = (device.totals.direction,) if not device.totals.both else (READ, WRITE) if apart else (BOTH,)
    rates = [_rate(frame, samples, slots, sliding.rate[way], device, way) for way in ways]
    awaits = [_await(frame, samples, slots, sliding.wait[way], device, way) for way in ways]
    return [*out, *_on_one_scale(rates), *_on_one_scale(awaits)]


def _on_one_scale(pair: list[Graph]) -> list[Graph]:
    """The graphs with the scale and unit of the one with the largest top; they share the rows of one graph."""
    if len(pair) == 1:
        return pair
    most = max(pair, key=lambda graph: graph.top)
    out = []
    for one in pair:
        text = one.text if one.scale == most.scale else most.text  # of an await: "-" depends on its own direction
        out.append(one._replace(top=most.top, scale=most.scale, unit=most.unit, text=text, of=len(pair)))
    return out


def _of(sample: Sample, key: BlockKey) -> BlockRates | None:
    return (sample.block.value or {}).get(key)


def _busy(frame: Frame, samples: tuple[Sample, ...], slots: int, sliding: SlidingSeries, culprit: Culprit) -> Graph:
    def gpu(sample: Sample) -> float | None:
        busy = [r.busy_ratio for r in (sample.gpu.value or {}).values() if r.busy_ratio is not None]
        return sum(busy) / len(busy) if busy else None

    def cpu(sample: Sample) -> float | None:
        return None if sample.cpu.value is None else sample.cpu.value.all.busy_ratio

    has_gpu = bool(frame.snapshot.gpu.value)
    data = sliding.series((has_gpu,), samples, gpu if has_gpu else cpu, slots, frame.snapshot.interval_s)
    starved = has_gpu and frame.verdict.state is State.STARVED
    hue = culprit.hue if (culprit.gpus if has_gpu else culprit.cores) else ""
    return Graph("GPU busy" if has_gpu else "CPU busy", "%", data, 0.01, 1.0, percent, strong=starved, hue=hue)


def _rate(
    frame: Frame,
    samples: tuple[Sample, ...],
    slots: int,
    sliding: SlidingSeries,
    device: devices.BlockDevice,
    kind: str,
) -> Graph:
    fields = [f"{way}_bytes_per_s" for way in ((READ, WRITE) if kind == BOTH else (kind,))]

    def value(sample: Sample) -> float | None:
        rates = _of(sample, device.key)
        known: list[float | None] = [] if rates is None else [getattr(rates, field) for field in fields]
        return None if not known or None in known else sum(rate for rate in known if rate is not None)

    data = sliding.series((device.key, kind), samples, value, slots, frame.snapshot.interval_s)
    peak = data.peak or 0
    unit, scale = rate_unit(peak)
    top = nice_top(peak / scale) * scale
    label = _label(devices.short_name(device), kind)
    return Graph(label, unit, data, scale, top, lambda v: brief(_over(v, scale)), strong=device.guilty)


def _await(
    frame: Frame,
    samples: tuple[Sample, ...],
    slots: int,
    sliding: SlidingSeries,
    device: devices.BlockDevice,
    kind: str,
) -> Graph:
    field = "await_ms" if kind == BOTH else f"{kind}_await_ms"

    def rests(rates: BlockRates) -> bool:
        done = (rates.reads_per_s, rates.writes_per_s)
        return all(one == 0 for one in (done if kind == BOTH else done[:1] if kind == READ else done[1:]))

    def value(sample: Sample) -> float | None:
        rates = _of(sample, device.key)
        if rates is None:
            return None
        wait: float | None = getattr(rates, field)
        # Undefined without requests: drawn blank, unlike an unknown value.
        return 0.0 if wait is None and rests(rates) else wait

    data = sliding.series((device.key, field), samples, value, slots, frame.snapshot.interval_s)
    now = _of(frame.sample, device.key)
    idle = now is not None and getattr(now, field) is None and rests(now)
    limit = _limit(frame, device.name) if device.guilty else None

    def text(v: float | None) -> str:
        if v == 0 and now is not None:  # as the table of disks says it
            return "-" if idle else await_text(v, _done(now, kind))
        return brief(v)

    hue = device.hue if device.guilty else ""
    label = "await" if kind == BOTH else f"{kind[0]}_await"
    return Graph(label, "ms", data, 1.0, nice_top(data.peak), text, limit, hue=hue)


def _done(rates: BlockRates, kind: str) -> float | None:
    """Requests per second of a direction."""
    reads, writes = rates.reads_per_s, rates.writes_per_s
    if kind == READ:
        return reads
    if kind == WRITE:
        return writes
    return None if reads is None or writes is None else reads + writes


def _limit(frame: Frame, name: str) -> float | None:
    """The await threshold of a finding about the device, else the typical await of a very slow disk; None without."""
    about = f"disks.{name}."
    for finding in frame.verdict.findings:
        for evidence in finding.evidence:
            if evidence.metric.startswith(about) and evidence.metric.endswith("await_ms") and evidence.threshold:
                return evidence.threshold
    slow = frame.verdict.slow_disk
    return slow.normal_ms if slow is not None and slow.device == name else None


def _over(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


def _label(name: str, kind: str) -> str:
    words = {READ: ("read", "rd"), WRITE: ("write", "wr"), BOTH: ("r+w",)}[kind]
    for word in words:
        if len(name) + 1 + len(word) <= 8:
            return f"{name} {word}"
    last = {READ: "r", WRITE: "w", BOTH: "r+w"}[kind]
    return f"{name[: 7 - len(last)]} {last}"


def graph_lines(graph: Graph, view: View, width: int, where: Room, rows: int) -> list[Line]:
    """One graph: an area in one to three rows, a line in more."""
    now = graph.data.values[-1] if graph.data.values else None
    text = graph.text(now)
    token = token_of(text, "strong" if graph.strong else "text")
    hot = graph.limit is not None and now is not None and now > graph.limit
    most = graph.data.peak
    peak = graph.text(most) if most else UNKNOWN if most is None else "0"
    parts = token_runs(graph.data, graph.limit)
    start, value_end, end = where.start, where.value_end, where.start + where.cells
    column = value_end + 1 - cells(text)
    label = cut(graph.label, min(value_end - 4, column - 2))
    left = [
        Span(f" {label}{' ' * (column - 1 - cells(label))}", "dim"),
        Span(text, graph.hue if graph.hue and (hot or graph.limit is None) else "bad" if hot else token),
        Span(f" {graph.unit}"[: start - value_end - 1].ljust(start - value_end - 1), "dim"),
    ]
    out = []
    cache = cache_part(view, GraphCache)
    drawn = (cache.curve if rows >= TALL_ROWS else cache.area)(graph.data.values, graph.top, rows)
    for i, bits in enumerate(drawn):
        right, x = "", end
        if where.top_end is not None and rows > 1:
            label = figure(graph.top / graph.scale).removesuffix(".0") if i == 0 else "0" if i == rows - 1 else ""
            right, x = label.rjust(where.top_end + 1 - end), where.top_end + 1
        if i == 0:
            right += peak.rjust(where.peak_end + 1 - x)
        spans = (*(left if i == 0 else _blank(start)), *token_spans(bits, parts), Span(right.ljust(width - end), "dim"))
        out.append(Line(spans))
    return out


def axis_and_graphs(
    frame: Frame, view: View, width: int, height: int, graphs_of: Callable[[int], list[Graph]], tallest: int = 2
) -> list[Line]:
    """The axis, then as many graphs as fit; all have the same number of rows. graphs_of: by the number of slots."""
    where = room(width)
    if where.cells < 10 or height < 2:
        return []
    found = graphs_of(2 * where.cells)
    rows = max(1, min(tallest, (height - 1) // max(1, len(found))))
    out = [axis(frame, view._replace(focus=""), width, where)]
    for graph in found:
        out += graph_lines(graph, view, width, where, rows)
    return out[:height]


@lru_cache(maxsize=8)
def _blank(width: int) -> list[Span]:
    return [Span(" " * width)]


def axis(frame: Frame, view: View, width: int, where: Room) -> Line:
    """``── last 100 s ──── -60 ──── -30 ──── now ── peak``: seconds before now, over their cells ("-4h")."""
    return _axis(frame.snapshot.interval_s, view.focus == "graphs", width, where)


@lru_cache(maxsize=8)
def _axis(interval: float, focus: bool, width: int, where: Room) -> Line:
    whole = where.cells * 2 * interval
    if whole <= 120:
        title = f"last {whole:g} s"
    elif whole < 7200:
        title = f"last {whole / 60:.1f} min".replace(".0 ", " ")
    else:
        title = f"last {whole / 3600:.1f} h".replace(".0 ", " ")
    dash, token = ("━", "rule-focus") if focus else ("─", "rule")
    text = [dash] * width
    dim = [False] * width

    def put(column: int, word: str) -> None:
        for i, char in enumerate(f" {word} "):
            if 0 <= column + i < width:
                text[column + i], dim[column + i] = char, char != " "

    end = where.start + where.cells
    step = next((s for s in _STEPS if s / interval / 2 >= (14 if width < 120 else 28)), int(whole) + 1)
    for ago in range(step, int(whole), step):
        column = end - 1 - round(ago / interval / 2) - 2
        if column > 3 + len(title) + 2:
            put(column, f"-{ago}" if step < _HOUR else f"-{ago // _HOUR}h")
    put(end - 4, "now")
    put(width - 6, "peak")
    head = dash * 2 + " "
    text[:3], dim[:3] = list(head), [False] * 3
    out = [Span(head, token), Span(title, "title-focus" if focus else "title")]
    text[3 + len(title)] = " "
    for i in range(3 + len(title), width):
        this = "dim" if dim[i] else token
        if out[-1].token == this or (text[i] == " " and len(out) > 2):
            out[-1] = Span(out[-1].text + text[i], out[-1].token)
        else:
            out.append(Span(text[i], this))
    return Line(tuple(out))
