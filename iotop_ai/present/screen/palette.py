"""The list of all actions with their keys, which the user searches by typing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
_LEAST_NAME_LENGTH = 3
"""The number of characters from which the typed text is taken for the beginning of a command's name."""

SEARCH_WORDS = {
    "app.picture": "save svg image",
    "help.open": "keys columns meaning legend",
    "panels.zoom": "maximise full alone",
    "gpu.open": "nvidia cuda temperature power clocks processes",
    "health.open": "temperature wear failing smartctl",
    "theme.next": "colors contrast",
    "row.open": "page details cause evidence latency p99 percentiles files threads sockets",
    "device.list": "pin volume drive mount latency p99 percentiles",
    "filter.open": "grep query pattern user",
    "sort.list": "order by",
    "rows.columns": "fields",
    "rows.active": "idle hide",
    "rows.accumulate": "sums totals cumulative",
    "time.pause": "freeze stop resume",
    "time.back": "past earlier look back",
    "time.go": "past earlier seek jump",
    "time.record": "save log file",
    "time.mark": "annotate note",
    "job.list": "ranks workers",
    "verdict.copy": "clipboard share paste",
    "row.copy": "clipboard",
    "act.drop_caches": "page cache cold evict memory",
    "act.check": "measure benchmark speed bandwidth fio",
    "act.delay_accounting": "IO-wait blocked",
    "act.signal": "terminate end",
    "act.nice": "priority",
    "interval.longer": "refresh delay speed slower",
    "interval.shorter": "refresh delay speed faster",
    "rates.units": "MiB binary decimal",
    "disk.tab": "latency p99 percentiles processes facts",
    "disk.check": "measure benchmark speed bandwidth fio",
    "process.act_signal": "terminate end",
    "process.act_nice": "priority",
}
"""More words by which an action is found, by the action's name."""


class Entry(NamedTuple):
    """An entry of the list: an action, or another choice in the form of an Action. keys: the text on the left, which
    for an action is its keys; "" if it has none.
    """

    action: Action
    keys: str


def entries(actions: Iterable[Action], keymap: Keymap = ()) -> tuple[Entry, ...]:
    """An entry for each action, in the order of the actions."""
    return tuple(Entry(action, " ".join(map(key_label, keys_of_action(action, keymap)))) for action in actions)


def matching_entries(listed: Iterable[Entry], text: str) -> tuple[Entry, ...]:
    """The entries whose text, name, keys or search words contain every word of ``text``; case does not matter.

    Entries whose text or name begins with ``text`` come first, then those with a word that begins with it.
    """
    words = text.lower().split()
    out = [entry for entry in listed if all(word in _searched(entry) for word in words)]
    first = text.strip().lower()

    def rank(entry: Entry) -> int:
        if not first or any(word.lower().startswith(first) for word in (entry.action.text, entry.action.name)):
            return 0
        return 1 if f" {first}" in _searched(entry) else 2

    return tuple(sorted(out, key=rank))


def _searched(entry: Entry) -> str:
    """The text in which the typed words are searched. A blank precedes each of its words."""
    action = entry.action
    return f" {action.text} {action.name} {entry.keys} {SEARCH_WORDS.get(action.name, '')}".lower()


def matching_commands(commands: Iterable[tuple[str, str]], text: str) -> tuple[tuple[str, str], ...]:
    """The commands of the shell, as (name, help), whose name begins with the typed text; () below three characters."""
    name = text.strip().lower()
    return tuple(command for command in commands if len(name) >= _LEAST_NAME_LENGTH and command[0].startswith(name))


class Wording(NamedTuple):
    """The words of a list.

    title: the list's title. verb: what Enter does. none: the message when no entry matches. shows_names: whether the
    names of the actions are shown on the right.
    """

    title: str = "actions"
    verb: str = "do it"
    none: str = "no action matches; iotop-ai help lists the shell's commands"
    shows_names: bool = True


ACTION_WORDING = Wording()


def palette_rows(
    listed: tuple[Entry, ...],
    at: int,
    typed: str,
    width: int,
    height: int,
    wording: Wording = ACTION_WORDING,
    *,
    ascii_only: bool = False,
    commands: Sequence[tuple[str, str]] = (),
) -> list[Line]:
    """The whole screen: the title, the input row, the entries around the cursor, and the commands of the shell. at: the
    index of the entry under the cursor. commands: (name, help) of each command to show.

    The key of an entry's row is "act:NAME".
    """
    hint = [] if typed else [Span(" type to find", "dim")]
    out = [
        rule(width, wording.title, [Span(f"{len(listed)}", "dim")]),
        row(width, [Span(" > ", "key"), Span(typed), Span(" ", "cursor"), *hint]),
    ]
    room = max(0, height - len(out) - 1)
    shell = [_command_row(width, name, text) for name, text in commands][: room // 2]
    room -= len(shell)
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
    if not listed and not shell and room:
        out.append(row(width, [Span(f" {wording.none}", "dim")]))
    out += shell
    keys = key_row(((("Enter", wording.verb),) if listed else ()) + (("Esc", "back"),), width)
    return in_ascii([*fill_rows(out, width, height - 1), keys], ascii_only)


def _command_row(width: int, name: str, text: str) -> Line:
    """The row of a command, which the user types in a shell."""
    command = f"iotop-ai {name}"
    about = cut(text, max(0, width - _TEXT_AT - len(command) - 4))
    return place(
        width,
        Cell(_KEYS_AT, "in the shell", "dim"),
        Cell(_TEXT_AT, command, "strong"),
        Cell(_TEXT_AT + len(command) + 2, about, "dim"),
    )
