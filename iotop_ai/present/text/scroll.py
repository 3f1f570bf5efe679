"""Rows that do not all fit: the rows shown, and a last row that counts the rows below."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.present.text.line import Line, Span, row
from iotop_ai.present.text.units import plural


def scroll_rows(rows: Sequence[Line], room: int, scroll: int, width: int) -> list[Line]:
    """The rows from ``scroll`` on, at most ``room``. If not all rows fit into a room of two or more, the last one shown
    counts the rows below it.
    """
    has_note = len(rows) > room > 1
    room -= has_note
    first = max(0, min(scroll, len(rows) - room))
    shown = list(rows[first : first + room])
    if has_note:
        shown.append(row(width, [], [Span(below_note(len(rows) - first - room), "dim")]))
    return shown


def below_note(below: int) -> str:
    """The note that counts the rows below the last one shown: " 3 more rows below "; " the end " if there are none."""
    return f" {plural(below, 'more row')} below " if below else " the end "


def most_scroll(rows: int, room: int) -> int:
    """The largest ``scroll`` at which the rows still fill the room."""
    return rows - room + (room > 1) if rows > room else 0
