"""Rows that do not all fit: the shown ones, with a last row that says what is below."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.present.text.line import Line, Span, row
from iotop_ai.present.text.units import plural


def scrolled(rows: Sequence[Line], room: int, scroll: int, width: int) -> list[Line]:
    """The ``room`` rows from ``scroll`` on, or as many as there are; with more, the last one counts those below."""
    counts = len(rows) > room > 1
    room -= counts
    first = max(0, min(scroll, len(rows) - room))
    shown = list(rows[first : first + room])
    if counts:
        shown.append(row(width, [], [Span(below_note(len(rows) - first - room), "dim")]))
    return shown


def below_note(below: int) -> str:
    """ " 3 more rows below ", or " the end " without any."""
    return f" {plural(below, 'more row')} below " if below else " the end "


def most_scroll(rows: int, room: int) -> int:
    """The largest ``scroll`` that still fills the room."""
    return rows - room + (room > 1) if rows > room else 0
