"""The shortening of a sentence to a width. Spans that hold only a separator divide the sentence into clauses."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.present.text.line import Span, cells
from iotop_ai.present.text.phrases import Spans

_SEPARATORS = ("; ", ", ", ": ")
_DANGLING = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "in", "is", "no", "of", "on", "or", "the", "to", "with")
)
"""Words that cannot end a sentence; a cut sentence loses them at its end."""


def _text_of(spans: Sequence[Span]) -> str:
    return "".join(span.text for span in spans)


def fit(spans: Sequence[Span], width: int) -> Spans:
    """As many whole clauses from the left as fit in ``width`` columns; no clause ends inside brackets.

    Text in brackets is dropped before a whole clause is. If even the first clause is too long, its last words are
    dropped.
    """
    text = _text_of(spans)
    if cells(text) <= width:
        return list(spans)
    out = _fit(spans, width)
    if _text_of(out) == text or "(" not in text or ("(" in _text_of(out) and _is_whole(out, spans)):
        return out
    rest = _without_brackets(spans)
    bare = _fit(rest, width)
    more = len(_text_of(bare)) > len(_text_of(_without_brackets(out)))
    return bare if more and _is_whole(bare, rest) else out


def _is_whole(part: Sequence[Span], spans: Sequence[Span]) -> bool:
    """Whether ``part``, the beginning of ``spans``, ends where a clause ends."""
    rest = _text_of(spans)[len(_text_of(part)) :]
    return not rest or rest.startswith(_SEPARATORS)


def _without_brackets(spans: Sequence[Span]) -> Spans:
    out, depth = [], 0
    for span in spans:
        kept = ""
        for letter in span.text:
            depth += letter == "("
            if not depth:
                kept += letter
            elif letter == "(" and depth == 1:
                kept = kept.removesuffix(" ")
            depth -= letter == ")"
        if kept:
            out.append(span._replace(text=kept))
    return out


def _fit(spans: Sequence[Span], width: int) -> Spans:
    """``fit`` without the step that drops text in brackets."""
    total, best, open_brackets = 0, -1, 0
    for i, span in enumerate(spans):
        if span.text in _SEPARATORS and total <= width and open_brackets <= 0:
            best = i
        total += cells(span.text)
        open_brackets += span.text.count("(") - span.text.count(")")
    if total <= width:
        return list(spans)
    if best > 0:
        return list(spans[:best])
    out: Spans = []
    room = width
    for span in spans:
        if cells(span.text) <= room:
            out.append(span)
            room -= cells(span.text)
            continue
        words = span.text.split(" ")
        while words and cells(" ".join(words)) > room:
            words.pop()
        if any(words):
            out.append(span._replace(text=_without_cut_end(" ".join(words))))
        break
    return _without_dangling_end(out)


def _without_dangling_end(spans: Spans) -> Spans:
    """The cut words without an unclosed bracket, and without a last word such as "of" that cannot end a clause."""
    text = _without_open_bracket(_text_of(spans)).rstrip(" ,;:")
    while (word_at := text.rfind(" ")) > 0 and text[word_at + 1 :] in _DANGLING:
        text = text[:word_at].rstrip(" ,;:")
    out, room = [], len(text)
    for span in spans:
        if room <= 0:
            break
        out.append(span._replace(text=span.text[:room]))
        room -= len(span.text)
    return out


def _without_cut_end(text: str) -> str:
    """A cut sentence without its incomplete end: cut before an unclosed bracket, otherwise at a comma or colon in its
    second half.
    """
    closed = _without_open_bracket(text)
    if closed == text:
        end = max(text.rfind(sign) for sign in (", ", ": ", "; ", " or "))
        closed = text[:end] if end >= len(text) // 2 else text
    return closed.rstrip(" ,;:")


def _without_open_bracket(text: str) -> str:
    """The text, cut before its last opening bracket if a bracket is not closed."""
    return text[: text.rindex("(")] if text.count("(") > text.count(")") else text
