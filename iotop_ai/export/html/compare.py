"""A comparison as one HTML file: the sentence, the verdicts and bars of both runs, every change with its interval."""

from __future__ import annotations

from iotop_ai.export.compare.comparison import DATA_WAIT, GPU_BUSY, STEPS, Change, Comparison, listed_changes
from iotop_ai.export.compare.sentence import change_text, interval_text, outcome, sentence, value_text
from iotop_ai.export.compare.text import aligned_text, clear_text, not_compared_text, note_text, sides, verdict_lines
from iotop_ai.export.html.axes import TimeAxis
from iotop_ai.export.html.charts import Line, line_chart, share_bar, share_chart
from iotop_ai.export.html.markup import Markup, empty_tag, tag
from iotop_ai.export.html.page import page
from iotop_ai.export.html.parts import BigFigure, figures, key, section, verdict_head
from iotop_ai.export.report import words
from iotop_ai.export.report.story import Story
from iotop_ai.model.job.time_shares import LOST, SHARES
from iotop_ai.present.job.time_words import Part

_FIRST = (STEPS, "compute", DATA_WAIT, GPU_BUSY)
"""The figures at the top of the page, if they are known."""
_PLOT = 150
"""The width of a forest plot in pixels, which is also in the style sheet."""
_WORSE_WHEN_MORE = frozenset((*LOST, DATA_WAIT))
"""The shares of time of which the better run has less; a figure in ms is better when lower, too."""
_FOOTER = "Intervals: circular block bootstrap. The page is self-contained: open it anywhere."


def render_compare_html(comparison: Comparison) -> str:
    """The text of the HTML file."""
    return page(
        f"iotop-ai compare: {comparison.before.file} and {comparison.after.file}",
        _head(comparison),
        section("Where the time went", *(_side(word, story) for word, story in sides(comparison)), _key(comparison)),
        section("What changed", _table(comparison), *_left_out(comparison), small=aligned_text(comparison)),
        section("Over time", *(_curves(word, story) for word, story in sides(comparison))),
        tag("footer", f"{note_text(comparison)} {_FOOTER}"),
    )


def _head(comparison: Comparison) -> Markup:
    state, hue = _state(outcome(comparison))
    big = [
        BigFigure(
            f"{value_text(change.before, change.unit)} \u2192 {value_text(change.after, change.unit)}",
            change.title,
            _hue(change),
        )
        for name in _FIRST
        if (change := comparison.change(name)) is not None and change.difference is not None
    ]
    runs = [tag("span", f"{word}: {story.file}, {words.title(story)}") for word, story in sides(comparison)]
    return tag("header", tag("div", *runs, class_="from"), verdict_head(state, hue, sentence(comparison)), figures(big))


def _state(result: Change | None) -> tuple[str, str]:
    """The word for the outcome, and its colour.

    Only steps show which run is faster: a run on a faster GPU computes for less of its time.
    """
    if result is None or result.interval is None:
        return "UNSURE", "unsure"
    if not result.clear:
        return "UNCLEAR", "dim"
    more = (result.difference or 0.0) > 0
    if result.name != STEPS:
        return ("COMPUTES MORE" if more else "COMPUTES LESS"), "info"
    return ("FASTER", "ok") if more else ("SLOWER", "bad")


def _hue(change: Change) -> str:
    """The colour: "ok" for a better figure, "bad" for a worse one.

    "" if the change is not clear, or if the figure does not show which run is better: a disk with fewer reads may be
    faster or idle, and a faster GPU is busy for less of the time.
    """
    worse_when_more = change.name in _WORSE_WHEN_MORE or change.unit == "ms"
    if not change.clear or not (worse_when_more or change.name == STEPS):
        return ""
    return "bad" if ((change.difference or 0.0) > 0) == worse_when_more else "ok"


def _side(word: str, story: Story) -> Markup:
    main = story.main_job
    verdicts = [tag("p", line, class_="note") for line in verdict_lines(story)]
    if main is None:
        return tag("div", tag("h3", word), *verdicts, tag("p", words.NOT_COUNTED, class_="note"))
    return tag("div", tag("h3", word, tag("small", words.job_sentence(main))), *verdicts, share_bar(main.counts))


def _key(comparison: Comparison) -> Markup:
    used = {
        name
        for _, story in sides(comparison)
        if story.main_job is not None
        for name, count in zip(SHARES, story.main_job.counts, strict=True)
        if count
    }
    return key([(f"s-{name}", Part(name, 0.0, "").short_name) for name in SHARES if name in used])


def _table(comparison: Comparison) -> Markup:
    changes = listed_changes(comparison.changes)
    titles = ("figure", "before", "after", "change", "95 % interval", "", "clear")
    head = tag("tr", *(tag("th", title, class_=None if i else "t") for i, title in enumerate(titles)))
    return tag("div", tag("table", head, *(_row(change) for change in changes)), class_="tables")


def _left_out(comparison: Comparison) -> list[Markup]:
    """The note about the disks that are not compared; [] if there are none."""
    text = not_compared_text(comparison)
    return [tag("p", f"left out: {text}", class_="note")] if text else []


def _row(change: Change) -> Markup:
    hue = {"bad": "met", "ok": "better"}.get(_hue(change))  # "met" is the red of a condition that is met
    cells = [
        value_text(change.before, change.unit),
        value_text(change.after, change.unit),
        change_text(change),
        interval_text(change),
    ]
    shown_cells = [tag("td", cell, class_=hue if i == 2 else None) for i, cell in enumerate(cells)]
    title = tag("td", change.title, class_="t")
    return tag("tr", title, *shown_cells, tag("td", _forest(change)), tag("td", clear_text(change)))


def _forest(change: Change) -> Markup:
    """The interval as a forest plot: a bar with a dot at the difference.

    Zero is in the middle of the plot, and a wide interval is cut off at the edges. The edges are at plus and minus 1
    for a ratio, and otherwise at plus and minus the larger of the two values.
    """
    if change.interval is None or change.difference is None:
        return Markup("")
    reach = 1.0 if change.unit == "ratio" else max(abs(change.before or 0.0), abs(change.after or 0.0))
    if not reach:
        return Markup("")

    def x(value: float) -> float:
        return _PLOT / 2 * (1 + max(-1.0, min(1.0, value / reach)))

    hue = "hot" if _hue(change) == "bad" else "ok" if _hue(change) else "graph"
    low, high = x(change.interval.low), x(change.interval.high)
    parts = [
        empty_tag("line", x1=_PLOT / 2, x2=_PLOT / 2, y1=0, y2=14, class_="grid"),
        empty_tag("rect", x=low, y=5, width=max(1.5, high - low), height=4, rx=2, class_=f"a-{hue}"),
        empty_tag("circle", cx=x(change.difference), cy=7, r=3.5, class_=f"a-{hue}"),
    ]
    return tag("svg", *parts, viewBox=f"0 0 {_PLOT} 14", class_="forest", role="img", aria_label=interval_text(change))


def _curves(word: str, story: Story) -> Markup:
    axis = TimeAxis(story.begin_ns, story.end_ns)
    parts = [tag("h3", word, tag("small", words.title(story)))]
    main = story.main_job
    if main is not None and main.shares:
        shown_shares = {name: main.shares[name] for name in SHARES if name in main.shares}
        parts.append(share_chart(axis, shown_shares, {name: Part(name, 0.0, "").short_name for name in SHARES}))
    if story.steps is not None and story.steps.curve is not None:
        parts.append(line_chart(axis, [Line("steps/s", story.steps.curve, "info", "/s", 1.0, True)], height=70))
    return tag("div", *parts)
