"""The list of all actions with their keys, which the user searches by typing."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.screen.actions import Action
from iotop_ai.present.screen.key_names import key_label
from iotop_ai.present.screen.key_row import key_row
from iotop_ai.present.screen.keymap import Keymap, keys_of_action
from iotop_ai.present.text.glyphs import in_ascii
from iotop_ai.present.text.line import Cell, Line, Span, cut, fill_rows, place, row
from iotop_ai.present.text.table import rule

KEY_PREFIX = "act:"
"""The key of an entry's row is this prefix and the name of the action."""
_KEYS_AT, _TEXT_AT, _NAME_MARGIN = 1, 18, 2
"""The columns at which the keys and the text start, and the number of blanks after the name."""


class Entry(NamedTuple):
    """An action of the screen below the palette. keys: its keys as shown; "" if it has none."""

    action: Action
    keys: str


def entries(actions: Iterable[Action], keymap: Keymap = ()) -> tuple[Entry, ...]:
    """An entry for each action, in the order of the actions."""
    return tuple(Entry(action, " ".join(map(key_label, keys_of_action(action, keymap)))) for action in actions)


def matching_entries(listed: Iterable[Entry], text: str) -> tuple[Entry, ...]:
    """The entries whose text, name or keys contain every word of ``text``; case does not matter.

    Entries whose text or name begins with ``text`` come first.
    """
    words = text.lower().split()
    out = [
        entry
        for entry in listed
        if all(word in f"{entry.action.text} {entry.action.name} {entry.keys}".lower() for word in words)
    ]
    first = text.strip().lower()

    def comes_later(entry: Entry) -> bool:
        return not (first and any(word.lower().startswith(first) for word in (entry.action.text, entry.action.name)))

    return tuple(sorted(out, key=comes_later))


class Wording(NamedTuple):
    """The words of a list.

    title: the list's title. verb: what Enter does. none: the message when no entry matches. shows_names: whether the
    names of the actions are shown on the right.
    """

    title: str = "actions"
    verb: str = "do it"
    none: str = "no action matches; iotop-ai help lists the shell's commands"
    shows_names: bool = True


ACTIONS = Wording()


def palette_rows(
    listed: tuple[Entry, ...],
    at: int,
    typed: str,
    width: int,
    height: int,
    wording: Wording = ACTIONS,
    *,
    ascii_only: bool = False,
) -> list[Line]:
    """The whole screen: the title, the input row, and the entries around the cursor. at: the index of the entry under
    the cursor.

    The key of an entry's row is "act:NAME".
    """
    hint = [] if typed else [Span(" type to find", "dim")]
    out = [
        rule(width, wording.title, [Span(f"{len(listed)}", "dim")]),
        row(width, [Span(" > ", "key"), Span(typed), Span(" ", "cursor"), *hint]),
    ]
    room = max(0, height - len(out) - 1)
    start = max(0, min(at - room // 2, len(listed) - room))
    for number, entry in enumerate(listed[start : start + room], start=start):
        names_fit = wording.shows_names and width >= 72
        name_at = width - _NAME_MARGIN - len(entry.action.name)
        text = cut(entry.action.text, max(0, (name_at if names_fit else width) - _TEXT_AT - 2))
        cells = [
            Cell(_KEYS_AT, cut(entry.keys, _TEXT_AT - _KEYS_AT - 2) or "-", "key" if entry.keys else "dim"),
            Cell(_TEXT_AT, text),
        ]
        if names_fit:
            cells.append(Cell(name_at, entry.action.name, "dim"))
        out.append(place(width, *cells, background="sel" if number == at else "", key=KEY_PREFIX + entry.action.name))
    if not listed and room:
        out.append(row(width, [Span(f" {wording.none}", "dim")]))
    keys = key_row((("Enter", wording.verb), ("Esc", "back")), width)
    return in_ascii([*fill_rows(out, width, height - 1), keys], ascii_only)
