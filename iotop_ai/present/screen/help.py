"""The help screen: the keys and the meaning of the columns, on one page if there is room."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.screen.actions import APP_ACTIONS, SCREENS
from iotop_ai.present.screen.column_help import COLUMN_HELP
from iotop_ai.present.screen.key_row import Key, is_disabled, keys_above, keys_of
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.glyphs import in_ascii
from iotop_ai.present.text.line import Cell, Line, Span, cells, cut, fill_rows, place, row, spans_cells
from iotop_ai.present.text.table import rule

TITLES = {
    "gpu": "GPU screen",
    "device": "device screen",
    "health": "health screen",
    "reasoning": "reasons",
    "jobs": "jobs",
    "process": "process screen",
    "fleet": "fleet",
    "fleet_jobs": "jobs across machines",
}
"""The titles in the help of all screens but the main one."""
WITHOUT_MAIN = ("fleet", "fleet_jobs")
"""The screens that have no main screen below them."""
_APP_NAMES = ("app.palette", "app.picture", "app.quit")
"""The actions of the whole app that the help lists, in this order."""

COLUMN_CELLS = 38
"""The minimum width of a column on a page."""
LEAST_CELLS = 29
"""The minimum width of a column of a screen's keys, which have to fit on one page."""
MEANINGS = "column meanings"
_TITLE_CELLS = 9
"""The width of the titles of the explained table columns; a longer title has its own row."""
_FRAME_ROWS = 2
"""The number of rows around a page: the rule above it and the row below it."""

_Block = list[list[Cell]]
"""The rows of one entry, which stay together, or the rows of a whole page column."""


class _Page(NamedTuple):
    """A page of the help. rows: the rows below the title. about: the content in words, for the hint on the previous
    page.
    """

    rows: list[Line]
    about: str


def help_rows(view: View, width: int, height: int, page: int = 0, screen: str = "main") -> list[Line]:
    """The help as a whole screen. page: the index of the page to show; the last page if there are fewer. screen: the
    screen to explain, whose keys come first.
    """
    all_pages = _pages(view, width, height, screen)
    page = min(page, len(all_pages) - 1)
    number = f" {page + 1}/{len(all_pages)}" if len(all_pages) > 1 else ""
    title = f"help{f': {TITLES[screen]}' if screen in TITLES else ''}{number}"
    hints = ["any key goes back"]
    if page + 1 < len(all_pages):
        hints = [
            f"Space: {all_pages[page + 1].about}; other keys go back",
            "Space: more; other keys go back",
            "Space: more",
        ]
    room = width - cells(title) - 12
    out = [rule(width, title, [Span(next((hint for hint in hints if cells(hint) <= room), hints[-1]), "dim")])]
    out += all_pages[page].rows
    end = [Span(" ? ", "unsure"), Span("means unknown, never zero; the row says why", "dim")]
    words = [Span("words: iotop-ai help STARVED ", "dim")]
    words = words if spans_cells(end) + spans_cells(words) < width else []
    return in_ascii([*fill_rows(out, width, height - 1), row(width, end, words)], view.ascii_only)


def screen_keys(view: View, screen: str) -> tuple[Key, ...]:
    """The keys that work on this screen in this mode, as the user has set them; () for the main screen."""
    if screen not in TITLES:
        return ()
    own = [action.name for action in SCREENS[screen] if action not in APP_ACTIONS]
    return keys_above((*own, *_APP_NAMES), view)


def page_count(width: int, height: int, view: View, screen: str = "main") -> int:
    """The number of pages at this size."""
    return len(_pages(view, width, height, screen))


def _pages(view: View, width: int, height: int, screen: str) -> list[_Page]:
    """The help as one page, with page columns as wide as possible, if everything fits; otherwise as several pages.

    The pages of a screen over the main one are in this order: its keys, the meaning of its columns, the keys of the
    main screen. Those of the main screen begin with its keys.
    """
    most_columns = max(1, (width - 1) // COLUMN_CELLS)
    room = max(1, height - _FRAME_ROWS)
    own = screen_keys(view, screen)
    for number in range(min(2, most_columns), most_columns + 1):
        column_cells = (width - 1) // number
        groups = _groups(view, own, screen, column_cells, room)
        if sum(map(len, groups)) <= number:
            return [_Page(_lines([column for group in groups for column in group], width, column_cells), "")]
    first = [_own_page(view, own, width, room)] if own else []
    meanings, keys = (groups[1], groups[2] if len(groups) > 2 else []) if own else (groups[1], groups[0])
    if most_columns == 1 and len(keys) == len(meanings) == 1 and len(keys[0]) + len(meanings[0]) < room:
        return [*first, _Page(_lines([[*keys[0], [], *meanings[0]]], width, column_cells), "every key")]
    out = first
    more = ((meanings, MEANINGS), (keys, "more keys"))
    for group, about in more if own else reversed(more):
        out += [
            _Page(_lines(group[at : at + most_columns], width, column_cells), about)
            for at in range(0, len(group), most_columns)
        ]
    return out


def _own_page(view: View, own: tuple[Key, ...], width: int, room: int) -> _Page:
    """The keys of a screen, as from ``screen_keys``, on one page, in as few columns as possible."""
    for number in range(1, max(1, (width - 1) // LEAST_CELLS) + 1):
        column_cells = (width - 1) // number
        columns = _page_columns(_key_table("keys", own, view, column_cells), room)
        if len(columns) <= number:
            break
    return _Page(_lines(columns[:number], width, column_cells), "")


def _groups(view: View, own: tuple[Key, ...], screen: str, column_cells: int, room: int) -> list[list[_Block]]:
    """The keys of the screen, the meaning of its columns, and, for a screen over the main one, the keys of the main
    screen.

    Each of these is a list of page columns of at most ``room`` rows. own: the keys from ``screen_keys``.
    """
    main = _key_table("keys of the main screen" if own else "keys", keys_of(view), view, column_cells)
    meanings = _table([("columns", ""), *COLUMN_HELP[screen]], _TITLE_CELLS, column_cells - 1)
    tables = [_key_table("keys", own, view, column_cells), meanings, main] if own else [main, meanings]
    if screen in WITHOUT_MAIN:
        tables.remove(main)
    return [_page_columns(table, room) for table in tables]


def _key_table(title: str, listed: tuple[Key, ...], view: View, column_cells: int) -> list[_Block]:
    indent = max(6, min(10, max(len(key.keys) for key in listed) + 1))
    disabled = frozenset(key.keys for key in listed if is_disabled(key, view))
    return _table([(title, ""), *((key.keys, key.text) for key in listed)], indent, column_cells - 1, disabled)


def _page_columns(blocks: list[_Block], room: int) -> list[_Block]:
    """The blocks, stacked into columns of at most ``room`` rows; a block that does not fit starts a new column."""
    out: list[_Block] = [[]]
    for block in blocks:
        if out[-1] and len(out[-1]) + len(block) > room:
            out.append([])
        out[-1] += block
    return out


def _lines(columns: list[_Block], width: int, column_cells: int) -> list[Line]:
    """The columns side by side, as rows."""
    out = []
    for y in range(max(map(len, columns))):
        row_cells = []
        for number, column in enumerate(columns):
            if y < len(column):
                row_cells += [cell._replace(column=cell.column + number * column_cells) for cell in column[y]]
        out.append(place(width, *row_cells))
    return out


def _table(
    entries: list[tuple[str, str]], indent: int, width: int, disabled: frozenset[str] = frozenset()
) -> list[_Block]:
    """Each entry as rows: the term, then its text, wrapped at words. disabled: the terms of keys that do not work."""
    out: list[_Block] = []
    for term, text in entries:
        lines = wrap(text, max(8, width - indent - 1), break_on_hyphens=False) or [""]
        token, text_token = ("mute", "mute") if term in disabled else ("key" if text else "title", "dim")
        wide = bool(text) and cells(term) > indent - 1
        first = Cell(1, cut(term, width - 2) if wide or not text else term, token)
        rows = [
            [*([first] if i == 0 and not wide else []), Cell(1 + indent, t, text_token)] for i, t in enumerate(lines)
        ]
        out.append([[first], *rows] if wide else rows)
    return out
