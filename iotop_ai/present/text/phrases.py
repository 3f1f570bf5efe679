"""The Spans of a sentence, by the weight of their words, and the shortening of a sentence at the end of a clause."""

from __future__ import annotations

import re
from collections.abc import Sequence

from iotop_ai.present.text.line import Span, cells

Spans = list[Span]
SEMI, COMMA = Span("; "), Span(", ")


def plain(text: str) -> Span:
    """A span of plain words."""
    return Span(text)


def strong(text: str) -> Span:
    """A span that holds a figure or a name."""
    return Span(text, "strong")


def bad(text: str) -> Span:
    """A span that names the culprit."""
    return Span(text, "bad")


def first_parts(parts: Sequence[str], separator: str, room: int) -> str:
    """The first part, and as many of the next ones as fit completely."""
    text = parts[0]
    for part in parts[1:]:
        if cells(f"{text}{separator}{part}") > room:
            break
        text += f"{separator}{part}"
    return text


_CLAUSE_END = re.compile("; |: |, | \\(")


def whole_clauses(text: str, room: int) -> str:
    """The sentence without the last clauses that do not fit; unchanged if not even the first clause fits. It is never
    cut inside brackets.
    """
    if cells(text) <= room:
        return text
    heads = [text[: end.start()] for end in _CLAUSE_END.finditer(text, 1)]
    whole = (head for head in reversed(heads) if head.count("(") <= head.count(")"))
    return next((head for head in whole if cells(head) <= room), text)
