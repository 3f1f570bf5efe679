"""The last row: the keys that work, the filter being typed, and a short answer to the last key."""

from __future__ import annotations

from typing import NamedTuple

from iotop_ai.model.frame import Frame
from iotop_ai.present.line import Line, Span, cells, cut, row, spans_cells
from iotop_ai.present.panel import panel
from iotop_ai.present.view import View


class Key(NamedTuple):
    """One entry: the key or keys as printed, a word, and what it does in the help. drop: larger goes first."""

    keys: str
    word: str
    text: str
    drop: int


KEYS = (
    Key("q", "", "quit", 0),
    Key("?", "", "this help, also F1", 0),
    Key("Tab", "panel", "next panel; Up, Down, PgUp, PgDn, Home, End move in it", 2),
    Key("b/n", "disk", "previous, next disk; also Left, Right and a click", 1),
    Key("/", "find", "filter processes; Enter keeps it, Esc clears it", 1),
    Key("< >", "sort", "sort by another column", 3),
    Key("r", "turn", "reverse the order", 6),
    Key("o", "active", "only what is active", 4),
    Key("a", "sums", "sums since now, or rates", 5),
    Key("Space", "pause", "stop drawing, go on watching", 3),
    Key("+ -", "interval", "interval, 0.1 s to 60 s", 4),
    Key("1-7", "panels", "show or hide a panel", 7),
)
"""In the order of the row; every one of them works."""


@panel
def keys_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """One row: the keys, or the filter while it is typed."""
    if view.typing:
        end = [Span("Enter", "key"), Span(":keep ", "dim"), Span("Esc", "key"), Span(":clear ", "dim")]
        room = max(0, width - spans_cells(end) - 5)
        typed = view.pattern
        while cells(typed) > room:
            typed = typed[1:]
        return [row(width, [Span(" /", "key"), Span(typed), Span(" ", "cursor")], end)]
    right: list[Span] = []
    if view.pattern:
        right = [Span("/", "key"), Span(cut(view.pattern, 20)), Span(" "), Span("Esc", "key"), Span(":clear ", "dim")]
    return [row(width, _entries(width - 1 - spans_cells(right)), right)]


def _entries(room: int) -> list[Span]:
    kept = list(KEYS)
    while True:
        spans: list[Span] = []
        for key in kept:
            spans.append(Span(f" {key.keys}", "key"))
            if key.word:
                spans.append(Span(f":{key.word}", "dim"))
        if spans_cells(spans) <= room or len(kept) <= 2:
            return spans
        worst = max(k.drop for k in kept)
        kept.remove([k for k in kept if k.drop == worst][-1])


def toast(view: View, width: int) -> Line | None:
    """The answer to the last key, right-aligned on a panel; its first word carries the outcome. None without one."""
    if not view.message:
        return None
    first, _, rest = view.message.partition(" ")
    token = "bad" if first.startswith("failed") else "ok" if first.startswith("done") else "text"
    text = cut(rest, max(0, width - cells(first) - 6))
    body = [Span("  "), Span(first, token), Span(f" {text}" if text else ""), Span("  ")]
    return row(width, [Span(" ")], [s for s in body if s.text], background="panel")
