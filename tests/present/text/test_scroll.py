"""Rows are scrolled if they do not all fit."""

from __future__ import annotations

import pytest

from iotop_ai.present.text.line import Line, Span, row
from iotop_ai.present.text.scroll import below_note, most_scroll, scroll_rows

WIDTH = 40


def rows(count: int) -> list[Line]:
    return [row(WIDTH, [Span(f"row {number}")]) for number in range(count)]


def shown(count: int, room: int, scroll: int) -> list[str]:
    return [" ".join(line.text.split()) for line in scroll_rows(rows(count), room, scroll, WIDTH)]


def test_rows_that_fit_are_shown_whole() -> None:
    assert shown(3, 3, 0) == ["row 0", "row 1", "row 2"]
    assert shown(3, 3, 99) == ["row 0", "row 1", "row 2"]


@pytest.mark.parametrize(
    ("scroll", "expected"),
    [
        (0, ["row 0", "row 1", "3 more rows below"]),
        (2, ["row 2", "row 3", "1 more row below"]),
        (3, ["row 3", "row 4", "the end"]),
        (99, ["row 3", "row 4", "the end"]),
    ],
)
def test_the_last_row_counts_the_rows_below(scroll: int, expected: list[str]) -> None:
    assert shown(5, 3, scroll) == expected


@pytest.mark.parametrize("room", range(1, 8))
def test_the_largest_scroll_position_shows_the_last_row(room: int) -> None:
    most = most_scroll(5, room)
    assert shown(5, room, most) == shown(5, room, 99)
    assert most == 0 or shown(5, room, most - 1) != shown(5, room, most)


def test_a_single_row_is_not_plural() -> None:
    assert (below_note(1), below_note(2), below_note(0)) == (" 1 more row below ", " 2 more rows below ", " the end ")
