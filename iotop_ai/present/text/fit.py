"""The shortening of a sentence to a width. Spans that hold only a separator divide the sentence into clauses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from iotop_ai.lazy.regex import pattern
from iotop_ai.present.text.line import ELLIPSIS, Span, cells, cut_middle, spans_cells
from iotop_ai.present.text.phrases import Spans

_SEPARATORS = ("; ", ", ", ": ")
_DANGLING = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "in", "is", "no", "of", "on", "or", "the", "to", "with")
)
"""Words that cannot end a sentence; a cut sentence loses them at its end."""
_PATH = pattern(r"\S*/\S*/\S*")
_SHORTEST_PATH = 16
"""The fewest columns to which a path is shortened."""


def _text_of(spans: Sequence[Span]) -> str:
    return "".join(span.text for span in spans)


def fit(spans: Sequence[Span], width: int, mark: str = ELLIPSIS) -> Spans:
    """As many whole clauses from the left as fit in ``width`` columns; no clause ends inside brackets.

    Text in brackets is dropped before a whole clause is. If even the first clause is too long, its paths are shortened
    in their middle; if that does not suffice, its last words are dropped, and it ends with ``mark``.
    """
    if spans_cells(spans) <= width:
        return list(spans)
    out = _fit_dropping_brackets(spans, width)
    bare = _without_brackets(spans)
    if _ends_a_clause(out, bare):
        return out
    first = _first_clause(bare)
    short = _with_short_paths(first, width)
    if short != first and spans_cells(short) <= width:
        return short
    room = width - cells(mark)
    out = _fit_dropping_brackets(spans, room)
    if short != first and _word_count(_fit_dropping_brackets(short, room)) > _word_count(out):
        out, bare = _fit_dropping_brackets(short, room), short
    return out if not out or _ends_a_clause(out, bare) else [*out[:-1], Span(out[-1].text + mark, out[-1].token)]


def _fit_dropping_brackets(spans: Sequence[Span], width: int) -> Spans:
    """Like ``_fit_clauses_or_words``, but without text in brackets if more of the other text fits then."""
    out = _fit_clauses_or_words(spans, width)
    if "(" in _text_of(out) and _is_whole(out, spans):
        return out
    rest = _without_brackets(spans)
    bare = _fit_clauses_or_words(rest, width)
    more = len(_text_of(bare)) > len(_text_of(_without_brackets(out)))
    return bare if more and _is_whole(bare, rest) else out


def _is_whole(part: Sequence[Span], spans: Sequence[Span]) -> bool:
    """Whether ``part``, the beginning of ``spans``, ends before a separator, also before one inside a Span."""
    rest = _text_of(spans)[len(_text_of(part)) :]
    return not rest or rest.startswith(_SEPARATORS)


def _ends_a_clause(part: Sequence[Span], bare: Sequence[Span]) -> bool:
    """Whether ``part`` ends where a clause ends.

    bare: the whole Spans without text in brackets; ``part`` is their beginning.
    """
    length, at = len(_text_of(_without_brackets(part))), 0
    for span in bare:
        if at == length and span.text in _SEPARATORS:
            return True
        at += len(span.text)
    return at == length or _text_of(bare).startswith("; ", length)


def _word_count(spans: Sequence[Span]) -> int:
    return len(_text_of(spans).split())


def _first_clause(spans: Sequence[Span]) -> Spans:
    end = next((i for i, span in enumerate(spans) if i and span.text in _SEPARATORS), len(spans))
    return list(spans[:end])


def _with_short_paths(spans: Sequence[Span], width: int) -> Spans:
    """The Spans with paths shortened as far as the width demands, but to no less than _SHORTEST_PATH columns."""
    excess = spans_cells(spans) - width

    def shortened(match: re.Match[str]) -> str:
        nonlocal excess
        path = match[0]
        short = cut_middle(path, max(_SHORTEST_PATH, cells(path) - max(0, excess)))
        excess -= cells(path) - cells(short)
        return short

    return [span._replace(text=_PATH.sub(shortened, span.text)) for span in spans]


def _without_brackets(spans: Sequence[Span]) -> Spans:
    """The Spans without text in brackets. Brackets of code, such as "print(x)", have no blank before them and stay."""
    out, depth, before = [], 0, " "
    for span in spans:
        kept = ""
        for letter in span.text:
            if letter == "(" and (depth or before == " "):
                depth += 1
                if depth == 1:
                    kept = kept.removesuffix(" ")
            if not depth:
                kept += letter
            elif letter == ")":
                depth -= 1
            before = letter
        if kept:
            out.append(span._replace(text=kept))
    return out


def _fit_clauses_or_words(spans: Sequence[Span], width: int) -> Spans:
    """As many whole clauses as fit; if not even the first clause does, as many of its words."""
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
    """The cut words without an unclosed bracket, and without a last word that cannot end a clause: one such as "of", or
    a figure, whose unit may be cut.
    """
    text = _without_open_bracket(_text_of(spans)).rstrip(" ,;:")
    while (word_at := text.rfind(" ")) > 0 and ((word := text[word_at + 1 :]) in _DANGLING or _is_figure(word)):
        text = text[:word_at].rstrip(" ,;:")
    out, room = [], len(text)
    for span in spans:
        if room <= 0:
            break
        out.append(span._replace(text=span.text[:room]))
        room -= len(span.text)
    return out


def _is_figure(word: str) -> bool:
    return word.lstrip("<~≤≥").replace(".", "").replace(",", "").isdecimal()


def _without_cut_end(text: str) -> str:
    """A cut sentence without its incomplete end: cut before an unclosed bracket, otherwise at a separator or an "or" in
    its second half.
    """
    closed = _without_open_bracket(text)
    if closed == text:
        end = max(text.rfind(sign) for sign in (", ", ": ", "; ", " or "))
        closed = text[:end] if end >= len(text) // 2 else text
    return closed.rstrip(" ,;:")


def _without_open_bracket(text: str) -> str:
    """The text, cut before its last opening bracket if a bracket is not closed."""
    return text[: text.rindex("(")] if text.count("(") > text.count(")") else text
