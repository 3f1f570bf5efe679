"""The last row of a screen: the keys that work, or the text being typed; and the answer to the last key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.present.block import devices
from iotop_ai.present.gpu.groups import selected_gpu
from iotop_ai.present.process.filter import EXAMPLE, parse_filter
from iotop_ai.present.process.groups import selected_group
from iotop_ai.present.screen.actions import Action, Hint, all_actions
from iotop_ai.present.screen.graphs import time_shown
from iotop_ai.present.screen.key_names import key_label
from iotop_ai.present.screen.keymap import Keymap, first_key
from iotop_ai.present.screen.staleness import is_silent, silent_for
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.glyphs import in_ascii
from iotop_ai.present.text.line import DISK_PREFIX, Line, Span, cells, cut, cut_middle, fill_rows, row, spans_cells
from iotop_ai.present.text.panel import panel
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.present.text.units import duration


class Key(NamedTuple):
    """One entry of the row of keys and of the help.

    keys: the keys as shown. word: the word in the row. text: the words in the help. drop: when the row is too short,
    the entry with the highest number is left out first. actions: the names of the entry's actions, in the order of
    ``keys``.
    """

    keys: str
    word: str
    text: str
    drop: int = 0
    actions: tuple[str, ...] = ()


_MODES = {"paused": "PAUSED", "replay": "REPLAY", "back": "BACK", "ended": "REMOTE ended"}
_OPEN, _ZOOM, _RECORD = ("row.open",), ("panels.zoom",), ("time.record",)
_HEALTH, _GPU = ("health.open",), ("gpu.open",)
"""The ``actions`` of the entries that change with the state of the screen."""
_MOST_NAME_CELLS = 14
_HEALTH_CLASS = "failing_disk"
"""While the verdict is of this class, the key of the health screen is always shown: that screen has the evidence."""
_ENTER_WORDS = {"banner": "why", "path": "jobs", "timeline": "10 s"}
"""The word for the screen that Enter opens on a panel without rows; on the timeline, for what the arrow keys do."""
_CHANGING_PREFIXES = ("act.drop", "act.delay", "act.signal", "health.test", "process.act_")
"""An entry changes the machine if the name of one of its actions begins with one of these."""
_LOCAL_ONLY = ("act.check", "time.record", "interval.longer", "time.mark")
"""The actions that are not available for a remote machine."""
_NOW_ONLY = ("detail.record", "process.code", "process.act_", "disk.check", "health.test", "health.ask")
"""On a screen over the main one, an action whose name begins with one of these needs this machine as it is now."""
_OUTCOMES = {"failed": "bad", "done": "ok", "alert:": "warn"}
"""The token for an answer that begins with this word."""
_TAB = "Tab"
_WITHOUT_HINT = {_TAB: Key(_TAB, "panel", "next panel; Up, Down in it", 2)}
"""The entries for which no action has a hint."""

_LIST_KEYS = (
    *("device.list", "filter.open", "sort.previous", "sort.list", "sort.reverse", "rows.tree", "rows.columns"),
    *("rows.tag", "rows.active", "rows.accumulate"),
)
_LAST_KEYS = ("panels.zoom", "panel.banner", "app.palette", "theme.next", "app.picture")
_LIVE_ROW = (
    *("app.quit", "help.open", "row.open", "job.next", _TAB, "device.previous", "device.list", "gpu.open"),
    *(
        "health.open",
        *_LIST_KEYS[1:],
        "time.pause",
        "interval.longer",
        "time.record",
        "time.back",
        "time.leap_back",
        "time.go",
        "time.mark",
    ),
    *(
        "verdict.copy",
        "row.copy",
        "verdict.acknowledge",
        "act.drop_caches",
        "act.check",
        "act.signal",
        "act.delay_accounting",
    ),
    *_LAST_KEYS,
)
_REPLAY_ROW = (
    *(
        "app.quit",
        "help.open",
        "row.open",
        "time.pause",
        "time.back",
        "time.leap_back",
        "time.go",
        "time.next_verdict",
        "time.mark",
    ),
    *(
        "interval.longer",
        _TAB,
        "device.previous",
        "job.next",
        "gpu.open",
        "health.open",
        *_LIST_KEYS,
        "verdict.copy",
        "row.copy",
        *_LAST_KEYS,
    ),
)
_BACK_ROW = (*_REPLAY_ROW[:2], "cursor.last", *_REPLAY_ROW[2:])
_REMOTE_ROW = tuple(name for name in _LIVE_ROW if name not in _LOCAL_ONLY and not name.startswith(_CHANGING_PREFIXES))
"""The actions in the main screen's row of keys, from left to right. Each mode has its row: _LIVE_ROW, _REPLAY_ROW,
_BACK_ROW, _REMOTE_ROW; _LIST_KEYS and _LAST_KEYS are parts that they share. Where two actions share an entry, the row
holds the one that has the hint.
"""


def keys_of(view: View) -> tuple[Key, ...]:
    """The keys that work on the main screen in this mode, as the user has set them."""
    if view.mode in ("back", "replay"):
        keys = _keys(_BACK_ROW if view.mode == "back" else _REPLAY_ROW, "replay", view.keymap)
        return _while_playing(keys) if view.playing else keys
    if view.remote:
        return _keys(_REMOTE_ROW, "hint", view.keymap)
    return _keys(_LIVE_ROW, "hint", view.keymap)


def keys_above(names: tuple[str, ...], view: View) -> tuple[Key, ...]:
    """The keys of these actions that work on a screen over the main one. Actions without a hint are left out."""
    if view.why_not_live:
        names = tuple(name for name in names if not name.startswith(_NOW_ONLY))
    if view.mode not in ("replay", "back"):
        return _keys(names, "above", view.keymap)
    keys = _keys(names, "replay above", view.keymap)
    return _while_playing(keys) if view.playing else keys


def words_above(names: tuple[str, ...], view: View) -> list[tuple[str, str]]:
    """(keys, word) of these actions, for the last row of a screen over the main one."""
    return [(key.keys, key.word) for key in keys_above(names, view)]


def keys_text(name: str, view: View) -> str:
    """The keys in the entry of this action on a screen over the main one: "b/n"."""
    return keys_above((name,), view)[0].keys


@lru_cache(maxsize=32)
def _while_playing(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """The entries while the recording plays, with "pause" in place of "play"."""
    return tuple(key._replace(word="pause") if key.word == "play" else key for key in keys)


@lru_cache(maxsize=32)
def _keys(names: tuple[str, ...], hint_fields: str, keymap: Keymap) -> tuple[Key, ...]:
    """The entries of these actions. hint_fields: the fields of an Action that are tried before ``hint``, separated by
    blanks.
    """
    actions, fields, out = all_actions(), (*hint_fields.split(), "hint"), []
    for name in names:
        if name in _WITHOUT_HINT:
            out.append(_WITHOUT_HINT[name])
        elif hint := next(filter(None, (getattr(actions[name], field) for field in fields)), None):
            out.append(_key(actions[name], hint, actions, dict(keymap)))
    return tuple(out)


def _key(action: Action, hint: Hint, actions: Mapping[str, Action], keymap: Mapping[str, tuple[str, ...]]) -> Key:
    """The entry for a hint, with the user's keys. An action without a key is shown as "none"."""
    names = (action.name, hint.pair) if hint.pair else (action.name,)
    defaults = [key_label(actions[name].keys[0]) for name in names]
    labels = [
        (key_label(keymap[name][0]) if keymap[name] else "none") if name in keymap else default
        for name, default in zip(names, defaults, strict=True)
    ]
    text = hint.help
    if any(name in keymap for name in names):
        more = keymap.get(action.name, ())[1:] if len(names) == 1 else ()
        text = ", also ".join((text.partition(", also ")[0], *([", ".join(map(key_label, more))] if more else [])))
    return Key(_separator(defaults).join(labels), hint.word, text, hint.drop, names)


def _separator(labels: Sequence[str]) -> str:
    """The separator between two keys: "1-7", "[ ]", "b/n"."""
    if any(len(label) > 1 or label.isalpha() for label in labels):
        return "/"
    return "-" if labels[0].isdigit() else " "


@panel
def keys_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """One row: the keys, or the filter, time or mark being typed."""
    if view.time_input is not None:
        return [_time_row(TypedText(view.time_input, view.text_right), width)]
    if view.mark_input is not None:
        typed = TypedText(view.mark_input, view.text_right)
        return [typing_row(width, "'", typed, "mark", "leave", hint="a text, or none")]
    if view.typing:
        example = f"a word, or {EXAMPLE}"
        enter = "" if parse_filter(view.pattern).trouble else "keep"  # an invalid filter stays open
        typed = TypedText(view.pattern, view.text_right)
        return [typing_row(width, "/", typed, enter, "clear", example, selected=view.pattern_selected)]
    right = toast_spans(view, width)
    if view.pattern and not right:
        invalid = [Span(" is not valid", "unsure")] if parse_filter(view.pattern).trouble else []
        pattern = [Span("/", "key"), Span(cut(view.pattern, 20)), *invalid]
        clears = first_key("filter.clear", view.keymap)
        right = [*pattern, Span(" "), *([Span(clears, "key"), Span(":clear ", "dim")] if clears else [])]
    keys = keys_of(view)
    if view.recording is not None:
        keys = tuple(key._replace(word="stop REC") if key.actions == _RECORD else key for key in keys)
    if not frame.snapshot.gpu.value:
        keys = tuple(key for key in keys if key.actions != _GPU)
    if frame.verdict.primary.class_id == _HEALTH_CLASS:
        keys = tuple(key._replace(drop=0) if key.actions == _HEALTH else key for key in keys)
    if view.focus == "timeline":
        keys = tuple(key._replace(keys=_moving_keys(view)) if key.actions == _OPEN else key for key in keys)
    return [_keys_line(keys, _enter_word(frame, view), bool(view.zoom), view.readonly, tuple(right), width)]


def _moving_keys(view: View) -> str:
    """The keys that move along the timeline: "Left Right"; "" if they are unbound."""
    return " ".join(filter(None, (first_key(f"arrow.{way}", view.keymap) for way in ("left", "right"))))


def _enter_word(frame: Frame, view: View) -> str:
    """The word for what Enter opens now, by focus and cursor; "" if it opens nothing.

    On the timeline, the word is for the keys that move along it.
    """
    if view.focus == "timeline" and not _moving_keys(view):
        return ""
    if view.focus == "gpu":
        gpu = selected_gpu(frame, view, view.cursor.removeprefix("gpu:"))
        number = "" if gpu is None or gpu.state is None else f" {gpu.state.number}"
        return "" if gpu is None else f"open GPU{number}"
    if view.focus == "disk":
        device = devices.selected_device(frame, view)
        name = view.cursor.removeprefix(DISK_PREFIX) or ("" if device is None else device.name)
        return name and f"open {name}"
    if view.focus == "process":
        group = selected_group(frame, view)
        return "" if group is None else f"open {cut(group.name, _MOST_NAME_CELLS)}"
    if view.focus in ("graphs", "system"):
        return "all panels" if view.zoom else "zoom"
    return _ENTER_WORDS.get(view.focus, "")


def _changes_machine(key: Key) -> bool:
    """Whether any of the key's actions changes the machine."""
    return any(name.startswith(_CHANGING_PREFIXES) for name in key.actions)


def above_rows(
    rows: Sequence[Line],
    keys: Iterable[tuple[str, str]],
    view: View,
    width: int,
    height: int,
    mode: Sequence[Span] = (),
) -> list[Line]:
    """A screen over the main one as exactly ``height`` rows: its rows, then the keys and the answer to the last key,
    or the time being typed. mode: ``mode_spans``, for the right end of the last row, if no other row has them.
    """
    out = fill_rows(rows, width, height - 1)
    if view.time_input is None:
        last = key_row(keys, width, toast_spans(view, width) or mode)
    else:
        last = _time_row(TypedText(view.time_input, view.text_right), width)
    return in_ascii([*out, last][:height], view.ascii_only)


def _time_row(typed: TypedText, width: int) -> Line:
    """The last row while the user types a time."""
    return typing_row(width, "@", typed, "go", "leave", hint="14:32  -3m  +3m  45%")


def mode_spans(frame: Frame, view: View) -> list[Span]:
    """The mode, for the right end of a row of a screen over the main one, with the time shown if it is in the past.
    While live: [], or for how long no reading has arrived.
    """
    if is_silent(view):
        return [Span(f"{silent_for(view)}  ", "warn")]
    word = _MODES.get(view.mode)
    if word is None:
        return []
    at = time_shown(frame, view)
    if view.mode == "back":
        return [Span(f"{at} ", "dim"), Span(f"◄ {word} {duration(view.back_s)}  ", "mode")]
    if view.mode == "replay":
        return [Span(f"{at} ", "dim"), Span(f"► {word}  " if view.playing else f"{word} paused  ", "mode")]
    return [Span(f"{word}  ", "mode")]


def key_row(keys: Iterable[tuple[str, str]], width: int, right: Sequence[Span] = ()) -> Line:
    """The last row of a screen over the main one: as many (key, word) entries as fit, then the answer to the
    last key.
    """
    spans: list[Span] = []
    room = width - spans_cells(right)
    for key, word in keys:
        more = [Span(f" {key}", "key"), Span(f":{word}", "dim")]
        if spans_cells(spans) + spans_cells(more) <= room:
            spans += more
    return row(width, spans, right)


def is_disabled(key: Key, view: View) -> bool:
    """Whether the key is disabled: it changes the machine, and the View is read-only."""
    return view.readonly and _changes_machine(key)


def typing_row(
    width: int, sign: str, typed: TypedText, enter: str, escape: str, hint: str = "", *, selected: bool = False
) -> Line:
    """The last row while the user types text. enter, escape: the words for what these keys do; enter is "" if the text
    is not valid, because the key then does nothing.

    hint: the words about what to type, shown until a character is typed. selected: whether the typed text is drawn as
    selected, because the next character replaces it.
    """
    on_enter = [Span("Enter", "key"), Span(f":{enter} ", "dim")] if enter else [Span("not valid ", "unsure")]
    end = [*on_enter, Span("Esc", "key"), Span(f":{escape} ", "dim")]
    room = max(1, width - spans_cells(end) - 4)  # the sign after its blank, and two blanks
    left = [Span(f" {sign}", "key"), *typed.spans(room, "cursor" if selected else "text")]
    if hint and not typed.text and cells(hint) + 3 < room:
        left.append(Span(f" {hint}", "dim"))
    return row(width, left, end)


@lru_cache(maxsize=16)
def _keys_line(
    keys: tuple[Key, ...], opens: str, zoomed: bool, readonly: bool, right: tuple[Span, ...], width: int
) -> Line:
    """The row of keys, cached because it rarely changes. opens: the word for what Enter opens."""
    useful = [
        key._replace(word=opens) if key.actions == _OPEN else key for key in keys if key.actions != _OPEN or opens
    ]
    if zoomed:
        zoom = [key._replace(word="all", drop=0) for key in keys if key.actions == _ZOOM]
        useful = [*useful[:2], *zoom, *(key for key in useful[2:] if key.actions != _ZOOM)]
    return row(width, _entries(useful, width - 1 - spans_cells(right), readonly), right)


def _entries(keys: Iterable[Key], room: int, readonly: bool) -> tuple[Span, ...]:
    """The entries as Spans. If they do not fit, those with the highest ``drop`` are left out; at least two stay."""
    listed = list(keys)
    entries = [_entry(key, readonly and _changes_machine(key)) for key in listed]
    widths = [spans_cells(entry) for entry in entries]
    excess, left_out = sum(widths) - room, set[int]()
    for i in sorted(range(len(listed)), key=lambda i: (listed[i].drop, i), reverse=True):
        if excess <= 0 or len(listed) - len(left_out) <= 2:
            break
        left_out.add(i)
        excess -= widths[i]
    return tuple(span for i, entry in enumerate(entries) if i not in left_out for span in entry)


def _entry(key: Key, dim: bool) -> list[Span]:
    word = [Span(f":{key.word}", "mute" if dim else "dim")] if key.word else []
    return [Span(f" {key.keys}", "mute" if dim else "key"), *word]


def toast_spans(view: View, width: int) -> list[Span]:
    """The message (the answer to the last key, or an alert) for the right end of the row of keys; its first word is the
    outcome. [] without a message.

    The message covers only keys, never a measured value.
    """
    if not view.message:
        return []
    first, _, rest = view.message.partition(" ")
    token = next((token for word, token in _OUTCOMES.items() if first.startswith(word)), "text")
    room = max(0, width - cells(first) - 6)
    # A message that ends in a path, or has a path before a reason, is cut so that it keeps the file's name.
    what = rest.partition("; ")[0]
    if cells(rest) > room and "/" in what.rpartition(" ")[2]:
        rest = what
    folders, _, name = rest.rpartition("/")
    text = cut_middle(rest, room, tail=cells(name) + 1 if folders else 0)
    body = [Span("  "), Span(first, token), Span(f" {text}" if text else ""), Span("  ")]
    return [span for span in body if span.text]
