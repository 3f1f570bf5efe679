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

_Block = list[list[Cell]]
"""The rows of one entry, which stay together."""


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
    """Keys and columns on one page where they fit, in as wide columns as can be; else the keys come first."""
    most = max(1, (width - 1) // COLUMN)
    room = max(1, height - _AROUND)
    for many in range(min(2, most), most + 1):
        each = (width - 1) // many
        keys, columns = _groups(view, each, room)
        if len(keys) + len(columns) <= many:
            return [_lines([*keys, *columns], width, each)]
    if most == 1 and len(keys) == len(columns) == 1 and len(keys[0]) + len(columns[0]) < room:
        return [_lines([[*keys[0], [], *columns[0]]], width, each)]
    return [
        _lines(group[at : at + most], width, each) for group in (keys, columns) for at in range(0, len(group), most)
    ]


def _groups(view: View, each: int, room: int) -> tuple[list[_Block], list[_Block]]:
    """The keys and the columns' meanings, each as columns of the page with at most ``room`` rows."""
    listed = keys_of(view)
    indent = max(6, min(10, max(len(key.keys) for key in listed) + 1))
    may_not = frozenset(key.keys for key in listed if muted(key, view))
    keys = _table([("keys", ""), *((k.keys, k.text) for k in listed)], indent, each - 1, may_not)
    return _packed(keys, room), _packed(_table([("columns", ""), *COLUMNS], 9, each - 1), room)


def _packed(blocks: list[_Block], room: int) -> list[_Block]:
    """The blocks one below the other, a new column where the next does not fit whole."""
    out: list[_Block] = [[]]
    for block in blocks:
        if out[-1] and len(out[-1]) + len(block) > room:
            out.append([])
        out[-1] += block
    return out


def _lines(columns: list[_Block], width: int, each: int) -> list[Line]:
    """Rows of a page of columns side by side."""
    out = []
    for y in range(max(map(len, columns))):
        found = []
        for number, column in enumerate(columns):
            if y < len(column):
                found += [cell._replace(column=cell.column + number * each) for cell in column[y]]
        out.append(place(width, *found))
    return out


def _table(
    entries: list[tuple[str, str]], indent: int, width: int, may_not: frozenset[str] = frozenset()
) -> list[_Block]:
    """An entry's rows: the term, and its text wrapped at words behind it. may_not: terms that cannot be used here."""
    out: list[_Block] = []
    for term, text in entries:
        lines = wrap(text, max(8, width - indent - 1), break_on_hyphens=False) or [""]
        token, text_token = ("mute", "mute") if term in may_not else ("key" if text else "title", "dim")
        first = Cell(1, cut(term, indent - 1) if text else term, token)
        out.append([[*([first] if i == 0 else []), Cell(1 + indent, line, text_token)] for i, line in enumerate(lines)])
    return out
