"""The help screen: every key, then what the columns mean; on one page where there is room, else on two."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.model.frame import Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.present.columns import rule
from iotop_ai.present.glyphs import in_ascii
from iotop_ai.present.keys import Key, keys_of, muted
from iotop_ai.present.line import Cell, Line, Span, cells, cut, filled, place, row
from iotop_ai.present.screen_keys import TITLES, screen_keys
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
    ("state", "D waits for I/O, R runs, S sleeps; 4s: that and cpu% are 4 s old"),
    ("xN", "N alike, their bytes added up"),
    ("health", "SMART; none: it has none"),
    ("0 - ?", "zero, nothing to measure, unknown"),
)
"""Titles and what they mean, with the names of older sysstat and why one of them is not shown."""

COLUMN = 38
"""The least width of a column of the page."""
LEAST = 29
"""The same for a screen's own keys, which are to be on one page."""
_AROUND = 2
"""The rule and the last row."""

_Block = list[list[Cell]]
"""The rows of one entry, which stay together."""


class _Page(NamedTuple):
    """rows: below the title. about: what stands on it, for the page before."""

    rows: list[Line]
    about: str


def help_rows(frame: Frame, view: View, width: int, height: int, page: int = 0, screen: str = "main") -> list[Line]:
    """A whole screen: entries flow from column to column. screen: whose help it is, whose keys come first."""
    made = _pages(view, width, height, screen)
    page = min(page, len(made) - 1)
    here = f" {page + 1}/{len(made)}" if len(made) > 1 else ""
    title = f"help{f': {TITLES[screen]}' if screen in TITLES else ''}{here}"
    says = ["any key goes back"]
    if page + 1 < len(made):
        says = [f"Space: {made[page + 1].about}; other keys go back", "Space: more; other keys go back", "Space: more"]
    room = width - cells(title) - 12
    out = [rule(width, title, [Span(next((one for one in says if cells(one) <= room), says[-1]), "dim")])]
    out += made[page].rows
    end = [Span(" ? ", "unsure"), Span("is never a zero: the row's reason says what is missing", "dim")]
    return in_ascii([*filled(out, width, height - 1), row(width, end)], view.ascii_only)


def pages(width: int, height: int, view: View, screen: str = "main") -> int:
    """How many pages the help has at this size."""
    return len(_pages(view, width, height, screen))


def _pages(view: View, width: int, height: int, screen: str) -> list[_Page]:
    """All on one page where it fits, in as wide columns as can be; else the screen's own keys have the first page,
    then come those of the main screen, then what the columns mean.
    """
    most = max(1, (width - 1) // COLUMN)
    room = max(1, height - _AROUND)
    own = screen_keys(view, screen)
    for many in range(min(2, most), most + 1):
        each = (width - 1) // many
        groups = _groups(view, own, each, room)
        if sum(map(len, groups)) <= many:
            return [_Page(_lines([column for group in groups for column in group], width, each), "")]
    first = [_own_page(view, own, width, room)] if own else []
    keys, columns = groups[-2:]
    if most == 1 and len(keys) == len(columns) == 1 and len(keys[0]) + len(columns[0]) < room:
        return [*first, _Page(_lines([[*keys[0], [], *columns[0]]], width, each), "every key")]
    out = first
    for group, about in ((keys, "more keys"), (columns, "what columns mean")):
        out += [_Page(_lines(group[at : at + most], width, each), about) for at in range(0, len(group), most)]
    return out


def _own_page(view: View, own: tuple[Key, ...], width: int, room: int) -> _Page:
    """The keys of a screen in as few columns of one page as hold them."""
    for many in range(1, max(1, (width - 1) // LEAST) + 1):
        each = (width - 1) // many
        columns = _packed(_key_table("keys", own, view, each), room)
        if len(columns) <= many:
            break
    return _Page(_lines(columns[:many], width, each), "")


def _groups(view: View, own: tuple[Key, ...], each: int, room: int) -> list[list[_Block]]:
    """The screen's own keys if any, those of the main screen, and the columns' meanings, each as columns of the page
    with at most ``room`` rows.
    """
    main = _key_table("keys of the main screen" if own else "keys", keys_of(view), view, each)
    tables = [main, _table([("columns", ""), *COLUMNS], 9, each - 1)]
    return [_packed(one, room) for one in ([_key_table("keys", own, view, each), *tables] if own else tables)]


def _key_table(title: str, listed: tuple[Key, ...], view: View, each: int) -> list[_Block]:
    indent = max(6, min(10, max(len(key.keys) for key in listed) + 1))
    may_not = frozenset(key.keys for key in listed if muted(key, view))
    return _table([(title, ""), *((key.keys, key.text) for key in listed)], indent, each - 1, may_not)


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
