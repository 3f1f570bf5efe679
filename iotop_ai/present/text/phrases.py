"""Spans of a sentence by their weight, and its clauses."""

from __future__ import annotations

from iotop_ai.present.text.line import Span, cells

Spans = list[Span]
SEMI, COMMA = Span("; "), Span(", ")


def plain(text: str) -> Span:
    """Words."""
    return Span(text)


def strong(text: str) -> Span:
    """Figures and names."""
    return Span(text, "strong")


def bad(text: str) -> Span:
    """The culprit."""
    return Span(text, "bad")


_CLAUSES = ("; ", ": ", ", ", " (")


def whole_clauses(text: str, room: int) -> str:
    """The sentence without its last clauses, so that it fits; as it is where the first clause does not fit either."""
    ends = sorted((i for sign in _CLAUSES for i in _places(text, sign)), reverse=True)
    return next((text[:i] for i in (len(text), *ends) if cells(text[:i]) <= room), text)


def _places(text: str, sign: str) -> list[int]:
    return [i for i in range(1, len(text)) if text.startswith(sign, i)]
