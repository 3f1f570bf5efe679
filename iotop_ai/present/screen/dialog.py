"""A dialog over the screen. The screen below it is dimmed and continues to update."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.present.text.glyphs import in_ascii
from iotop_ai.present.text.line import Line, Span, cells, cut_spans, is_single_width, plain, row, spans_cells
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.present.text.wrap import wrap_cells

WIDEST = 64
"""The largest width of a dialog, without its border."""
LABEL_CELLS = 12
"""The column in which a labelled sentence begins."""
_UPPER, _SIDE, _LOWER = ("┌", "┐"), ("│", "│"), ("└", "┘")
"""The left and the right end of a row of the border."""
Row = list[Span]


def inner_width(width: int) -> int:
    """The width of a dialog, without its border, on a screen of this width."""
    return min(WIDEST, max(10, width - 4))


def dialog_rows(
    below: Sequence[Line],
    title: str,
    note: str,
    head: Sequence[Row],
    tail: Sequence[Row],
    size: tuple[int, int],
    *,
    ascii_only: bool = False,
) -> list[Line]:
    """The whole screen with a dialog over it.

    below: the rows of the screen. note: the words after the title. head: the rows about effect and cost. tail: the rows
    with the choices. size: the (width, height) of the screen. [] is a blank row. A row whose first span has the token
    "sel" is under the cursor. On a short screen, blank rows are left out first, then the end of the head, then the
    beginning of the tail.
    """
    width, height = size
    inner = inner_width(width)
    dialog = [row(inner, [Span(f" {title} ", "block-warn"), Span(f" {note}")], background="panel")]
    dialog += [_row(inner, spans) for spans in _fitting_rows(head, tail, height - 1)]
    return in_ascii(overlay_rows(below, dialog, width, height), ascii_only)


def overlay_rows(below: Sequence[Line], dialog: Sequence[Line], width: int, height: int) -> list[Line]:
    """The dialog with a border in the middle of the screen's rows, which are dimmed. On a short screen, the border has
    no upper and no lower edge.
    """
    texts = [line.text for line in below[:height]]
    texts += [" " * width] * (height - len(texts))
    out = [Line((Span(text, "behind"),)) for text in texts]
    inner = inner_width(width)
    left = max(1, (width - inner) // 2)
    framed = [(_SIDE, line) for line in dialog]
    if len(dialog) + 2 <= height:
        edge = Line((Span("─" * inner, "rule"),), "panel")
        framed = [(_UPPER, edge), *framed, (_LOWER, edge)]
    first = max(0, (height - len(framed)) // 2)
    for i, (ends, line) in enumerate(framed[: height - first]):
        text = texts[first + i]
        if not (is_single_width(text) and len(text) == width):  # the dialog's edge could cut a wide character in two
            text = " " * width
        before = Span(text[: left - 1], "behind"), Span(ends[0], "rule")
        after = Span(ends[1], "rule"), Span(text[left + inner + 1 :], "behind")
        spans = cut_spans((*before, *line.spans, *after), width)  # on a narrow screen the dialog is too wide
        out[first + i] = Line(tuple(spans), line.background or "panel")
    return out


def _row(width: int, spans: Row) -> Line:
    if spans and spans[0].token == "sel":
        return row(width, [Span(spans[0].text, "strong"), *spans[1:]], background="sel")
    return row(width, spans or [Span(" ")], background="panel")


def _fitting_rows(head: Sequence[Row], tail: Sequence[Row], room: int) -> list[Row]:
    """The rows of head and tail, shortened to ``room`` rows as ``dialog_rows`` describes."""
    body: list[Row] = [[], *head, [], *tail, []]
    if len(body) <= room:
        return body
    body = [spans for spans in (*head, *tail) if spans]
    end = [spans for spans in tail if spans][-room:]
    return [*body[: max(0, room - len(end))], *end] if len(body) > room else body


def labelled_rows(label: str, text: str, width: int, *, token: str = "dim", text_token: str = "text") -> list[Row]:
    """A labelled sentence; the lines after the first are indented to its first word."""
    lines = wrap_cells(text, max(10, width - LABEL_CELLS - 2)) or [""]
    first = [Span(f"   {label}".ljust(LABEL_CELLS), token), Span(lines[0], text_token)]
    return [first, *([Span(" " * LABEL_CELLS), Span(line, text_token)] for line in lines[1:])]


def choice(key: str, text: str, note: str, width: int, *, selected: bool, enabled: bool) -> Row:
    """One of several choices, with a note on the right."""
    left = Span(f" {'>' if selected else ' '} {key}  {text}", "sel" if selected else "text" if enabled else "mute")
    gap = width - cells(left.text) - cells(note) - 2
    if gap < 1:
        return cut_spans([left], width)
    return [left, Span(" " * gap), Span(note, "dim" if enabled else "mute"), Span("  ")]


SUDOERS = "add with sudo visudo: "
"""The words before a line for /etc/sudoers."""


def permission_rows(how: str | None, reason: str, remedy: str, width: int) -> list[Row]:
    """The rows about what this user is allowed to do.

    how: "root" (no rows), "sudo", or "" if it is not allowed; None while that is being checked. reason, remedy: why it
    is not allowed, and what would allow it.
    """
    if how is None:
        return labelled_rows("allowed", "checking permissions ...", width)
    if how == "sudo":
        return labelled_rows("allowed", "sudo allows it without a password", width)
    if how:
        return []
    return [
        *labelled_rows("denied", plain(reason), width, token="warn"),
        *(
            labelled_rows("remedy", f"{SUDOERS if 'NOPASSWD' in remedy else ''}{plain(remedy)}", width)
            if remedy
            else []
        ),
    ]


def confirmation_row(word: str, typed: TypedText, width: int) -> Row:
    """The row in which the user types the word that confirms."""
    before = [Span("type ", "dim"), Span(word, "strong"), Span(" and press ", "dim"), Span("Enter"), Span(": ")]
    return input_row(before, typed, width)


def input_row(before: Row, typed: TypedText, width: int) -> Row:
    """The row in which the user types. If the text does not fit, the part around the cursor is shown."""
    room = width - spans_cells(before) - 15  # the blanks on the left, a blank and the words about Esc
    row_ = [Span("   "), *before, *typed.spans(max(5, room), "strong")]
    end = [Span("Esc", "key"), Span(":leave  ", "dim")]
    return [*row_, Span(" " * max(1, width - spans_cells(row_) - spans_cells(end))), *end]
