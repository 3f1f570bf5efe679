"""The health screen as lines: the list of disks or the page of one, the keys, and the question before a self-test."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.model.frame import Frame
from iotop_ai.model.health.identity import replaced_disk_text
from iotop_ai.present.health.detail import body_rows, detail_rows
from iotop_ai.present.health.table import list_rows
from iotop_ai.present.health.view import Dialog, DiskRow, HealthView, accepted_words, disk_row, disk_rows, why_no_test
from iotop_ai.present.screen.dialog import inner_width, overlay_rows
from iotop_ai.present.screen.key_row import above_rows, keys_above, mode_spans
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.glyphs import in_ascii
from iotop_ai.present.text.line import Line, Span, blank, row
from iotop_ai.present.text.units import duration
from iotop_ai.present.verdict.banner import verdict_row

TEST_IS_SAFE = (
    "The disk tests itself, in the background: it keeps serving reads and writes, a little slower, and no data is "
    "changed. The test never runs in captive mode."
)
TALL = 40
"""The minimum height of a screen that shows the page of the disk under the cursor below the list."""


def health_screen_rows(frame: Frame, view: View, health: HealthView, width: int, height: int) -> list[Line]:
    """The screen as exactly ``height`` lines of ``width`` columns."""
    room = max(0, height - 2)
    rows = detail_rows(frame, view, health, width, room) if health.disk else list_rows(frame, view, health, width, room)
    disk_below = None if health.disk or height < TALL else target_disk(frame, health)
    if disk_below is not None and len(rows) + 1 < room:
        rows = [*rows, blank(width), *body_rows(disk_below, view, width, spread=True, verdict=False)]
    rows = [verdict_row(frame, view, width), *rows]
    out = above_rows(rows, _keys(frame, view, health), view, width, height, mode_spans(frame, view))
    return out if health.dialog is None else in_ascii(_with_dialog(out, frame, health.dialog, width), view.ascii_only)


def target_disk(frame: Frame, health: HealthView) -> DiskRow | None:
    """The disk that a key acts on: the disk whose page is open, otherwise the disk under the cursor, otherwise the
    first; None without disks, or if the disk of the open page is gone.
    """
    rows = disk_rows(frame)
    return disk_row(frame, health.disk or health.cursor) or (rows[0] if rows and not health.disk else None)


def _keys(frame: Frame, view: View, health: HealthView) -> list[tuple[str, str]]:
    """(keys, word) of each action that is possible now."""
    if health.dialog is not None:
        return [("Enter", "do it"), ("Esc", "leave it")]
    names = ["health.back"]
    names += ["health.previous", "health.up"] if health.disk else ["health.up", "health.disk"]
    if not why_no_test(target_disk(frame, health), health):
        names.append("health.test")
    if health.may_ask:
        names.append("health.ask")
    entries = keys_above((*names, "health.help", "app.quit"), view)
    return [(key.keys, "scroll" if health.disk and "health.up" in key.actions else key.word) for key in entries]


def _with_dialog(lines: list[Line], frame: Frame, dialog: Dialog, width: int) -> list[Line]:
    """The dialog over the dimmed screen. The row of keys stays as it is."""
    inner = inner_width(width)
    out = overlay_rows(lines[:-1], _dialog(frame, dialog, inner), width, len(lines) - 1)
    return [*out, lines[-1]]


def _dialog(frame: Frame, dialog: Dialog, width: int) -> list[Line]:
    disk = disk_row(frame, dialog.disk)
    if disk is None:
        text = [[Span(f" {dialog.disk} is gone: press Esc to close.", "warn")]]
    else:
        text = _question(disk, dialog, width)
    title = f" self-test of {dialog.disk} "
    rows = [row(width, [Span(title.ljust(width), "block-warn")])]
    return [*rows, *(row(width, spans or [Span(" ")], background="panel") for spans in text)]


def _question(disk: DiskRow, dialog: Dialog, width: int) -> list[list[Span]]:
    """What a self-test does, or what ending it does; the accepted words; and why the last input was refused."""
    state, words = disk.state, accepted_words(disk)
    text: list[list[Span]] = []
    if state is not None and words == ("abort",):
        left_percent = state.self_test_left_percent
        done = "" if left_percent is None else f", {100 - left_percent} % is done"
        text += _paragraph(f"A self-test of this disk runs{done}. Ending it changes no data.", width)
    else:
        text += _paragraph(TEST_IS_SAFE, width)
        text.append([])
        for word, minutes in (
            ("short", None if state is None else state.test_short_minutes),
            ("long", None if state is None else state.test_long_minutes),
        ):
            duration_text = (
                "the disk does not report its duration" if minutes is None else f"about {duration(minutes * 60)}"
            )
            text.append([Span(f" {word:<7}", "strong"), Span(duration_text)])
    text.append([])
    question = f" Type {' or '.join(words)}, then Enter: "
    text.append([Span(question), *dialog.typed.spans(max(2, width - len(question)), "strong")])
    is_replaced = dialog.identity.is_other(disk.identity)
    error = f"{replaced_disk_text(dialog.disk)}: press Esc to close." if is_replaced else dialog.error
    text.append([Span(f" {error}", "warn")] if error else [])
    return text


def _paragraph(text: str, width: int) -> list[list[Span]]:
    return [[Span(f" {line}")] for line in wrap(text, width - 2)]
