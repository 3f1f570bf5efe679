"""A Story as Markdown, for a merge request or a ticket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotop_ai.export.report import words
from iotop_ai.export.report.money import Price
from iotop_ai.export.report.story import Story
from iotop_ai.export.report.tables import ReportTable, every_table

_SPECIAL = "\\`*_{}[]()#+!|~$@"
_ENTITY = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "}


def escaped(text: str) -> str:
    """The text with the special characters of Markdown and HTML escaped."""
    return "".join(f"\\{char}" if char in _SPECIAL else _ENTITY.get(char, char) for char in text)


def render_report_markdown(story: Story, price: Price | None = None) -> str:
    """The report as Markdown: the verdict, the findings, and every table."""
    return "\n".join([*_head(story, price), *(line for table in every_table(story, price) for line in _table(table))])


def _head(story: Story, price: Price | None) -> Iterator[str]:
    yield f"# {escaped(words.title(story))}"
    yield ""
    yield f"**{words.state_word(story)}**: {escaped(words.headline(story))}"
    yield ""
    if sentence := words.gpu_sentence(story, price):
        yield f"**{escaped(sentence)}**"
        yield ""
    if story.main_job is not None:
        yield escaped(words.job_sentence(story.main_job))
        yield ""
    if sentence := words.step_sentence(story):
        yield escaped(sentence)
        yield ""
    for finding in story.findings:
        yield f"- **{finding.finding.state.value}** {escaped(finding.sentence)} ({escaped(finding.finding.class_id)})"
        for label, text in words.finding_lines(finding):
            yield f"  - {label}: {escaped(text)}"
    yield ""


def _table(table: ReportTable) -> Iterator[str]:
    yield f"## {escaped(table.title)}"
    yield ""
    yield _row(table.columns)
    yield "|" + "|".join("---" if i < table.text_columns else "---:" for i in range(len(table.columns))) + "|"
    for row in table.rows:
        yield _row(row)
    yield ""
    if table.note:
        yield escaped(table.note)
        yield ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"
