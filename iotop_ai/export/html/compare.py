"""A comparison as one HTML file: the sentence, both bars, and every change with its interval."""

from __future__ import annotations

from iotop_ai.export.compare.comparison import DATA_WAIT, GPU_BUSY, STEPS, Change, Comparison, listed_changes
from iotop_ai.export.compare.sentence import change_text, interval_text, outcome, sentence, value_text
from iotop_ai.export.compare.text import NOTE, aligned_text, clear_text, sides
from iotop_ai.export.html.axes import TimeAxis
from iotop_ai.export.html.charts import Line, line_chart, share_bar, share_chart
from iotop_ai.export.html.markup import Markup, single, tag
from iotop_ai.export.html.page import page
from iotop_ai.export.html.parts import BigFigure, figures, key, section, verdict_head
from iotop_ai.export.report import words
from iotop_ai.export.report.story import Story
from iotop_ai.model.job.time_shares import LOST, SHARES
from iotop_ai.present.job.time_words import Part

_FIRST = (STEPS, "compute", DATA_WAIT, GPU_BUSY)
"""The figures at the top of the page, if they are known."""
_PLOT = 150
_WORSE_WHEN_MORE = frozenset((*LOST, DATA_WAIT))


def render_compare_html(found: Comparison) -> str:
    """The text of the HTML file."""
    return page(
        f"iotop-ai compare: {found.before.file} and {found.after.file}",
        _head(found),
        section("Where the time went", *(_side(word, story) for word, story in sides(found)), _key(found)),
        section("What changed", _table(found), small=aligned_text(found)),
        section("Over time", *(_curves(word, story) for word, story in sides(found))),
        tag("footer", f"{NOTE} Intervals: circular block bootstrap. The page is self-contained: open it anywhere."),
    )


def _head(found: Comparison) -> Markup:
    first = outcome(found)
    better = first is not None and first.clear and (first.difference or 0.0) > 0
    state, hue = (
        ("FASTER", "ok") if better else ("SLOWER", "bad") if first is not None and first.clear else ("UNCLEAR", "dim")
    )
    if first is None or first.interval is None:
        state, hue = "UNSURE", "unsure"
    big = [
        BigFigure(f"{value_text(one.before, one.unit)} \u2192 {value_text(one.after, one.unit)}", one.title, _hue(one))
        for name in _FIRST
        if (one := found.change(name)) is not None and one.difference is not None
    ]
    runs = [tag("span", f"{word}: {story.file}, {words.title(story)}") for word, story in sides(found)]
    return tag("header", tag("div", *runs, class_="from"), verdict_head(state, hue, sentence(found)), figures(big))


def _hue(one: Change) -> str:
    """The colour: "ok" for a better figure, "bad" for a worse one.

    "" if the change is not clear, or if it may be either: a disk with fewer reads may be faster or idle.
    """
    worse_when_more = one.name in _WORSE_WHEN_MORE or one.unit == "ms"
    if not one.clear or not (worse_when_more or one.name in _FIRST):
        return ""
    return "bad" if ((one.difference or 0.0) > 0) == worse_when_more else "ok"


def _side(word: str, story: Story) -> Markup:
    main = story.main_job
    if main is None:
        return tag("div", tag("h3", word), tag("p", words.NOT_COUNTED, class_="note"))
    return tag("div", tag("h3", word, tag("small", words.job_sentence(main))), share_bar(main.counts))


def _key(found: Comparison) -> Markup:
    seen = {
        name
        for _, story in sides(found)
        if story.main_job is not None
        for name, count in zip(SHARES, story.main_job.counts, strict=True)
        if count
    }
    return key([(f"s-{name}", Part(name, 0.0, "").short_name) for name in SHARES if name in seen])


def _table(found: Comparison) -> Markup:
    changes = listed_changes(found.changes)
    titles = ("figure", "before", "after", "change", "95 % interval", "", "clear")
    head = tag("tr", *(tag("th", title, class_=None if i else "t") for i, title in enumerate(titles)))
    return tag("div", tag("table", head, *(_row(one) for one in changes)), class_="tables")


def _row(one: Change) -> Markup:
    hue = {"bad": "met", "ok": "better"}.get(_hue(one))
    cells = [value_text(one.before, one.unit), value_text(one.after, one.unit), change_text(one), interval_text(one)]
    shown_cells = [tag("td", cell, class_=hue if i == 2 else None) for i, cell in enumerate(cells)]
    return tag(
        "tr", tag("td", one.title, class_="t"), *shown_cells, tag("td", _forest(one)), tag("td", clear_text(one)),
    )  # fmt: skip


def _forest(one: Change) -> Markup:
    """The interval as a forest plot: a bar with a dot at the difference.

    Zero is in the middle of the plot, and a wide interval is cut off at the edges.
    """
    if one.interval is None or one.difference is None:
        return Markup("")
    reach = 1.0 if one.unit == "ratio" else max(abs(one.before or 0.0), abs(one.after or 0.0))
    if not reach:
        return Markup("")

    def x(value: float) -> float:
        return _PLOT / 2 * (1 + max(-1.0, min(1.0, value / reach)))

    hue = "hot" if _hue(one) == "bad" else "ok" if _hue(one) else "graph"
    low, high = x(one.interval.low), x(one.interval.high)
    parts = [
        single("line", x1=_PLOT / 2, x2=_PLOT / 2, y1=0, y2=14, class_="grid"),
        single("rect", x=low, y=5, width=max(1.5, high - low), height=4, rx=2, class_=f"a-{hue}"),
        single("circle", cx=x(one.difference), cy=7, r=3.5, class_=f"a-{hue}"),
    ]
    return tag("svg", *parts, viewBox=f"0 0 {_PLOT} 14", class_="forest", role="img", aria_label=interval_text(one))


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
