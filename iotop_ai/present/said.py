"""The parts of a sentence with their weight."""

from __future__ import annotations

from iotop_ai.present.line import Span

Spans = list[Span]
SEMI, COMMA = Span("; "), Span(", ")


def plain(text: str) -> Span:
    """Words."""
    return Span(text)


def strong(text: str) -> Span:
    """What matters: figures, names."""
    return Span(text, "strong")


def bad(text: str) -> Span:
    """What is to blame."""
    return Span(text, "bad")
