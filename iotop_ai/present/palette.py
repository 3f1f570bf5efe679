"""The list of every action with its key, searched by typing."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.model.record import NamedTuple
from iotop_ai.present.columns import rule
from iotop_ai.present.glyphs import in_ascii
from iotop_ai.present.keymap import Act, Keymap, key_shown, keys_of_act
from iotop_ai.present.keys import key_row
from iotop_ai.present.line import Cell, Line, Span, cut, filled, place, row

MARKED = "act:"
"""Before an action's name in a row's key."""
_KEYS_AT, _TEXT_AT, _NAME_LAST = 1, 18, 2


class Entry(NamedTuple):
    """An action of the screen below. keys: as the screen prints them, "" when it has none."""

    act: Act
    keys: str


def entries(acts: Iterable[Act], keymap: Keymap = ()) -> tuple[Entry, ...]:
    """Every action once, in the order of the tables."""
    return tuple(Entry(act, " ".join(map(key_shown, keys_of_act(act, keymap)))) for act in acts)


def found(every: Iterable[Entry], typed: str) -> tuple[Entry, ...]:
    """The entries in which every typed word occurs, in what they do, their name or their key; upper case is as lower.

    Those whose text begins with what was typed come first.
    """
    words = typed.lower().split()
    out = [
        entry
        for entry in every
        if all(word in f"{entry.act.text} {entry.act.name} {entry.keys}".lower() for word in words)
    ]
    first = typed.strip().lower()
    return tuple(sorted(out, key=lambda entry: not (first and entry.act.text.lower().startswith(first))))


class Wording(NamedTuple):
    """What a list is called, what Enter does in it, and what it says when nothing matches.

    named: whether the names by which actions are remapped stand at the right.
    """

    title: str = "actions"
    verb: str = "do it"
    none: str = "no action has these words"
    named: bool = True


ACTIONS = Wording()


def palette_rows(
    shown: tuple[Entry, ...],
    at: int,
    typed: str,
    width: int,
    height: int,
    wording: Wording = ACTIONS,
    *,
    ascii_only: bool = False,
) -> list[Line]:
    """A whole screen: the rule, what is typed, the entries around the one under the cursor (keys "act:NAME")."""
    hint = [] if typed else [Span(" type to find", "dim")]
    out = [
        rule(width, wording.title, [Span(f"{len(shown)}", "dim")]),
        row(width, [Span(" > ", "key"), Span(typed), Span(" ", "cursor"), *hint]),
    ]
    room = max(0, height - len(out) - 1)
    start = max(0, min(at - room // 2, len(shown) - room))
    for number, entry in enumerate(shown[start : start + room], start=start):
        named = wording.named and width >= 72
        name_at = width - _NAME_LAST - len(entry.act.name)
        text = cut(entry.act.text, max(0, (name_at if named else width) - _TEXT_AT - 2))
        cells = [
            Cell(_KEYS_AT, cut(entry.keys, _TEXT_AT - _KEYS_AT - 2) or "-", "key" if entry.keys else "dim"),
            Cell(_TEXT_AT, text),
        ]
        if named:
            cells.append(Cell(name_at, entry.act.name, "dim"))
        out.append(place(width, *cells, background="sel" if number == at else "", key=MARKED + entry.act.name))
    if not shown and room:
        out.append(row(width, [Span(f" {wording.none}", "dim")]))
    keys = key_row((("Enter", wording.verb), ("Esc", "back")), width)
    return in_ascii([*filled(out, width, height - 1), keys], ascii_only)
