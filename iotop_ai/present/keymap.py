"""Every action a key can have, screen by screen, with its default keys and the name by which the user remaps it.

The screens bind from these tables, the help prints from them, and a settings file is checked against them, so that a
key is written down once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from unicodedata import name as unicode_name

from iotop_ai.model.pattern import pattern
from iotop_ai.model.record import NamedTuple


class Act(NamedTuple):
    """One action. keys: the defaults, as Textual names keys. action: what the screen runs. text: what it does, for
    people. name: unique over all screens. priority: works whatever has the focus.
    """

    keys: tuple[str, ...]
    action: str
    text: str
    name: str
    priority: bool = False


def _key(keys: str, action: str, text: str, name: str, priority: bool = False) -> Act:
    return Act(tuple(keys.split(",")), action, text, name, priority)


PANEL_KEYS = ("banner", "path", "graphs", "gpu", "disk", "process", "system")
"""Panels that 1, 2, ... show and hide, from the top of the screen down."""

APP_ACTS: tuple[Act, ...] = (
    _key("ctrl+c", "quit", "Quit", "app.interrupt", True),
    _key("ctrl+z", "suspend_process", "Suspend to the shell; fg comes back", "app.suspend", True),
    _key("q,f10", "quit", "Quit", "app.quit"),
    _key("colon,ctrl+p", "palette", "Every action, type to find one", "app.palette", True),
    _key("P,f12", "picture", "Save a picture of the screen", "app.picture"),
)
"""On every screen."""

DETAIL_ACTS: tuple[Act, ...] = (
    _key("left_square_bracket", "app.time('step', -1)", "Step back", "detail.back"),
    _key("right_square_bracket", "app.time('step', 1)", "Step on", "detail.on"),
    _key("v", "app.time('verdict', 1)", "Next change of the verdict", "detail.next_verdict"),
    _key("V", "app.time('verdict', -1)", "Previous change of the verdict", "detail.previous_verdict"),
    _key("apostrophe", "app.time('mark')", "Mark now, or the next mark", "detail.mark"),
    _key("R", "app.time('record')", "Record", "detail.record"),
)
"""Keys of time on the screens above the main one: they move the main screen, which these follow."""

MAIN_ACTS: tuple[Act, ...] = (
    _key("question_mark,f1", "help", "Help", "help.open"),
    *(
        _key(str(n), f"panel('{panel}')", f"Show or hide the panel {panel}", f"panel.{panel}")
        for n, panel in enumerate(PANEL_KEYS, 1)
    ),
    _key("g", "gpu", "GPU screen", "gpu.open"),
    _key("h", "health", "Disks' health", "health.open"),
    _key("L", "theme", "Next theme", "theme.next"),
    _key("enter", "open", "Open the row", "row.open"),
    _key("n", "device(1)", "Next device", "device.next"),
    _key("b", "device(-1)", "Previous device", "device.previous"),
    _key("d", "devices", "Choose a device from a list, or follow the job's", "device.list"),
    _key("right", "sideways(1)", "Next device, or 10 s on", "arrow.right"),
    _key("left", "sideways(-1)", "Previous device, or 10 s back", "arrow.left"),
    _key("slash,f3,f4", "find", "Filter processes", "filter.open"),
    _key("escape", "clear", "Clear the filter", "filter.clear"),
    _key("greater_than_sign", "sort(1)", "Sort by the next column", "sort.next"),
    _key("less_than_sign", "sort(-1)", "Sort by the column before", "sort.previous"),
    _key("r", "reverse", "Reverse the order", "sort.reverse"),
    _key("s,f6", "sort_list", "Sort by a column of a list", "sort.list"),
    _key("t,f5", "tree", "Processes under their parents, or folded", "rows.tree"),
    _key("C,f2", "columns", "Show or hide columns", "rows.columns"),
    _key("T", "tag", "Tag the process, or untag it", "rows.tag"),
    _key("U", "untag", "Untag every process", "rows.untag"),
    _key("y", "copy_row", "Copy the row, or every tagged process", "row.copy"),
    _key("o", "only_active", "Only what is active", "rows.active"),
    _key("a", "accumulate", "Accumulated", "rows.accumulate"),
    _key("space", "pause", "Pause, or play", "time.pause"),
    _key("left_square_bracket", "step(-1)", "Step back", "time.back"),
    _key("right_square_bracket", "step(1)", "Step on", "time.on"),
    _key("at", "ask_time", "Go to a time", "time.go"),
    _key("v", "verdict(1)", "Next change of the verdict", "time.next_verdict"),
    _key("V", "verdict(-1)", "Previous change of the verdict", "time.previous_verdict"),
    _key("apostrophe", "mark", "Mark now, or the next mark", "time.mark"),
    _key("R", "record", "Record, or stop recording", "time.record"),
    _key("j", "job(1)", "Next job", "job.next"),
    _key("J", "jobs", "Every job", "job.list"),
    _key("c", "copy", "Copy the verdict", "verdict.copy"),
    _key("x", "acknowledge", "Acknowledge what never clears by itself", "verdict.acknowledge"),
    _key("D", "drop_caches", "Drop caches", "act.drop_caches"),
    _key("ctrl+t", "delay_accounting", "Switch delay accounting", "act.delay_accounting"),
    _key("k,f9", "process('')", "Signal a process", "act.signal"),
    _key("f7,f8", "process('nice ')", "Renice a process", "act.nice"),
    _key("i", "process('io ')", "Change a process's I/O priority", "act.ionice"),
    _key("plus", "interval(1)", "Longer interval", "interval.longer"),
    _key("minus", "interval(-1)", "Shorter interval", "interval.shorter"),
    _key("down", "cursor(1)", "Down", "cursor.down"),
    _key("up", "cursor(-1)", "Up", "cursor.up"),
    _key("pagedown", "page(1)", "Page down", "cursor.page_down"),
    _key("pageup", "page(-1)", "Page up", "cursor.page_up"),
    _key("home", "cursor(-1000000)", "First", "cursor.first"),
    _key("end", "cursor(1000000)", "Last", "cursor.last"),
)

GPU_ACTS: tuple[Act, ...] = (
    _key("escape,g", "back", "Back", "gpu.back"),
    _key("n,right", "gpu(1)", "Next GPU", "gpu.next"),
    _key("b,left", "gpu(-1)", "Previous GPU", "gpu.previous"),
    _key("space", "pause", "Pause", "gpu.pause"),
    _key("plus", "interval(1)", "Longer interval", "gpu.longer"),
    _key("minus", "interval(-1)", "Shorter interval", "gpu.shorter"),
    _key("question_mark,f1", "help", "Help", "gpu.help"),
    _key("end", "app.time('now')", "Back to now", "gpu.now"),
    *DETAIL_ACTS,
)

DEVICE_ACTS: tuple[Act, ...] = (
    _key("escape", "back", "Back", "disk.back"),
    _key("n,right", "device(1)", "Next device", "disk.next"),
    _key("b,left", "device(-1)", "Previous device", "disk.previous"),
    _key("h", "health", "The disk's health", "disk.health"),
    _key("space", "pause", "Pause", "disk.pause"),
    _key("plus", "interval(1)", "Longer interval", "disk.longer"),
    _key("minus", "interval(-1)", "Shorter interval", "disk.shorter"),
    _key("question_mark,f1", "help", "Help", "disk.help"),
    _key("end", "app.time('now')", "Back to now", "disk.now"),
    *DETAIL_ACTS,
)

HEALTH_ACTS: tuple[Act, ...] = (
    _key("escape", "back", "Back", "health.back"),
    _key("h", "main", "To the main screen", "health.main"),
    _key("enter", "open", "Open the disk", "health.disk"),
    _key("down", "move(1)", "Down", "health.down"),
    _key("up", "move(-1)", "Up", "health.up"),
    _key("pagedown", "page(1)", "Page down", "health.page_down"),
    _key("pageup", "page(-1)", "Page up", "health.page_up"),
    _key("home", "move(-1000000)", "First", "health.first"),
    _key("end", "move(1000000)", "Last", "health.last"),
    _key("n,right", "disk(1)", "Next disk", "health.next"),
    _key("b,left", "disk(-1)", "Previous disk", "health.previous"),
    _key("T", "test", "Self-test", "health.test"),
    _key("u", "ask", "Ask the disks now", "health.ask"),
    _key("question_mark,f1", "help", "Help", "health.help"),
    *DETAIL_ACTS,
)

REASON_ACTS: tuple[Act, ...] = (
    _key("escape,enter", "back", "Back", "reason.back"),
    _key("down", "move(1)", "Down", "reason.down"),
    _key("up", "move(-1)", "Up", "reason.up"),
    _key("pagedown", "page(1)", "Page down", "reason.page_down"),
    _key("pageup", "page(-1)", "Page up", "reason.page_up"),
    _key("home", "move(-1000000)", "First", "reason.first"),
    _key("end", "move(1000000)", "Last", "reason.last"),
    _key("c", "below('copy')", "Copy the verdict", "reason.copy"),
    _key("x", "below('acknowledge')", "Acknowledge what never clears by itself", "reason.acknowledge"),
    _key("j", "below('job', 1)", "Next job", "reason.job"),
    _key("space", "below('pause')", "Pause, or play", "reason.pause"),
    _key("question_mark,f1", "help", "Help", "reason.help"),
    *DETAIL_ACTS,
)

JOBS_ACTS: tuple[Act, ...] = (
    _key("escape,J", "back", "Back", "jobs.back"),
    _key("enter", "choose", "Let the verdict be about this job", "jobs.choose"),
    _key("down", "move(1)", "Down", "jobs.down"),
    _key("up", "move(-1)", "Up", "jobs.up"),
    _key("home", "move(-1000000)", "First", "jobs.first"),
    _key("end", "move(1000000)", "Last", "jobs.last"),
    _key("j", "next", "Next job", "jobs.next"),
    _key("question_mark,f1", "help", "Help", "jobs.help"),
    *DETAIL_ACTS,
)

SCREENS: dict[str, tuple[Act, ...]] = {
    "main": (*APP_ACTS, *MAIN_ACTS),
    "gpu": (*APP_ACTS, *GPU_ACTS),
    "device": (*APP_ACTS, *DEVICE_ACTS),
    "health": (*APP_ACTS, *HEALTH_ACTS),
    "reasoning": (*APP_ACTS, *REASON_ACTS),
    "jobs": (*APP_ACTS, *JOBS_ACTS),
}
"""Every screen with the actions that its keys can have; a key has one action on a screen."""

Keymap = tuple[tuple[str, tuple[str, ...]], ...]
"""(name of an action, its keys as Textual names them), of the actions whose keys are not the defaults."""

_SAID = {"esc": "escape", "return": "enter", "del": "delete", "pgup": "pageup", "pgdn": "pagedown", "ins": "insert"}
_SHORT = {
    "escape": "Esc",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "delete": "Del",
    "insert": "Ins",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "apostrophe": "'",
    "plus": "+",
    "minus": "-",
    "slash": "/",
    "at": "@",
    "greater_than_sign": ">",
    "less_than_sign": "<",
}
_SIGNS = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
_NAMED = (
    *("escape", "enter", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"),
    *("up", "down", "left", "right", *(f"f{n}" for n in range(1, 25))),
)
_PARTS = pattern(r"(?<=[a-z])[+-]")
_MODIFIERS = ("ctrl", "shift", "alt")
NO_KEY = "no_key"
"""Stands for the keys of an action that has none: no terminal sends it."""


def key_named(typed: str) -> str | None:
    """Textual's name of a key as people write it ("F6", "ctrl+t", "Space", ">", "R"); None when it is none."""
    text = typed.strip() if len(typed) > 1 else typed
    if len(text) == 1:
        return _character(text)
    if not text:
        return None
    *modifiers, last = (*_PARTS.split(text[:-1].lower()),)
    last += text[-1].lower()
    if any(modifier not in _MODIFIERS for modifier in modifiers) or len(set(modifiers)) < len(modifiers):
        return None
    if len(last) == 1:
        # With Shift a letter is another letter, and what Shift makes of a sign is the keyboard's.
        key = _character(last) if modifiers and "shift" not in modifiers else None
    else:
        last = _SAID.get(last, last)
        key = last if last in _NAMED or _sign(last) else None
    return "+".join((*sorted(modifiers, key=("alt", "ctrl", "shift").index), key)) if key else None


def _character(text: str) -> str | None:
    if text == " ":
        return "space"
    if not text.isprintable():
        return None
    if text.isalnum():
        return text
    made = unicode_name(text, "").lower().replace("-", "_").replace(" ", "_")
    return _SIGNS.get(made, made) or None


def key_shown(key: str) -> str:
    """A key's name as the screen prints it: "F6", "Ctrl-T", "Space", ">"."""
    *modifiers, last = key.split("+")
    shown = _SHORT.get(last) or (last if len(last) == 1 else _sign(last) or last.capitalize())
    if modifiers and len(shown) == 1:
        shown = shown.upper()
    return "-".join((*(modifier.capitalize() for modifier in modifiers), shown))


def _sign(name: str) -> str:
    """The sign of ASCII that Textual calls so; "" when there is none."""
    for code in range(0x21, 0x7F):
        if _character(chr(code)) == name:
            return chr(code)
    return ""


def all_acts() -> dict[str, Act]:
    """Every action by its name, in the order of the screens."""
    return {act.name: act for acts in SCREENS.values() for act in acts}


def keys_of_act(act: Act, keymap: Keymap) -> tuple[str, ...]:
    """The keys that an action has."""
    return dict(keymap).get(act.name, act.keys)


class Taken(NamedTuple):
    """A key that two actions of one screen want: ``by`` as the user said, ``of`` too when ``both``, else by default."""

    key: str
    by: str
    of: str
    both: bool


def remapped(chosen: Mapping[str, Iterable[str]]) -> tuple[Keymap, tuple[Taken, ...]]:
    """The keymap that the user's choice makes, and every key of it that another action of the same screen wants.

    chosen: name of an action to its keys as Textual names them. What the user chose goes before a default, which then
    loses that key.
    """
    keys = {name: tuple(dict.fromkeys(wanted)) for name, wanted in chosen.items()}
    taken: dict[tuple[str, str, str], Taken] = {}
    lost: dict[str, set[str]] = {}
    for acts in SCREENS.values():
        for act in acts:
            for other in acts:
                if other.name == act.name or act.name not in keys:
                    continue
                both = other.name in keys
                for key in keys[act.name]:
                    if key not in keys.get(other.name, other.keys):
                        continue
                    by, of = sorted((act.name, other.name)) if both else (act.name, other.name)
                    taken[key, by, of] = Taken(key, by, of, both)
                    if not both:
                        lost.setdefault(other.name, set()).add(key)
    acts_by_name = all_acts()
    for name, gone in lost.items():
        keys[name] = tuple(key for key in acts_by_name[name].keys if key not in gone)
    return tuple(sorted(keys.items())), tuple(taken.values())
