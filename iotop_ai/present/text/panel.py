"""The form of a panel: a function of (frame, view, width, height) that returns rows of exactly that width."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.glyphs import in_ascii
from iotop_ai.present.text.line import Line, Span, row

Rows = Callable[[Frame, View, int, int], list[Line]]
"""A function that returns the rows of a panel for (frame, view, width, height)."""

_WORDS = {
    Status.PENDING: "not read yet",
    Status.ABSENT: "none here",
    Status.UNSUPPORTED: "not supported",
    Status.DENIED: "not permitted",
    Status.FAILED: "failed",
    Status.ASLEEP: "asleep",
    Status.OFF: "off",
    Status.OK: "",
}
"""The word for each status of a Reading."""


def panel(rows: Rows) -> Rows:
    """Decorate a function that makes rows: cut the rows to ``height``, and turn them into ASCII if the View asks for
    it.
    """

    @wraps(rows)
    def cut_to_height(frame: Frame, view: View, width: int, height: int) -> list[Line]:
        if width <= 0 or height <= 0:
            return []
        return in_ascii(rows(frame, view, width, height)[:height], view.ascii_only)

    return cut_to_height


def reason_spans(reading: Reading[Any], view: View | None = None) -> list[Span]:
    """The reason why a Reading has no value, and the remedy; in a replay only the reason, since it is too late to act.

    view: the View of the screen; None if the Reading is of this moment.
    """
    word = _WORDS[reading.status]
    text = reading.reason or word
    if reading.reason and reading.status in (Status.DENIED, Status.FAILED) and word not in text:
        text = f"{word}: {text}"
    out = [Span(text, "dim")]
    if reading.status in (Status.DENIED, Status.FAILED):
        out.insert(0, Span("? ", "unsure"))
    if reading.remedy and (view is None or view.mode != "replay"):
        out += [Span(" (", "dim"), Span(reading.remedy, "text"), Span(")", "dim")]
    return out


def reason_row(width: int, reading: Reading[Any], view: View | None = None) -> Line:
    """One row that says why a panel is empty. view: as in ``reason_spans``."""
    return row(width, [Span(" "), *reason_spans(reading, view)])


def missing_row(width: int, name: str, reading: Reading[Any], view: View) -> Line:
    """One row that says that a device is missing, or why that is unknown. name: the device's name; "" if the machine
    has no such device.
    """
    if reading.value is None:
        return reason_row(width, reading, view)
    if not name:
        return row(width, [Span(" none here", "dim")])
    return row(width, [Span(" "), Span(name, "strong"), Span(f" {missing_words(view)}")])


def missing_words(view: View) -> str:
    """The words after the name of a device that is not in the Frame. In the past, it may not have been added yet."""
    return "is not present at this time" if view.mode in ("replay", "back") else "is no longer present"


def scroll_to(at: int, scroll: int, count: int, visible: int) -> int:
    """The index of the first of ``visible`` rows out of ``count``: as near to ``scroll`` as possible, with row ``at``
    among the rows.
    """
    return max(0, at - visible + 1, min(scroll, at, count - visible))
