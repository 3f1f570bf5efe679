"""The parts that the pages of reports and comparisons share: the verdict, figures, tables and findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from iotop_ai.export.html.markup import Markup, empty_tag, tag
from iotop_ai.export.report.tables import ReportTable
from iotop_ai.model.finding import Finding
from iotop_ai.present.text.states import HUE
from iotop_ai.present.verdict.evidence import facts_of

_FULL_WIDTH_COLUMNS = 5
"""A table with fewer columns is narrower than the page."""
_MOST_UNWRAPPED = 36
"""A text cell with more characters than this may be wrapped."""


class BigFigure(NamedTuple):
    """A large figure at the top of the page. hue: "bad", "warn", "ok" or ""."""

    value: str
    words: str
    hue: str = ""


def verdict_head(state: str, hue: str, sentence: str) -> Markup:
    """The state's word, then the verdict's sentence."""
    return tag("div", tag("span", state, class_=f"state h-{hue}"), tag("h1", sentence), class_="verdict")


def label_lines(lines: Iterable[tuple[str, str]]) -> Markup:
    """Labels with their texts; the text of the label "do" is emphasised."""
    rows = []
    for label, words in lines:
        rows += [tag("dt", label), tag("dd", words, class_="do" if label == "do" else None)]
    return tag("dl", *rows, class_="lines")


def figures(items: Sequence[BigFigure]) -> Markup:
    """The large figures, in a row."""
    elements = [
        tag("div", tag("b", item.value, class_=item.hue or None), tag("span", item.words), class_="figure")
        for item in items
    ]
    return tag("div", *elements, class_="figures")


def section(title: str, *parts: Markup, small: str = "") -> Markup:
    """A section with a heading."""
    return tag("section", tag("h2", title, *([tag("small", small)] if small else [])), *parts)


def table(content: ReportTable, heading: str = "h2") -> Markup:
    """A table with its title and its note."""
    rows = [tag("tr", *(_cell("th", cell, i < content.text_columns) for i, cell in enumerate(content.columns)))]
    for number, row in enumerate(content.rows):
        cells = [_cell("td", cell, i < content.text_columns) for i, cell in enumerate(row)]
        rows.append(tag("tr", *cells, class_="bad" if number in content.bad else None))
    few = "few" if len(content.columns) < _FULL_WIDTH_COLUMNS else None
    parts = [tag(heading, content.title), tag("div", tag("table", *rows, class_=few), class_="tables")]
    return tag("section", *parts, *([tag("p", content.note, class_="note")] if content.note else []))


def _cell(name: str, words: str, is_text: bool) -> Markup:
    kind = "t w" if is_text and len(words) > _MOST_UNWRAPPED else "t" if is_text else None
    return tag(name, words, class_=kind)


def finding_article(finding: Finding, sentence: str, lines: Iterable[tuple[str, str]]) -> Markup:
    """A finding with its lines and its evidence."""
    facts = facts_of(finding)
    rows = [
        tag("tr", _cell("td", fact.words, True), tag("td", fact.value, class_=fact.standing), tag("td", fact.limit))
        for fact in facts
    ]
    head = tag("tr", _cell("th", "evidence", True), tag("th", "value"), tag("th", "threshold"))
    evidence = tag("div", tag("table", head, *rows, class_="few"), class_="tables") if rows else Markup("")
    title = tag("h3", f"{finding.state.value} ", sentence, tag("small", finding.class_id))
    return tag("article", title, label_lines(lines), evidence, class_=f"e-{HUE[finding.state]}")


def swatch(name: str) -> Markup:
    """A small square in a colour. name: the CSS class of the colour."""
    return tag("svg", empty_tag("rect", width=10, height=10, rx=2, class_=name), viewBox="0 0 10 10")


def key(entries: Sequence[tuple[str, str]]) -> Markup:
    """A legend. entries: (CSS class of the colour, words)."""
    return tag("div", *(tag("span", swatch(name), words) for name, words in entries), class_="key")
