"""Labelled fields, as many on a row as fit."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.text.line import Line, Span, cut_spans, row, spans_cells

_GAP = "   "


class Field(NamedTuple):
    """A labelled value. tail: dim text behind it (unit, limit or detail) with its own leading blank."""

    label: str
    value: str
    tail: str = ""
    token: str = "text"


def _row(spans: list[Span], width: int) -> Line:
    """The row without the gap behind its last field."""
    *first, last = spans
    return row(width, cut_spans([*first, last._replace(text=last.text.removesuffix(_GAP))], width))


def field_rows(fields: Iterable[Field], width: int) -> list[Line]:
    """Rows of fields side by side; a field that does not fit starts a new row."""
    out: list[Line] = []
    spans: list[Span] = [Span(" ")]
    for field in fields:
        more = [Span(f"{field.label} ", "dim"), Span(field.value, field.token), Span(f"{field.tail}{_GAP}", "dim")]
        if spans_cells(spans) + spans_cells(more) - len(_GAP) > width - 1 and len(spans) > 1:
            out.append(_row(spans, width))
            spans = [Span(" ")]
        spans += more
    if len(spans) > 1:
        out.append(_row(spans, width))
    return out
