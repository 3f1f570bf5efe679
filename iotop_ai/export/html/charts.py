"""Charts as inline SVG: lines, shares stacked over time, a bar of shares, a strip of verdicts, and a heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from iotop_ai.export.html.axes import LEFT, PLOT, WIDTH, TimeAxis, three_digits, time_labels, value_grid, zone_at
from iotop_ai.export.html.markup import Markup, empty_tag, joined, short, tag
from iotop_ai.export.html.parts import key
from iotop_ai.export.report.series import Curve, downsampled
from iotop_ai.export.text.charts import scale_top
from iotop_ai.model.job.time_shares import SHARES
from iotop_ai.model.verdict_totals import VerdictSpan
from iotop_ai.present.job.time_words import parts_of
from iotop_ai.present.text.states import HUE
from iotop_ai.present.text.units import clock, duration

POINTS = 280
"""The most points of a curve."""
CELLS = 180
"""The most cells in a row of the heat map."""
_COLUMNS = 500
"""The number of columns in the strip of verdicts."""
_LEVELS = 8
"""The number of shades in the heat map."""
_LETTER_WIDTH = 7.4
"""The approximate width of a letter on a bar or strip, in pixels."""


class Line(NamedTuple):
    """One curve of a chart.

    hue: the name of its colour. factor: converts the curve's values to the shown unit. area: whether the area below the
    curve is filled.
    """

    name: str
    curve: Curve
    hue: str
    unit: str
    factor: float = 1.0
    area: bool = False


def _svg(parts: list[Markup], height: float, label: str, **data: str | float | None) -> Markup:
    return tag("svg", joined(parts), viewBox=f"0 0 {WIDTH} {short(height)}", role="img", aria_label=label, **data)


def _tip(value: float, unit: str) -> str:
    """A value for the tooltip: ``three_digits``. Only a rate of steps, which may be low, has more than two decimals."""
    return three_digits(value if unit == "/s" else round(value, 2))


def _zones(curve: Curve) -> str:
    """The offsets from UTC as "POINT:SECONDS", each with the first point of the curve at which it is valid."""
    offsets = [(0, zone_at(curve.begin_ns / 1e9))]
    for i in range(1, len(curve.values)):
        zone_s = zone_at(curve.begin_ns / 1e9 + i * curve.step_s)
        if offsets[-1][1] != zone_s:
            offsets.append((i, zone_s))
    return ",".join(f"{i}:{zone_s}" for i, zone_s in offsets)


def _hover(axis: TimeAxis, curves: Sequence[tuple[str, str, Curve, float]]) -> dict[str, str | float | None]:
    """SVG attributes with the values that the page's script shows under the pointer.

    curves: (name, unit, curve, factor) of each; the factor converts the values to the unit. data_rows has a line for
    each curve, with tabs between its name, unit and values.
    """
    first = curves[0][2]
    rows = [
        "\t".join((name, unit, ",".join("" if v is None else _tip(v * factor, unit) for v in curve.values)))
        for name, unit, curve, factor in curves
    ]
    return {
        "data_step": f"{first.step_s:.6g}",
        "data_begin": f"{first.begin_ns / 1e9:.3f}",
        "data_zones": _zones(first),
        "data_left": LEFT,
        "data_width": short(_span_width(axis, first)),
        "data_rows": "\n".join(rows),
    }


def _span_width(axis: TimeAxis, curve: Curve) -> float:
    """The width in pixels that all points of a curve take up."""
    return PLOT * len(curve.values) * curve.step_s / axis.seconds


def _x(axis: TimeAxis, curve: Curve, i: float) -> float:
    """The x coordinate at which point ``i`` of a curve begins (its middle for ``i`` + 0.5), at most the plot's end."""
    return LEFT + PLOT * min(1.0, i * curve.step_s / axis.seconds)


def line_chart(
    axis: TimeAxis, lines: Sequence[Line], *, height: float = 110, top: float | None = None, over: Sequence[Markup] = ()
) -> Markup:  # fmt: skip
    """A chart of curves on one time axis and one value axis.

    top: the upper end of the value axis; None for a round value at or above the highest value. over: marks that are
    drawn on top of the curves.
    """
    drawn = [line._replace(curve=downsampled(line.curve, POINTS)) for line in lines]
    highest = max((v * line.factor for line in drawn for v in line.curve.values if v is not None), default=0.0)
    top = scale_top(highest) if top is None else top
    parts = value_grid(top, height, drawn[0].unit)
    for line in drawn:
        parts += _line_paths(axis, line, top, height)
    parts += [*over, *time_labels(axis, height + 16)]
    entries = [(f"a-{line.hue}", line.name) for line in drawn]
    hover = _hover(axis, [(line.name, line.unit, line.curve, line.factor) for line in drawn])
    chart = _svg(parts, height + 22, ", ".join(line.name for line in drawn), **hover)
    return joined([key(entries), chart])


def _line_paths(axis: TimeAxis, line: Line, top: float, height: float) -> list[Markup]:
    strokes, areas = [], []
    for run in _runs(line.curve.values):
        points = []
        for i in run:
            value = line.curve.values[i] or 0.0
            y = height * (1 - min(1.0, value * line.factor / top)) if top else height
            points.append(f"{short(_x(axis, line.curve, i + 0.5))} {short(y)}")
        if len(points) == 1:
            # A single value is drawn as a short line; as a point it would be invisible.
            x, y_text = _x(axis, line.curve, run[0]), points[0].split(" ")[1]
            points = [f"{short(x)} {y_text}", f"{short(_x(axis, line.curve, run[0] + 1))} {y_text}"]
        strokes.append("M" + "L".join(points))
        first, last = points[0].split(" ")[0], points[-1].split(" ")[0]
        areas.append("M" + "L".join([f"{first} {short(height)}", *points, f"{last} {short(height)}"]) + "Z")
    out = [empty_tag("path", d="".join(areas), class_=f"area a-{line.hue}")] if line.area and areas else []
    return [*out, empty_tag("path", d="".join(strokes), class_=f"line c-{line.hue}")] if strokes else out


def _runs(values: Sequence[float | None]) -> list[list[int]]:
    """The indexes of the known values, as lists of consecutive indexes."""
    out: list[list[int]] = []
    for i, value in enumerate(values):
        if value is None:
            continue
        if out and out[-1][-1] == i - 1:
            out[-1].append(i)
        else:
            out.append([i])
    return out


def share_chart(axis: TimeAxis, shares: Mapping[str, Curve], names: Mapping[str, str], height: float = 120) -> Markup:
    """A chart of shares over time, stacked to 100 %.

    shares: the curve of each share by the share's id, in the order of SHARES. names: the words for each id.
    """
    curves = {name: downsampled(curve, POINTS) for name, curve in shares.items()}
    if not curves:
        return Markup("")
    first = next(iter(curves.values()))
    known = [i for i in range(len(first.values)) if any(c.values[i] is not None for c in curves.values())]
    parts = value_grid(100.0, height, "%")
    below = dict.fromkeys(known, 0.0)
    for name, curve in curves.items():
        boxes = []
        for run in _runs([None if i not in below else curve.values[i] or 0.0 for i in range(len(first.values))]):
            boxes += _boxes(axis, curve, run, below, height)
        if boxes:
            parts.append(empty_tag("path", d="".join(boxes), class_=f"s-{name}"))
    parts += time_labels(axis, height + 16)
    hover = _hover(axis, [(names[name], "%", curve, 100.0) for name, curve in curves.items()])
    return _svg(parts, height + 22, "where the time went, over time", **hover)


def _boxes(axis: TimeAxis, curve: Curve, run: list[int], below: dict[int, float], height: float) -> list[str]:
    """The outlines of one share over consecutive points, stacked on ``below``; the share is added to ``below``."""
    upper, lower = [], []
    for i in run:
        value = curve.values[i] or 0.0
        x0, x1 = short(_x(axis, curve, i)), short(_x(axis, curve, i + 1))
        bottom, level = below[i], below[i] + value
        below[i] = level
        y0, y1 = short(height * (1 - min(1.0, level))), short(height * (1 - min(1.0, bottom)))
        upper += [f"{x0} {y0}", f"{x1} {y0}"]
        lower += [f"{x0} {y1}", f"{x1} {y1}"]
    if upper == lower:
        return []
    return ["M" + "L".join(_thinned(upper)) + "L" + "L".join(_thinned(lower)[::-1]) + "Z"]


def _thinned(points: list[str]) -> list[str]:
    """The points, without those that have two neighbours at their own height."""
    out: list[str] = []
    for i, point in enumerate(points):
        y = point.split(" ")[1]
        is_flat = 0 < i < len(points) - 1 and points[i - 1].split(" ")[1] == y == points[i + 1].split(" ")[1]
        if not is_flat:
            out.append(point)
    return out


def share_bar(values: Sequence[float], height: float = 30) -> Markup:
    """One bar of shares, each with its name if there is room. values: the amounts, in the order of SHARES."""
    total = sum(values)
    parts_by_share = {part.share: part for part in parts_of(values)}
    parts, x = [], 0.0
    for name, value in zip(SHARES, values, strict=True):
        if value <= 0:
            continue
        width = WIDTH * value / total
        words = f"{parts_by_share[name].short_name} {parts_by_share[name].figure} %"
        rect = empty_tag("rect", x=x, y=0, width=max(width, 0.5), height=height, class_=f"s-{name}")
        parts.append(tag("g", tag("title", words), rect))
        if len(words) * _LETTER_WIDTH < width - 8:
            css_class = "in dark" if name == "unexplained" else "in"
            parts.append(tag("text", words, x=x + 9, y=height / 2 + 4, class_=css_class))
        x += width
    return _svg(parts, height, "where the time went")


def state_strip(axis: TimeAxis, spans: Sequence[VerdictSpan], height: float = 22) -> Markup:
    """The verdicts over time as a strip of columns.

    Each column shows the verdict that took most of the column's time.
    """
    columns: list[dict[tuple[str, str], float]] = [{} for _ in range(_COLUMNS)]
    width = axis.seconds / _COLUMNS
    for span in spans:
        begin = (span.wall_ns - axis.begin_ns) / 1e9
        end = begin + span.seconds
        for i in range(max(0, int(begin / width)), min(_COLUMNS, int(end / width) + 1)):
            part = min(end, (i + 1) * width) - max(begin, i * width)
            if part > 0:
                verdict = (span.state.value, span.class_id)
                columns[i][verdict] = columns[i].get(verdict, 0.0) + part
    parts = [empty_tag("rect", x=LEFT, y=0, width=PLOT, height=height, class_="track")]
    i = 0
    while i < _COLUMNS:
        longest = max(columns[i], key=lambda verdict: columns[i][verdict], default=None)
        end = i + 1
        while end < _COLUMNS and max(columns[end], key=lambda verdict: columns[end][verdict], default=None) == longest:
            end += 1
        if longest is not None:
            parts.append(_strip_part(axis, longest, i, end, height))
        i = end
    return _svg([*parts, *time_labels(axis, height + 16)], height + 22, "verdicts over time")


def _strip_part(axis: TimeAxis, verdict: tuple[str, str], begin: int, end: int, height: float) -> Markup:
    state, class_id = verdict
    seconds = axis.seconds * (end - begin) / _COLUMNS
    since = clock(axis.begin_ns + round(axis.seconds * begin / _COLUMNS * 1e9))
    x, width = LEFT + PLOT * begin / _COLUMNS, PLOT * (end - begin) / _COLUMNS
    words = f"{state} {class_id}, {since} for about {duration(seconds)}"
    rect = empty_tag("rect", x=x, y=0, width=width, height=height, class_=f"f-{HUE.get(state, 'dim')}")
    out = [tag("title", words), rect]
    if len(state) * _LETTER_WIDTH < width - 12:
        out.append(tag("text", state, x=x + 7, y=height / 2 + 4, class_="in on"))
    return tag("g", *out)


def heat_map(axis: TimeAxis, rows: Sequence[tuple[str, Curve, str]], height: float = 17) -> Markup:
    """One row per disk, darker while the disk is busier. rows: (name, busy ratios, words shown under the pointer)."""
    parts: list[Markup] = []
    curves = [(name, downsampled(curve, CELLS), words) for name, curve, words in rows]
    for number, (name, curve, _) in enumerate(curves):
        y = number * (height + 3)
        parts.append(empty_tag("rect", x=LEFT, y=y, width=PLOT, height=height, class_="track"))
        parts.append(tag("text", name[:9], x=LEFT - 6, y=y + height / 2 + 4, text_anchor="end"))
        parts += _heat_row(axis, curve, y, height)
    bottom = len(curves) * (height + 3)
    hover = _hover(axis, [(f"{name} ({words})", "% busy", curve, 100.0) for name, curve, words in curves])
    return _svg([*parts, *time_labels(axis, bottom + 13)], bottom + 19, "how busy each disk was, over time", **hover)


def _heat_row(axis: TimeAxis, curve: Curve, y: float, height: float) -> list[Markup]:
    """The row of one disk, as one SVG path for each level of utilisation above 0."""
    levels: dict[int, list[str]] = {}
    i, values = 0, curve.values
    while i < len(values):
        level = _level(values[i])
        end = i + 1
        while end < len(values) and _level(values[end]) == level:
            end += 1
        if level:
            x = _x(axis, curve, i)
            levels.setdefault(level, []).append(
                f"M{short(x)} {short(y)}h{short(_x(axis, curve, end) - x)}v{short(height)}"
            )
            levels[level][-1] += f"H{short(x)}z"
        i = end
    return [
        empty_tag("path", d="".join(paths), class_="heat", opacity=f"{level / _LEVELS:.3g}")
        for level, paths in sorted(levels.items())
    ]


def _level(value: float | None) -> int:
    """The level of a busy ratio, from 1 to _LEVELS; 0 if the ratio is unknown or at most 0.2 %."""
    if value is None or value <= 0.002:
        return 0
    return min(_LEVELS, max(1, round(value * _LEVELS)))


def time_marks(axis: TimeAxis, marks: Sequence[tuple[int, str, bool]], height: float) -> list[Markup]:
    """Vertical lines at events. marks: (time, words, whether the event is a fault)."""
    out = []
    for wall_ns, words, is_fault in marks:
        x = axis.x(wall_ns)
        line = empty_tag("line", x1=x, x2=x, y1=0, y2=height, class_="trouble" if is_fault else "mark")
        out.append(tag("g", tag("title", words), line))
    return out


def gap_boxes(axis: TimeAxis, gaps: Sequence[tuple[int, int]], height: float) -> list[Markup]:
    """Shaded boxes at times without data. gaps: (begin, end) of each, in ns of wall time."""
    return [
        empty_tag(
            "rect", x=axis.x(begin), y=0, width=max(1.0, axis.x(end) - axis.x(begin)), height=height, class_="gap"
        )
        for begin, end in gaps
    ]
