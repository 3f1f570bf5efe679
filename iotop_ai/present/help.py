"""The help screen: every key, then what the columns mean; on one page where there is room, else on two."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.model.frame import Frame
from iotop_ai.present.columns import rule
from iotop_ai.present.keys import keys_of, muted
from iotop_ai.present.line import Cell, Line, Span, blank, cut, place, row
from iotop_ai.present.view import View

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

COLUMN = 38
"""The least width of a column of the page."""
_AROUND = 2
"""The rule and the last row."""

_Entries = list[list[Cell]]


def help_rows(frame: Frame, view: View, width: int, height: int, page: int = 0) -> list[Line]:
    """A whole screen: entries flow from column to column."""
    made = _pages(view, width, height)
    page = min(page, len(made) - 1)
    here = f"{page + 1}/{len(made)}" if len(made) > 1 else ""
    says = "Space: what the columns mean; other keys go back" if here and page + 1 < len(made) else "any key goes back"
    out = [rule(width, f"help {here}".rstrip(), [Span(says, "dim")]), *made[page]]
    out = out[: max(1, height - 1)]
    out += [blank(width)] * (height - 1 - len(out))
    end = [Span(" ? ", "unsure"), Span("is never a zero: the row's reason says what is missing", "dim")]
    return [*out, row(width, end)]


def pages(width: int, height: int, view: View) -> int:
    """How many pages the help has at this size."""
    return len(_pages(view, width, height))


def _pages(view: View, width: int, height: int) -> list[list[Line]]:
    """Keys and columns on one page where they fit; else the keys on the first pages, the columns behind them."""
    many = max(1, (width - 1) // COLUMN)
    each = (width - 1) // many
    room = max(1, height - _AROUND)
    listed = keys_of(view)
    indent = max(6, min(10, max(len(key.keys) for key in listed) + 1))
    may_not = frozenset(key.keys for key in listed if muted(key, view))
    keys = _table([("keys", ""), *((k.keys, k.text) for k in listed)], indent, each - 1, may_not)
    columns = _table([("columns", ""), *COLUMNS], 9, each - 1)
    if len(keys) <= room and len(columns) <= (many - 1) * room:
        # The columns begin at the top beside the keys.
        return [_flow([*keys, *[[] for _ in range(room - len(keys))], *columns], width, each, room)]
    if many == 1 and len(keys) + len(columns) < room:
        return [_flow([*keys, [], *columns], width, each, room)]
    if (whole := -(-len(keys) // room) * room) + len(columns) <= many * room:
        return [_flow([*keys, *[[] for _ in range(whole - len(keys))], *columns], width, each, room)]
    out = []
    for part in (keys, columns):
        at = 0
        while at < len(part):
            out.append(_flow(part[at : at + many * room], width, each, room))
            at += many * room
    return out


def _flow(entries: _Entries, width: int, each: int, room: int) -> list[Line]:
    """Rows of a page, filled column by column."""
    out = []
    for y in range(min(room, len(entries))):
        found = []
        for number, at in enumerate(range(y, len(entries), room)):
            found += [cell._replace(column=cell.column + number * each) for cell in entries[at]]
        out.append(place(width, *found))
    return out


def _table(
    entries: list[tuple[str, str]], indent: int, width: int, muted_terms: frozenset[str] = frozenset()
) -> _Entries:
    """Rows of (term, text), the text wrapped at words behind the term. muted_terms: that cannot be used here."""
    out: _Entries = []
    for term, text in entries:
        lines = wrap(text, max(8, width - indent - 1), break_on_hyphens=False) or [""]
        for i, line in enumerate(lines):
            dim = term in muted_terms
            token = "mute" if dim else "key" if text else "title"
            first = [Cell(1, cut(term, indent - 1) if text else term, token)] if i == 0 else []
            out.append([*first, Cell(1 + indent, line, "mute" if dim else "dim")])
    return out
