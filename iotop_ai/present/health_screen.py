"""The health screen as lines: list or one disk, the keys that work, and the question before a self-test."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.model.frame import Frame
from iotop_ai.present.dialogue import inner_width, over
from iotop_ai.present.glyphs import in_ascii
from iotop_ai.present.health_detail import body_rows, detail_rows
from iotop_ai.present.health_list import list_rows
from iotop_ai.present.health_view import Dialogue, DiskRow, HealthView, disk_row, disk_rows, why_no_test, words_of
from iotop_ai.present.keys import above_rows
from iotop_ai.present.line import Line, Span, blank, row
from iotop_ai.present.units import duration
from iotop_ai.present.view import View

SAFE = (
    "The disk tests itself, in the background: it goes on serving reads and writes, a little slower, and no data is "
    "changed. It is never begun in captive mode."
)
TALL = 40
"""From here on the list has room for the page of the disk under its cursor."""


def health_screen_rows(frame: Frame, view: View, health: HealthView, width: int, height: int) -> list[Line]:
    """Exactly ``height`` lines of ``width`` columns."""
    room = max(0, height - 1)
    made = detail_rows(frame, health, width, room) if health.disk else list_rows(frame, health, width, room)
    below = None if health.disk or height < TALL else subject(frame, health)
    if below is not None and len(made) + 1 < room:
        made = [*made, blank(width), *body_rows(below, width, spread=True, verdict=False)]
    out = above_rows(made, _keys(frame, health), view, width, height)
    return out if health.dialogue is None else in_ascii(_asked(out, frame, health.dialogue, width), view.ascii_only)


def subject(frame: Frame, health: HealthView) -> DiskRow | None:
    """The disk that a key is about: the one shown, else the one under the cursor."""
    rows = disk_rows(frame)
    return disk_row(frame, health.disk or health.cursor) or (rows[0] if rows and not health.disk else None)


def _keys(frame: Frame, health: HealthView) -> list[tuple[str, str]]:
    """The keys that work here and now."""
    if health.dialogue is not None:
        return [("Enter", "do it"), ("Esc", "leave it")]
    out = [("Esc", "back")]
    out += [("b/n", "disk"), ("Up/Down", "scroll")] if health.disk else [("Up/Down", "disk"), ("Enter", "open")]
    if not why_no_test(subject(frame, health), health):
        out.append(("T", "self-test"))
    if health.may_ask:
        out.append(("u", "ask now"))
    return [*out, ("?", "help"), ("q", "quit")]


def _asked(behind: list[Line], frame: Frame, dialogue: Dialogue, width: int) -> list[Line]:
    """The dialogue in the middle of what stands behind it, which is muted and goes on living; the keys stay."""
    inner = inner_width(width)
    out = over(behind[:-1], _dialogue(frame, dialogue, inner), width, len(behind) - 1)
    return [*out, behind[-1]]


def _dialogue(frame: Frame, dialogue: Dialogue, width: int) -> list[Line]:
    one = disk_row(frame, dialogue.disk)
    state = None if one is None else one.state
    words = ("abort",) if one is None else words_of(one)
    text: list[list[Span]] = []
    if state is not None and words == ("abort",):
        done = 100 - (state.self_test_left_percent or 0)
        text += _paragraph(f"A self-test of this disk runs, {done} % are done. Ending it changes no data.", width)
    else:
        text += _paragraph(SAFE, width)
        text.append([])
        for word, minutes in (
            ("short", None if state is None else state.test_short_minutes),
            ("long", None if state is None else state.test_long_minutes),
        ):
            takes = "the disk does not say how long" if minutes is None else f"about {duration(minutes * 60)}"
            text.append([Span(f" {word:<7}", "strong"), Span(takes)])
    text.append([])
    question = f" Type {' or '.join(words)}, then Enter: "
    text.append([Span(question), Span(dialogue.typed, "strong"), Span(" ", "cursor")])
    text.append([Span(f" {dialogue.said}", "warn")] if dialogue.said else [])
    title = f" self-test of {dialogue.disk} "
    rows = [row(width, [Span(title.ljust(width), "block-warn")])]
    return [*rows, *(row(width, spans or [Span(" ")], background="panel") for spans in text)]


def _paragraph(text: str, width: int) -> list[list[Span]]:
    return [[Span(f" {line}")] for line in wrap(text, width - 2)]
