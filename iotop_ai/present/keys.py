"""The last row: the keys that work, the filter being typed, and a short answer to the last key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from iotop_ai.model.frame import Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.present import devices
from iotop_ai.present.glyphs import in_ascii
from iotop_ai.present.gpu_groups import chosen_gpu
from iotop_ai.present.keymap import Keymap, key_shown
from iotop_ai.present.line import DISK_PREFIX, Line, Span, cells, cut, filled, row, spans_cells
from iotop_ai.present.panel import panel
from iotop_ai.present.view import View


class Key(NamedTuple):
    """One entry: the key or keys as printed, a word, and what it does in the help. drop: larger goes first.

    acts: names of the actions (present/keymap.py) in the order of ``keys``; where the user has given them other keys,
    those are printed.
    """

    keys: str
    word: str
    text: str
    drop: int
    acts: tuple[str, ...] = ()


_MODES = {"paused": "PAUSED", "replay": "REPLAY", "back": "BACK"}
_OPEN = ("row.open",)
_OPENED = {"banner": "why", "path": "jobs"}
"""What Enter opens on a panel that has no rows to choose from."""
CHANGES = ("act.", "health.test")
"""How the names of the actions begin that change the machine."""

KEYS = (
    Key("q", "", "quit", 0, ("app.quit",)),
    Key("?", "", "this help, also F1", 0, ("help.open",)),
    Key("Enter", "why", "open what has the focus", 0, ("row.open",)),
    Key("j", "job", "next job; J: every job", 1, ("job.next",)),
    Key("Tab", "panel", "next panel; Up, Down in it", 2),
    Key("b/n", "disk", "previous, next disk", 1, ("device.previous", "device.next")),
    Key("d", "devices", "list of disks, type to find", 4, ("device.list",)),
    Key("g", "GPU", "GPU screen", 2, ("gpu.open",)),
    Key("h", "health", "disks' health", 2, ("health.open",)),
    Key("/", "find", "filter processes; Esc ends", 1, ("filter.open",)),
    Key("< >", "sort", "sort by another column", 3, ("sort.previous", "sort.next")),
    Key("s", "", "sort: list of columns, also F6", 9, ("sort.list",)),
    Key("r", "turn", "reverse the order", 6, ("sort.reverse",)),
    Key("t", "tree", "tree of processes, also F5", 6, ("rows.tree",)),
    Key("C", "", "columns to show, also F2", 9, ("rows.columns",)),
    Key("T/U", "tag", "tag a process; untag all", 6, ("rows.tag", "rows.untag")),
    Key("o", "active", "only what is active", 4, ("rows.active",)),
    Key("a", "sums", "sums since now, or rates", 5, ("rows.accumulate",)),
    Key("Space", "pause", "stop drawing, watch on", 3, ("time.pause",)),
    Key("+ -", "interval", "interval, 0.1 s to 60 s", 4, ("interval.longer", "interval.shorter")),
    Key("R", "record", "record, minute before too", 1, ("time.record",)),
    Key("[ ]", "back", "look back, on; End: now", 2, ("time.back", "time.on")),
    Key("'", "mark", "mark this moment", 5, ("time.mark",)),
    Key("c", "copy", "copy the verdict", 5, ("verdict.copy",)),
    Key("y", "", "copy the row, or all tagged", 9, ("row.copy",)),
    Key("x", "", "acknowledge a failing part", 7, ("verdict.acknowledge",)),
    Key("D", "drop-cache", "drop caches, or evict", 3, ("act.drop_caches",)),
    Key("k/i", "act", "signal, nice, I/O; or tagged", 5, ("act.signal", "act.ionice")),
    Key("Ctrl-T", "waits", "delay accounting on, off", 7, ("act.delay_accounting",)),
    Key("1-7", "panels", "show or hide a panel", 7, ("panel.banner", "panel.system")),
    Key(":", "actions", "every action, also Ctrl-P", 5, ("app.palette",)),
    Key("L", "theme", "next theme", 8, ("theme.next",)),
    Key("P", "picture", "save a picture, also F12", 8, ("app.picture",)),
)
"""In the order of the row; every one of them works."""

REPLAY_KEYS = (
    *(key for key in KEYS if key.keys in ("q", "?", "Enter")),
    Key("Space", "play", "play, pause", 0, ("time.pause",)),
    Key("[ ]", "step", "step; Left, Right: 10 s on its line", 0, ("time.back", "time.on")),
    Key("@", "go", "go to 14:32, -3m or 45%", 1, ("time.go",)),
    Key("v/V", "verdict", "next, last verdict change", 1, ("time.next_verdict", "time.previous_verdict")),
    Key("'", "mark", "next mark, or job's end", 3, ("time.mark",)),
    Key("+ -", "speed", "speed, 0.25x to 64x", 2, ("interval.longer", "interval.shorter")),
    Key("Tab", "panel", "next panel; Up, Down in it", 2),
    Key("b/n", "disk", "previous, next disk", 1, ("device.previous", "device.next")),
    *(
        key
        for key in KEYS
        if key.keys in ("d", "/", "< >", "s", "r", "t", "C", "T/U", "o", "a", "j", "c", "y", "1-7", ":", "L", "P")
    ),
)
"""Of a recording that is looked at."""
BACK_KEYS = (
    *REPLAY_KEYS[:2],
    Key("End", "now", "back to now, also Esc", 0),
    *REPLAY_KEYS[2:],
)
"""While looking back in a session that goes on."""


def keys_of(view: View) -> tuple[Key, ...]:
    """The keys that work in this mode, as the user has set them."""
    return tuple(as_chosen(key, view.keymap) for key in _of_mode(view)) if view.keymap else _of_mode(view)


def as_chosen(key: Key, keymap: Keymap) -> Key:
    """The entry with the user's keys; an action without a key is printed as "none"."""
    chosen = dict(keymap)
    if not any(name in chosen for name in key.acts):
        return key
    between = next((sign for sign in "/-" if sign in key.keys[1:-1]), " ")
    defaults = key.keys.split(between) if len(key.acts) > 1 else [key.keys]
    printed = [
        (key_shown(chosen[name][0]) if chosen[name] else "none") if name in chosen else default
        for name, default in zip(key.acts, defaults, strict=True)
    ]
    text = key.text.partition(", also ")[0]
    more = chosen.get(key.acts[0], ())[1:] if len(key.acts) == 1 else ()
    return key._replace(
        keys=between.join(printed), text=", also ".join((text, ", ".join(map(key_shown, more)))) if more else text
    )


def _of_mode(view: View) -> tuple[Key, ...]:
    if view.mode == "back":
        return BACK_KEYS
    if view.mode == "replay":
        return REPLAY_KEYS
    if view.remote:
        return tuple(k for k in KEYS if k.keys not in ("R", "+ -") and not _changes(k))
    return KEYS


@panel
def keys_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """One row: the keys, or the filter or the time that is being typed."""
    if view.asking is not None:
        return [_typing(width, "@", view.asking, "go", "leave", hint="14:32  -3m  45%")]
    if view.typing:
        return [_typing(width, "/", view.pattern, "keep", "clear")]
    right: list[Span] = []
    if view.pattern:
        right = [Span("/", "key"), Span(cut(view.pattern, 20)), Span(" "), Span("Esc", "key"), Span(":clear ", "dim")]
    keys = tuple(_opens(key, frame, view) for key in keys_of(view))
    shown = tuple(key for key in keys if key.acts != _OPEN or key.word)
    return [row(width, _entries(shown, width - 1 - spans_cells(right), view.readonly), right)]


def _opens(key: Key, frame: Frame, view: View) -> Key:
    """Enter with what it opens now: by the panel that has the focus and what is chosen there, "" for nothing."""
    if key.acts != _OPEN:
        return key
    if view.focus == "gpu":
        found = chosen_gpu(frame, view, view.cursor.removeprefix("gpu:"))
        number = "" if found is None or found.state is None else f" {found.state.number}"
        return key._replace(word="" if found is None else f"GPU{number}")
    if view.focus == "disk":
        chosen = devices.chosen(frame, view)
        return key._replace(word=view.cursor.removeprefix(DISK_PREFIX) or ("" if chosen is None else chosen.name))
    return key._replace(word=_OPENED.get(view.focus, ""))


def _changes(key: Key) -> bool:
    return any(act.startswith(CHANGES) for act in key.acts)


def above_rows(
    made: Sequence[Line], keys: Iterable[tuple[str, str]], view: View, width: int, height: int
) -> list[Line]:
    """A screen above the main one, exactly ``height`` rows: what was made, the answer to the last key, the keys."""
    out = filled(made, width, height - 1)
    answer = toast(view, width)
    if answer is not None and out:
        out[-1] = answer
    return in_ascii([*out, key_row(keys, width)][:height], view.ascii_only)


def mode_spans(view: View) -> list[Span]:
    """Which time such a screen shows, for the right end of its head; [] for now."""
    word = _MODES.get(view.mode)
    return [] if word is None else [Span(f"{word}  ", "mode")]


def key_row(keys: Iterable[tuple[str, str]], width: int) -> Line:
    """The last row of a screen above the main one: (key, word) as far as they fit, whole entries only."""
    spans: list[Span] = []
    for key, word in keys:
        more = [Span(f" {key}", "key"), Span(f":{word}", "dim")]
        if spans_cells(spans) + spans_cells(more) <= width:
            spans += more
    return row(width, spans)


def muted(key: Key, view: View) -> bool:
    """Whether a key changes the machine where nothing may be changed."""
    return view.readonly and _changes(key)


def _typing(width: int, sign: str, typed: str, enter: str, escape: str, hint: str = "") -> Line:
    end = [Span("Enter", "key"), Span(f":{enter} ", "dim"), Span("Esc", "key"), Span(f":{escape} ", "dim")]
    room = max(0, width - spans_cells(end) - 5)
    while cells(typed) > room:
        typed = typed[1:]
    left = [Span(f" {sign}", "key"), Span(typed), Span(" ", "cursor")]
    if hint and not typed and cells(hint) + 2 < room:
        left.append(Span(f" {hint}", "dim"))
    return row(width, left, end)


@lru_cache(maxsize=16)
def _entries(keys: tuple[Key, ...], room: int, readonly: bool) -> tuple[Span, ...]:
    """Those that fit; the same in every picture until a key changes the mode."""
    kept = list(keys)
    while True:
        spans: list[Span] = []
        for key in kept:
            dim = readonly and _changes(key)
            spans.append(Span(f" {key.keys}", "mute" if dim else "key"))
            if key.word:
                spans.append(Span(f":{key.word}", "mute" if dim else "dim"))
        if spans_cells(spans) <= room or len(kept) <= 2:
            return tuple(spans)
        worst = max(k.drop for k in kept)
        kept.remove([k for k in kept if k.drop == worst][-1])


def toast(view: View, width: int) -> Line | None:
    """The answer to the last key, right-aligned on a panel; its first word carries the outcome. None without one."""
    if not view.message:
        return None
    first, _, rest = view.message.partition(" ")
    token = "bad" if first.startswith("failed") else "ok" if first.startswith("done") else "text"
    text = cut(rest, max(0, width - cells(first) - 6))
    body = [Span("  "), Span(first, token), Span(f" {text}" if text else ""), Span("  ")]
    return row(width, [Span(" ")], [s for s in body if s.text], background="panel")
