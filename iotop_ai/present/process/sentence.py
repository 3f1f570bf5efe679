"""The process panel as a single row, for a screen that has no room for its table."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.present.process.group_stats import group_stats
from iotop_ai.present.process.groups import group_at_cursor, groups, rates_of, selected_group
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line, Span, row
from iotop_ai.present.text.panel import reason_row
from iotop_ai.present.text.units import UNKNOWN, percent, scaled


def sentence_row(frame: Frame, view: View, width: int) -> Line:
    """The group on which a key press acts: its name, bytes, IO-wait and state. Without such a group, the group with the
    most I/O; without I/O, the number of processes.
    """
    table = frame.snapshot.processes.value
    if table is None:
        return reason_row(width, frame.snapshot.processes, view)
    every = groups(frame, view)
    group = selected_group(frame, view) or max((g for g in every if g.io), key=lambda g: g.io or 0.0, default=None)
    if group is None:
        number = f"{len(table.info)} process{'' if len(table.info) == 1 else 'es'}"
        unread = sum(len(g.keys) for g in every if g.io is None)
        unreadable = f", {unread} unreadable" if unread else ""
        io_text = "" if rates_of(frame, view)[0] is None else f", none with I/O{unreadable}"
        return row(width, [Span(f" {number}{io_text}", "dim")])
    out = [Span(" " + group.label)]
    for word, value in (("read", group.rates.read_bytes_per_s), ("write", group.rates.write_bytes_per_s)):
        if value:
            text, letter = scaled(value)
            out += [Span(f"  {word} ", "dim"), Span(text), Span(f" {letter}/s", "dim")]
    if group.io is None:
        out += [Span("  I/O ", "dim"), Span(UNKNOWN, "unsure")]
    if table.delayacct and group.rates.io_delay_ratio is not None:
        out += [Span("  IO-wait ", "dim"), Span(percent(group.rates.io_delay_ratio), "strong"), Span(" %", "dim")]
    state = group_stats(group.keys, table).state
    out += [Span("  state ", "dim"), Span(state, "strong" if state == "D" else "text")]
    background = "sel" if group == group_at_cursor(frame, view) else ""
    return row(width, out, key=group.row_key, background=background)
