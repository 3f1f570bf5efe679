"""The order of a list that is searched while the user types."""

from __future__ import annotations

from iotop_ai.present.screen.actions import Action
from iotop_ai.present.screen.palette import Entry, matching_entries

SORTS = tuple(
    Entry(Action((), "", text, name), name)
    for name, text in (("io", "bytes read and written"), ("write", "bytes written"), ("delay", "blocked on disk wait"))
)


def test_a_name_or_text_that_begins_with_the_typed_text_comes_first() -> None:
    assert [entry.action.name for entry in matching_entries(SORTS, "w")] == ["write", "io", "delay"]
    assert [entry.action.name for entry in matching_entries(SORTS, "blocked")] == ["delay"]
    assert [entry.action.name for entry in matching_entries(SORTS, "")] == ["io", "write", "delay"]
