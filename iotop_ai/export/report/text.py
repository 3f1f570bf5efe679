"""A Story for the terminal: the verdict, the shares of time, charts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from iotop_ai.export.report import words
from iotop_ai.export.report.money import Price
from iotop_ai.export.report.series import Curve, downsampled
from iotop_ai.export.report.story import JobStory, Story
from iotop_ai.export.report.tables import ReportTable, every_table, key_device
from iotop_ai.export.text.charts import chart
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.verdict_class import State
from iotop_ai.present.job.time_bar import bar_spans
from iotop_ai.present.text.glyphs import ascii_text
from iotop_ai.present.text.state_bar import GAP, MEASURING, Run, run_spans
from iotop_ai.present.text.units import MIB
from iotop_ai.present.verdict.headline import text_of
from iotop_ai.present.verdict.plain_text import LABEL

CHART_ROWS = 10
_SPACES = 2
"""The spaces between two columns of a table."""
_MOST_OTHER_FINDINGS = 4
"""The most findings that are shown below the verdict."""
_SHORTEST_GAP_NS = 2_000_000_000
"""A period without a verdict is shown in the bar if it is longer than this."""
_LEAST_CELL, _LEAST_SENTENCE = 16, 40
"""The smallest widths to which a column of text and a column of sentences are wrapped."""
_DISK_CHARTS = (("read_bytes_per_s", "read, MB/s", 1 / MIB), ("read_await_ms", "r_await, ms", 1.0))

_TIME_UNITS = (("hours", 3600.0, 4 * 3600.0), ("minutes", 60.0, 300.0), ("seconds", 1.0, 0.0))
"""The units of the time axis: the unit's name, its seconds, and the shortest axis for which it is used, in seconds."""


def render_report_text(story: Story, width: int, *, ascii_only: bool = False, price: Price | None = None) -> str:
    """The report as text.

    Charts and bars have at most ``width`` columns; a table with many figures may be wider.
    """
    lines = [*_head(story, width, price), ""]
    for chart_text in _charts(story, width, ascii_only):
        lines += [chart_text, ""]
    for table in every_table(story, price):
        lines += [*table_lines(table, width), ""]
    text = "\n".join(lines).rstrip()
    return "\n".join(map(ascii_text, text.split("\n"))) if ascii_only else text


def _line(label: str, text: str) -> str:
    return f"{label:<{LABEL}}{text}"


def _head(story: Story, width: int, price: Price | None) -> Iterator[str]:
    yield words.title(story)
    yield _line(words.state_word(story), words.headline(story))
    for number, finding in enumerate(story.findings[: 1 + _MOST_OTHER_FINDINGS]):
        if number:
            yield _line(finding.finding.state.value, finding.sentence)
        for label, text in words.finding_lines(finding):
            yield _line(label, text)
    main = story.main_job
    if main is not None:
        yield _line("time", words.job_sentence(main))
        yield _line("", bar(main, story, width - LABEL))
    if sentence := words.gpu_sentence(story, price):
        yield _line("GPU time", sentence)
    if sentence := words.step_sentence(story):
        yield _line("steps", sentence)
    if runs := _runs(story):
        yield _line("verdicts", text_of(run_spans(runs, width - LABEL)))


def _runs(story: Story) -> list[Run]:
    """The verdicts over time, with the time before the first verdict and the time between spans."""
    out: list[Run] = []
    end_ns = story.begin_ns
    for span in story.timeline:
        if span.wall_ns - end_ns > _SHORTEST_GAP_NS:
            out.append(Run(GAP if out else MEASURING, (span.wall_ns - end_ns) / 1e9))
        out.append(Run(span.state.value, span.seconds))
        end_ns = span.wall_ns + span.duration_ns
    return out


def bar(job: JobStory, story: Story, width: int) -> str:
    """The shares of a job's time, as one row of ``width`` columns."""
    state = State.UNSURE if story.primary is None else story.primary.finding.state
    return text_of(bar_spans(job.counts, width, state))


def _charts(story: Story, width: int, ascii_only: bool) -> Iterator[str]:
    """The charts of the GPUs or CPUs, of the most important disk, and of the steps."""
    charts: list[tuple[str, Curve, float]] = []
    if "gpu_busy_ratio" in story.totals:
        charts.append(("GPU busy, %, mean", story.totals["gpu_busy_ratio"], 100))
    elif "cpu_busy_ratio" in story.totals:
        charts.append(("CPU busy, %, all cores", story.totals["cpu_busy_ratio"], 100))
    device = key_device(story)
    for name, title, factor in _DISK_CHARTS:
        if device is not None and name in device.curves:
            charts.append((f"{device.name} {title}", device.curves[name], factor))
    if story.steps is not None and story.steps.curve is not None:
        charts.append(("steps/s", story.steps.curve, 1))
    for title, curve, factor in charts:
        shorter = downsampled(curve, 2 * width)  # a braille character has two columns of dots
        unit, unit_s = next(
            (name, size) for name, size, least in _TIME_UNITS if shorter.step_s * len(shorter.values) >= least
        )
        points = [
            (i * shorter.step_s / unit_s, None if value is None else value * factor)
            for i, value in enumerate(shorter.values)
        ]
        try:
            yield chart(f"{title}, by {unit} since the start", points, width, CHART_ROWS, ascii_only)
        except UnknownError as error:
            yield str(error)


def table_lines(table: ReportTable, width: int) -> list[str]:
    """The table with aligned columns.

    While it is too wide, the columns of ``drop`` are omitted one by one; then the widest column of text is wrapped.
    """
    columns = list(range(len(table.columns)))
    for column in table.drop:
        if _width(table, columns) <= width:
            break
        columns.remove(column)
    widths = [max(len(row[c]) for row in (table.columns, *table.rows)) for c in columns]
    widest = max((c for c in columns if c < table.text_columns), key=lambda c: widths[columns.index(c)])
    at, whole = columns.index(widest), sum(widths) + _SPACES * (len(columns) - 1)
    widths[at] = min(widths[at], max(_LEAST_CELL, widths[at] + width - whole))
    rows = [part for row in (table.columns, *table.rows) for part in _wrapped_rows(row, widest, widths[at])]
    lines = [table.title, *(_row(row, columns, widths, table.text_columns) for row in rows)]
    return [*lines, *wrap(table.note, width)]


def _wrapped_rows(row: Sequence[str], column: int, width: int) -> Iterator[Sequence[str]]:
    """The row with one column wrapped at ``width`` characters; the further rows have only the rest of that column."""
    first, *more = (row[column],) if len(row[column]) <= width else wrap(row[column], width)
    yield [first if c == column else cell for c, cell in enumerate(row)]
    for part in more:
        yield [part if c == column else "" for c in range(len(row))]


def _width(table: ReportTable, columns: Sequence[int]) -> int:
    """The width of these columns if the sentences are wrapped as narrowly as possible."""
    widths = (
        min(max(len(row[c]) for row in (table.columns, *table.rows)), _LEAST_SENTENCE if c == table.wraps else 1000)
        for c in columns
    )
    return sum(widths) + _SPACES * (len(columns) - 1)


def _row(row: Sequence[str], columns: Sequence[int], widths: Sequence[int], text_columns: int) -> str:
    cells = [
        row[c].ljust(size) if c < text_columns else row[c].rjust(size) for c, size in zip(columns, widths, strict=True)
    ]
    return (" " * _SPACES).join(cells).rstrip()
