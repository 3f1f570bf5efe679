"""Labelled fields side by side, as many in a row as fit."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.text.line import Line, Span, cut_spans, row, spans_cells

_GAP = "   "


class Field(NamedTuple):
    """A labelled value. tail: the dim text after the value (a unit, a limit or a detail), with a leading blank if it
    needs one.
    """

    label: str
    value: str
    tail: str = ""
    token: str = "text"


def _row(spans: list[Span], width: int) -> Line:
    """The row without the gap after its last field."""
    *first, last = spans
    return row(width, cut_spans([*first, last._replace(text=last.text.removesuffix(_GAP))], width))


def field_rows(fields: Iterable[Field], width: int) -> list[Line]:
    """The fields in rows; a field that does not fit starts a new row."""
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
