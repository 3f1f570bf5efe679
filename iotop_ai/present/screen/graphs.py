"""Graphs of one or more rows on a common time axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import Series, token_runs, token_spans
from iotop_ai.present.text.curve import TALL_ROWS
from iotop_ai.present.text.frame_cache import cache_part
from iotop_ai.present.text.graph_cache import GraphCache
from iotop_ai.present.text.line import Line, Span, cells, cut
from iotop_ai.present.text.units import UNKNOWN, clock, figure, token_of

LEAST_GRAPH_CELLS = 10
"""The minimum number of cells of a graph; a narrower screen shows no graphs."""
_HOUR = 3600
_STEPS = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, *(_HOUR * hours for hours in (1, 2, 4, 8, 12, 24, 48, 168)))
"""The possible steps between two labels of the axis in seconds: whole hours from the first hour on."""


class Graph(NamedTuple):
    """One graph.

    scale: how many units of the values make one ``unit``. top: the value at the graph's upper edge. text: the function
    that formats a value. limit: the value above which cells have the token ``hot``; None for none. strong: whether the
    current value is highlighted. hue: the verdict's colour if the verdict names the graph's subject; otherwise "".
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


class Room(NamedTuple):
    """The columns of a graph. start, cells: the first column of its cells and their number. value_end, peak_end,
    top_end: the last columns of the current value, the peak and the upper edge's value; top_end is None without room.
    """

    start: int
    cells: int
    value_end: int
    peak_end: int
    top_end: int | None


def room(width: int) -> Room:
    """The columns of a graph's parts on a screen of this width."""
    if width >= 120:
        return Room(24, width - 40, 15, width - 2, width - 10)
    return Room(20, width - 30, 13, width - 2, None)


def graph_lines(
    graph: Graph, view: View, width: int, where: Room, rows: int, *, as_line: bool | None = None
) -> list[Line]:
    """The rows of one graph. as_line: whether it is drawn as a line; None draws an area in up to three rows and a line
    in more.
    """
    as_line = rows >= TALL_ROWS if as_line is None else as_line
    now = graph.data.values[-1] if graph.data.values else None
    text = graph.text(now)
    token = token_of(text, "strong" if graph.strong else "text")
    hot = graph.limit is not None and now is not None and now > graph.limit
    most = graph.data.peak
    peak = graph.text(most) if most else UNKNOWN if most is None else "0"
    parts = tuple(token_runs(graph.data, graph.limit))
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
    drawn = (cache.curve if as_line else cache.area)(graph.data.values, graph.top, rows)
    for i, bits in enumerate(drawn):
        right, x = "", end
        if where.top_end is not None and rows > 1:
            mark = figure(graph.top / graph.scale).removesuffix(".0") if i == 0 else "0" if i == rows - 1 else ""
            right, x = mark.rjust(where.top_end + 1 - end), where.top_end + 1
        if i:
            out.append(_lower_row(start, bits, parts, right.ljust(width - end)))
            continue
        right += peak.rjust(where.peak_end + 1 - x)
        out.append(Line((*left, *token_spans(bits, parts), Span(right.ljust(width - end), "dim"))))
    return out


@lru_cache(maxsize=64)
def _lower_row(start: int, bits: str, parts: tuple[tuple[int, str], ...], right: str) -> Line:
    """A row of a graph without text on its left, cached because many such rows stay blank for long."""
    return Line((Span(" " * start), *token_spans(bits, parts), Span(right, "dim")))


def axis_and_graphs(
    frame: Frame, view: View, width: int, height: int, graphs_of: Callable[[int], list[Graph]], tallest: int = 2
) -> list[Line]:
    """The axis, and as many graphs as fit, all of the same height. graphs_of: makes the graphs for a number of slots
    (intervals, two in each cell). tallest: the maximum number of rows of a graph.
    """
    where = room(width)
    if where.cells < LEAST_GRAPH_CELLS or height < 2:
        return []
    graphs = graphs_of(2 * where.cells)
    rows = max(1, min(tallest, (height - 1) // max(1, len(graphs))))
    out = [axis(frame, view._replace(focus=""), width, where)]
    for graph in graphs:
        out += graph_lines(graph, view, width, where, rows)
    return out[:height]


def time_shown(frame: Frame, view: View) -> str:
    """The time of the Frame while the past is shown; otherwise "now"."""
    return clock(frame.snapshot.wall_ns, view.utc_offset_s) if view.mode in ("back", "replay") else "now"


def axis(frame: Frame, view: View, width: int, where: Room) -> Line:
    """The axis with the seconds (or hours, "-4h") before the time shown: ``── last 100 s ── -60 ── -30 ── now``."""
    return _axis(frame.snapshot.interval_s, view.focus == "graphs", width, where, time_shown(frame, view))


@lru_cache(maxsize=8)
def _axis(interval: float, focus: bool, width: int, where: Room, now: str) -> Line:
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
    # Two labels are at least 14 columns apart, or 28 on a wide screen. A slot is half a column.
    step = next((s for s in _STEPS if s / interval / 2 >= (14 if width < 120 else 28)), int(whole) + 1)
    for ago_s in range(step, int(whole), step):
        column = end - 1 - round(ago_s / interval / 2) - 2
        if column > 3 + len(title) + 2:
            put(column, f"-{ago_s}" if step < _HOUR else f"-{ago_s // _HOUR}h")
    put(end - 1 - len(now), now)
    put(width - 6, "peak")
    head = dash * 2 + " "
    text[:3], dim[:3] = list(head), [False] * 3
    out = [Span(head, token), Span(title, "title-focus" if focus else "title")]
    text[3 + len(title)] = " "
    for i in range(3 + len(title), width):
        char_token = "dim" if dim[i] else token
        if out[-1].token == char_token or (text[i] == " " and len(out) > 2):
            out[-1] = Span(out[-1].text + text[i], out[-1].token)
        else:
            out.append(Span(text[i], char_token))
    return Line(tuple(out))
