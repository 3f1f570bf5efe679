"""A comparison as text for the terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from iotop_ai.export.compare.comparison import Change, Comparison, listed_changes
from iotop_ai.export.compare.sentence import change_text, interval_text, sentence, value_text
from iotop_ai.export.field_names import rounded
from iotop_ai.export.json.condition import outcome_object
from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.export.report import words
from iotop_ai.export.report.story import Story
from iotop_ai.export.report.tables import ReportTable
from iotop_ai.export.report.text import bar, table_lines
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.playback.timeline_reader import MARK
from iotop_ai.present.text.glyphs import ascii_text
from iotop_ai.present.text.line import cut
from iotop_ai.present.text.units import duration
from iotop_ai.present.verdict.plain_text import LABEL

SHAPE = 1
NOTE = "Clear: zero is outside the interval, and the change is at least 3 points of a share or 5 % of a figure."
Object = dict[str, Any]
_ALIGNED = {"job": "each job from its first step on", "time": "the whole of each"}
_MARK_CELLS = 24


def changes_table(found: Comparison) -> ReportTable:
    """One row for each figure; the last column says whether the change is clear."""
    rows = [
        (
            one.title,
            value_text(one.before, one.unit),
            value_text(one.after, one.unit),
            change_text(one),
            interval_text(one),
            clear_text(one),
        )
        for one in listed_changes(found.changes)
    ]
    columns = ("figure", "before", "after", "change", "95 % interval", "clear")
    return ReportTable("What changed", columns, tuple(rows), 1, NOTE)


def clear_text(one: Change) -> str:
    """Whether a change is clear: "yes", "no", or "?" if unknown."""
    return "yes" if one.clear else "no" if one.is_known else "?"


def sides(found: Comparison) -> tuple[tuple[str, Story], ...]:
    """("before", first run) and ("after", second run)."""
    return (("before", found.before), ("after", found.after))


def aligned_text(found: Comparison) -> str:
    """Which parts of the runs are compared, such as "each job from its first step on: 72 s and 28 s"."""
    first, second = (duration(window.seconds) for window in found.windows)
    return f"{_ALIGNED.get(found.aligned_by) or _marks_text(found)}: {first} and {second}"


def _marks_text(found: Comparison) -> str:
    """The names of the two marks that limit the compared parts; any program of the user can set marks."""
    begin, end = (
        next((e.text for e in found.before.events if (e.kind, e.wall_ns) == (MARK, at_ns)), "?")
        for at_ns in found.windows[0]
    )
    return f'from mark "{cut(begin, _MARK_CELLS)}" to "{cut(end, _MARK_CELLS)}"'


def render_compare_text(found: Comparison, width: int, *, ascii_only: bool = False) -> str:
    """The comparison as text: the sentence, both bars and the table."""
    text = "\n".join(_lines(found, width))
    return "\n".join(map(ascii_text, text.split("\n"))) if ascii_only else text


def _lines(found: Comparison, width: int) -> Iterator[str]:
    yield sentence(found)
    yield ""
    for word, story in sides(found):
        yield f"{word:<{LABEL}}{story.file}: {words.title(story)}"
        main = story.main_job
        if main is not None:
            yield f"{'':<{LABEL}}{words.job_sentence(main)}"
            yield f"{'':<{LABEL}}{bar(main, story, width - LABEL)}"
    yield f"{'compared':<{LABEL}}{aligned_text(found)}"
    yield ""
    yield from table_lines(changes_table(found), width)


def render_compare_json(found: Comparison, outcomes: Sequence[ConditionResult] = ()) -> str:
    """The comparison as indented ASCII JSON, without a final newline."""
    return json.dumps(compare_object(found, outcomes), indent=1, allow_nan=False)


def compare_object(found: Comparison, outcomes: Sequence[ConditionResult] = ()) -> Object:
    """The comparison as a JSON object: base units, ratios from 0 to 1, null when unknown."""
    return {
        "shape": SHAPE,
        "sentence": sentence(found),
        "aligned_by": found.aligned_by,
        "runs": [
            {
                "file": story.file,
                "host": story.machine.host.name,
                "begin": rfc3339(window.begin_ns),
                "end": rfc3339(window.end_ns),
                "job": None if story.main_job is None else story.main_job.pid,
                "disk": disk or None,
            }
            for (_, story), window, disk in zip(sides(found), found.windows, found.job_disks, strict=True)
        ],
        "changes": [
            {
                "name": one.name,
                "title": one.title,
                "unit": one.unit,
                "before": rounded(one.before),
                "after": rounded(one.after),
                "difference": rounded(one.difference),
                "low": None if one.interval is None else rounded(one.interval.low),
                "high": None if one.interval is None else rounded(one.interval.high),
                "clear": one.clear if one.is_known else None,
            }
            for one in found.changes
        ],
        "fail_if": [outcome_object(one) for one in outcomes],
    }
