"""The notes below the table of a comparison."""

from __future__ import annotations

from iotop_ai.export.compare.text import NOTE, changes_table
from iotop_ai.export.html.compare import render_compare_html
from tests.export.compare.kept import comparison


def test_the_marks_for_unknown_values_are_explained_where_a_table_has_them() -> None:
    found = comparison("slow", "memory")
    marks = "-: no value (no such disk, no request, a change from 0). ?: unknown whether clear (no value, or too few)."
    note = f"{NOTE} {marks}"
    assert changes_table(found).note == note
    assert note in render_compare_html(found)
    known = tuple(change for change in found.changes if change.is_known and change.relative is not None)
    assert changes_table(found._replace(changes=known)).note == NOTE
