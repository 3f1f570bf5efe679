"""A question over the screen: what stands behind it is muted and goes on living."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from iotop_ai.present.glyphs import in_ascii
from iotop_ai.present.line import Line, Span, cells, cut_spans, even, plain, row, spans_cells

WIDEST = 64
LABEL = 12
"""The column in which a labelled sentence begins."""
Row = list[Span]


def inner_width(width: int) -> int:
    """Columns of a dialogue on a screen of this width."""
    return min(WIDEST, max(10, width - 4))


def dialogue_rows(
    behind: Sequence[Line],
    title: str,
    note: str,
    head: Sequence[Row],
    tail: Sequence[Row],
    size: tuple[int, int],
    *,
    ascii_only: bool = False,
) -> list[Line]:
    """The whole screen of ``size`` (width, height). head: what and at which cost; tail: the choice, never cut.

    [] is a blank row; those go first where the screen is low, then the end of the head. A row whose first span has
    the token "sel" is the one under the cursor.
    """
    width, height = size
    inner = inner_width(width)
    made = [row(inner, [Span(f" {title} ", "block-warn"), Span(f" {note}")], background="panel")]
    made += [_row(inner, spans) for spans in _fitted(head, tail, height - 1)]
    return in_ascii(over(behind, made, width, height), ascii_only)


def over(behind: Sequence[Line], made: Sequence[Line], width: int, height: int) -> list[Line]:
    """The rows of a dialogue in the middle of what stands behind it, which is muted."""
    texts = [line.text for line in behind[:height]]
    texts += [" " * width] * (height - len(texts))
    out = [Line((Span(text, "behind"),)) for text in texts]
    inner = inner_width(width)
    left = (width - inner) // 2
    first = max(0, (height - len(made)) // 2)
    for i, line in enumerate(made[: height - first]):
        text = texts[first + i]
        if not (even(text) and len(text) == width):  # a wide character could be cut in two
            text = " " * width
        sides = Span(text[:left], "behind"), Span(text[left + inner :], "behind")
        out[first + i] = Line((sides[0], *line.spans, sides[1]), line.background or "panel")
    return out


def _row(width: int, spans: Row) -> Line:
    if spans and spans[0].token == "sel":
        return row(width, [Span(spans[0].text, "strong"), *spans[1:]], background="sel")
    return row(width, spans or [Span(" ")], background="panel")


def _fitted(head: Sequence[Row], tail: Sequence[Row], room: int) -> list[Row]:
    body: list[Row] = [[], *head, [], *tail, []]
    if len(body) <= room:
        return body
    body = [spans for spans in (*head, *tail) if spans]
    end = [spans for spans in tail if spans][-room:]
    return [*body[: max(0, room - len(end))], *end] if len(body) > room else body


def fact(label: str, text: str, width: int, *, token: str = "dim", text_token: str = "text") -> list[Row]:
    """A labelled sentence, wrapped under itself."""
    lines = wrap(text, max(10, width - LABEL - 2)) or [""]
    first = [Span(f"   {label}".ljust(LABEL), token), Span(lines[0], text_token)]
    return [first, *([Span(" " * LABEL), Span(line, text_token)] for line in lines[1:])]


def choice(key: str, text: str, note: str, width: int, *, chosen: bool, open_: bool) -> Row:
    """One of several, with what it means at its right. open_: whether it may be taken."""
    left = Span(f" {'>' if chosen else ' '} {key}  {text}", "sel" if chosen else "text" if open_ else "mute")
    gap = width - cells(left.text) - cells(note) - 2
    if gap < 1:
        return cut_spans([left], width)
    return [left, Span(" " * gap), Span(note, "dim" if open_ else "mute"), Span("  ")]


def may_rows(how: str | None, reason: str, remedy: str, width: int) -> list[Row]:
    """What this user may do. how: "root" (nothing is said), "sudo", "" (may not), None while that is being asked."""
    if how is None:
        return fact("may", "asking what is permitted ...", width)
    if how == "sudo":
        return fact("may", "sudo allows it without a password", width)
    if how:
        return []
    return [
        *fact("may not", plain(reason), width, token="warn"),
        *(fact("remedy", plain(remedy), width) if remedy else []),
    ]


def typing_word(word: str, typed: str, width: int) -> Row:
    """The row in which a word is typed that confirms."""
    before = [Span("type ", "dim"), Span(word, "strong"), Span(" and press ", "dim"), Span("Enter"), Span(": ")]
    return typing(before, typed, width)


def typing(before: Row, typed: str, width: int) -> Row:
    """The row in which something is typed; of a long text its end is shown."""
    room = width - spans_cells(before) - 15
    while cells(typed) > max(4, room):
        typed = typed[1:]
    row_ = [Span("   "), *before, Span(typed, "strong"), Span(" ", "cursor")]
    end = [Span("Esc", "key"), Span(":leave  ", "dim")]
    return [*row_, Span(" " * max(1, width - spans_cells(row_) - spans_cells(end))), *end]
