"""The help screen: the keys at the left, what the columns mean at the right."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.model.frame import Frame
from iotop_ai.present.columns import rule
from iotop_ai.present.keys import keys_of
from iotop_ai.present.line import Cell, Line, Span, blank, place, row
from iotop_ai.present.panel import panel
from iotop_ai.present.view import View

INDENT = 7
"""Columns of a key's name."""
COLUMNS = (
    ("r/s w/s", "requests done per second"),
    ("rMB/s", "1 MB = 1,048,576 B, as iostat -m"),
    ("rareq", "mean size of a read; avgrq-sz was of reads and writes, in sectors"),
    ("r_await", "ms of a read, its queue included"),
    ("aqu-sz", "mean under way, once avgqu-sz"),
    ("%util", "time with a request under way; 100 proves nothing on NVMe and RAID"),
    ("svctm", "gone: it was %util over r/s + w/s, never a time of service"),
    ("busy%", "a kernel ran, however small"),
    ("bw%", "GPU memory was read or written"),
    ("IO-wait%", "blocked on disk, the worst of xN"),
    ("cpu%", "100 is one core, the most of xN"),
    ("state", "D waits for I/O, R runs, S sleeps"),
    ("xN", "N alike, their bytes added up"),
    ("health", "SMART; none: it has none"),
    ("0 - ?", "zero, nothing to measure, unknown"),
)
"""Titles and what they mean, with the names of older sysstat and why one of them is not shown."""


@panel
def help_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """A whole screen: two columns from 72 columns on, one below the other in less."""
    two = width >= 72
    left_width = (width - 2) * 7 // 16 if two else width - 2
    right_width = width - left_width - 3 if two else width - 2
    keys = [("keys", ""), *((k.keys, k.text) for k in keys_of(view))]
    left = _table(keys, INDENT, left_width)
    right = _table([("columns", ""), *COLUMNS], 9, right_width)
    body = _beside(left, right, width, left_width) if two else [place(width, *c) for c in (*left, [], *right)]
    out = [rule(width, "help", [Span("any key goes back", "dim")]), *body]
    out = out[: max(1, height - 1)]
    out += [blank(width)] * (height - 1 - len(out))
    end = [Span(" ? ", "unsure"), Span("is never a zero: the row's reason says what is missing", "dim")]
    return [*out, row(width, end)]


def _table(entries: list[tuple[str, str]], indent: int, width: int) -> list[list[Cell]]:
    """Rows of (term, text), the text wrapped at words behind the term."""
    out: list[list[Cell]] = []
    for term, text in entries:
        lines = wrap(text, width - indent - 1) or [""]
        for i, line in enumerate(lines):
            out.append(
                ([Cell(1, term, "key" if text else "title")] if i == 0 else []) + [Cell(1 + indent, line, "dim")]
            )
    return out


def _beside(left: list[list[Cell]], right: list[list[Cell]], width: int, at: int) -> list[Line]:
    out = []
    for i in range(max(len(left), len(right))):
        found = list(left[i]) if i < len(left) else []
        if i < len(right):
            found += [c._replace(column=c.column + at + 1) for c in right[i]]
        out.append(place(width, *found))
    return out


def lines_needed(width: int, view: View = View()) -> int:  # noqa: B008 - a frozen record
    """Rows of the help at this width, the last one included."""
    two = width >= 72
    left_width = (width - 2) * 7 // 16 if two else width - 2
    left = len(_table([("keys", ""), *((k.keys, k.text) for k in keys_of(view))], INDENT, left_width))
    right = len(_table([("columns", ""), *COLUMNS], 9, width - left_width - 3 if two else width - 2))
    return 2 + (max(left, right) if two else left + 1 + right)
