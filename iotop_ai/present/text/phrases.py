"""Spans of a sentence by their weight."""

from __future__ import annotations

from iotop_ai.present.text.line import Span

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
