"""A comparison as text for the terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from iotop_ai.export.compare.comparison import Change, ChangedDisk, Comparison, listed_changes
from iotop_ai.export.compare.sentence import change_text, interval_text, sentence, value_text
from iotop_ai.export.field_names import rounded
from iotop_ai.export.json.condition import outcome_object
from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.export.report import words
from iotop_ai.export.report.json import timeline_object
from iotop_ai.export.report.story import Story
from iotop_ai.export.report.tables import ReportTable
from iotop_ai.export.report.text import bar, table_lines
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.playback.timeline_reader import MARK
from iotop_ai.present.text.glyphs import ascii_text
from iotop_ai.present.text.line import cut
from iotop_ai.present.text.units import capacity, duration
from iotop_ai.present.verdict.plain_text import LABEL

SHAPE = 1
"""The version of the JSON object. It increases when a field changes its meaning or is removed."""
NOTE = "Clear: zero is outside the interval, and the change is at least 3 points of a share or 5 % of a figure."
Object = dict[str, Any]
_ALIGNMENT_TEXTS = {"job": "each job from its first step on", "time": "the whole of each run"}
_FIELD_TEXTS = {"label": "labels", "model": "models", "kind": "kinds", "size_bytes": "sizes", "detail": "types"}
"""The words for the fields that tell two disks apart."""
_MARK_CELLS = 24
"""The most columns that the name of a mark takes up on the screen."""


def changes_table(comparison: Comparison) -> ReportTable:
    """One row for each figure; the last column says whether the change is clear."""
    rows = [
        (change.title, *_values(change), interval_text(change), clear_text(change))
        for change in listed_changes(comparison.changes)
    ]
    columns = ("figure", "before", "after", "change", "95 % interval", "clear")
    return ReportTable("What changed", columns, tuple(rows), 1, note_text(comparison))


def note_text(comparison: Comparison) -> str:
    """What the column ``clear`` of the table means, with the marks for unknown values if the table has any."""
    changes = listed_changes(comparison.changes)
    marks = ""
    if any("-" in _values(change) for change in changes):
        marks += " -: no value (no such disk, no request, a change from 0)."
    if any(clear_text(change) == "?" for change in changes):
        marks += " ?: unknown whether clear (no value, or too few)."
    return NOTE + marks


def _values(change: Change) -> tuple[str, str, str]:
    """The value before, the value after and the change, as in the table."""
    return value_text(change.before, change.unit), value_text(change.after, change.unit), change_text(change)


def clear_text(change: Change) -> str:
    """Whether a change is clear: "yes", "no", or "?" if unknown."""
    return "yes" if change.clear else "no" if change.is_known else "?"


def sides(comparison: Comparison) -> tuple[tuple[str, Story], ...]:
    """("before", first run) and ("after", second run)."""
    return (("before", comparison.before), ("after", comparison.after))


def verdict_lines(story: Story) -> list[str]:
    """The verdicts of a run with the duration of each, and the sentences of the verdict that counts most."""
    lines = [f"verdict: {words.verdicts_over_time(story) or words.headline(story)}"]
    if story.primary is not None:
        because = f"; {story.primary.because}" if story.primary.because else ""
        lines.append(f"{words.state_word(story)}: {story.primary.sentence}{because}")
    return lines


def aligned_text(comparison: Comparison) -> str:
    """Which parts of the runs are compared, such as "each job from its first step on: 72 s and 28 s"."""
    first, second = (duration(window.seconds) for window in comparison.windows)
    return f"{_ALIGNMENT_TEXTS.get(comparison.aligned_by) or _marks_text(comparison)}: {first} and {second}"


def _marks_text(comparison: Comparison) -> str:
    """The names of the two marks that limit the compared parts, cut off if they are long."""
    begin, end = (
        next((e.text for e in comparison.before.events if (e.kind, e.wall_ns) == (MARK, at_ns)), "?")
        for at_ns in comparison.windows[0]
    )
    return f'from mark "{cut(begin, _MARK_CELLS)}" to "{cut(end, _MARK_CELLS)}"'


def not_compared_text(comparison: Comparison) -> str:
    """The disks that are not compared, and why; "" if all are compared.

    An example: "loop0 is another disk in the second run (sizes 480 MB and 160 MB)".
    """
    return "; ".join(
        f"{disk.name} is another disk in the second run ({_telling_text(disk)})" for disk in comparison.not_compared
    )


def _telling_text(disk: ChangedDisk) -> str:
    """The values by which the two disks of one name differ. Serial numbers are private, so they are not shown."""
    if disk.field == "serial":
        return "other serial number"
    values = [getattr(info, disk.field) for info in (disk.before, disk.after)]
    if disk.field == "size_bytes":
        sizes = [*map(capacity, values)]
        values = sizes if sizes[0] != sizes[1] else [f"{size} B" for size in values]
    return f"{_FIELD_TEXTS[disk.field]} {values[0]} and {values[1]}"


def render_compare_text(comparison: Comparison, width: int, *, ascii_only: bool = False) -> str:
    """The comparison as text: the sentence, the verdicts and bars of both runs, and the table."""
    text = "\n".join(_lines(comparison, width))
    return "\n".join(map(ascii_text, text.split("\n"))) if ascii_only else text


def _lines(comparison: Comparison, width: int) -> Iterator[str]:
    yield sentence(comparison)
    yield ""
    for word, story in sides(comparison):
        yield f"{word:<{LABEL}}{story.file}: {words.title(story)}"
        for line in verdict_lines(story):
            yield from (f"{'':<{LABEL}}{part}" for part in wrap(line, width - LABEL, subsequent_indent="  "))
        main = story.main_job
        if main is not None:
            yield f"{'':<{LABEL}}{words.job_sentence(main)}"
            yield f"{'':<{LABEL}}{bar(main, story, width - LABEL)}"
    yield f"{'compared':<{LABEL}}{aligned_text(comparison)}"
    for i, part in enumerate(wrap(not_compared_text(comparison), width - LABEL)):
        yield f"{'' if i else 'left out':<{LABEL}}{part}"
    yield ""
    yield from table_lines(changes_table(comparison), width)


def render_compare_json(comparison: Comparison, outcomes: Sequence[ConditionResult] = ()) -> str:
    """The comparison as indented ASCII JSON, without a final newline."""
    return json.dumps(compare_object(comparison, outcomes), indent=1, allow_nan=False)


def compare_object(comparison: Comparison, outcomes: Sequence[ConditionResult] = ()) -> Object:
    """The comparison as a JSON object: base units, ratios from 0 to 1, null when unknown."""
    return {
        "shape": SHAPE,
        "sentence": sentence(comparison),
        "aligned_by": comparison.aligned_by,
        "runs": [
            {
                "file": story.file,
                "host": story.machine.host.name,
                "begin": rfc3339(window.begin_ns),
                "end": rfc3339(window.end_ns),
                "job": None if story.main_job is None else story.main_job.pid,
                "disk": disk or None,
                "verdict": None if story.primary is None else story.primary.finding.class_id,
                "state": words.state_word(story),
                "timeline": timeline_object(story),
            }
            for (_, story), window, disk in zip(
                sides(comparison), comparison.windows, comparison.job_disks, strict=True
            )
        ],
        "not_compared": [{"disk": disk.name, "field": disk.field} for disk in comparison.not_compared],
        "changes": [
            {
                "name": change.name,
                "title": change.title,
                "unit": change.unit,
                "before": rounded(change.before),
                "after": rounded(change.after),
                "difference": rounded(change.difference),
                "low": None if change.interval is None else rounded(change.interval.low),
                "high": None if change.interval is None else rounded(change.interval.high),
                "clear": change.clear if change.is_known else None,
            }
            for change in comparison.changes
        ],
        "fail_if": [outcome_object(outcome) for outcome in outcomes],
    }
