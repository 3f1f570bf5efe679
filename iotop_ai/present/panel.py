"""What every panel has in common: a pure function of (frame, view, width, height) to rows of exactly that width."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.typed import Any
from iotop_ai.present.glyphs import in_ascii
from iotop_ai.present.line import Line, Span, row
from iotop_ai.present.view import View

Rows = Callable[[Frame, View, int, int], list[Line]]

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


def panel(rows: Rows) -> Rows:
    """At most ``height`` rows, in ASCII where the view asks for it."""

    @wraps(rows)
    def cut_to_height(frame: Frame, view: View, width: int, height: int) -> list[Line]:
        if width <= 0 or height <= 0:
            return []
        made = rows(frame, view, width, height)[:height]
        return in_ascii(made, view.ascii_only)

    return cut_to_height


def why_not(reading: Reading[Any]) -> list[Span]:
    """A Reading without a value in words: its reason and what would mend it."""
    word = _WORDS[reading.status]
    text = reading.reason or word
    if reading.reason and reading.status in (Status.DENIED, Status.FAILED) and word not in text:
        text = f"{word}: {text}"
    out = [Span(text, "dim")]
    if reading.status in (Status.DENIED, Status.FAILED):
        out.insert(0, Span("? ", "unsure"))
    if reading.remedy:
        out += [Span(" (", "dim"), Span(reading.remedy, "text"), Span(")", "dim")]
    return out


def quiet(width: int, reading: Reading[Any]) -> Line:
    """One row that says why a panel is empty."""
    return row(width, [Span(" "), *why_not(reading)])
