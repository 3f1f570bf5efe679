"""Every setting that a file or the environment can hold: its name, what it may be, and what it does.

The file's reader, ``iotop-ai config`` and docs/configuration.md are made from this table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from iotop_ai.cli.settings import PREFIX
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.model.parse import parse_duration_s, parse_names
from iotop_ai.model.settings import CMDLINE_LEVELS, LONGEST_S, SHORTEST_S, SORT_KEYS, THEMES, Marks, Settings
from iotop_ai.present.keymap import PANEL_KEYS, all_acts, key_named, key_shown, remapped
from iotop_ai.present.process import optional_columns

AUTO = "auto"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class Setting(NamedTuple):
    """One setting. name: its key in the file, "marks.util" in the table ``marks``. field: where Settings has it.

    read: the value of what the file says (TOML) or the environment (a string), raising UsageError for what it cannot
    be. may: what it can be, for people. example: a line of the file that ``config init`` writes.
    """

    name: str
    field: str
    read: Callable[[object], object]
    may: str
    text: str
    example: str
    in_environment: bool = True

    @property
    def variable(self) -> str:
        """The variable of the environment that sets it; "" where none does."""
        return PREFIX + self.name.upper().replace(".", "_") if self.in_environment else ""


class PartError(UsageError):
    """An entry of a table that cannot be meant. part: its name in the table."""

    def __init__(self, part: str, text: str) -> None:
        self.part = part
        super().__init__(text)


def read_switch(value: object) -> bool:
    """True or false. Raises UsageError."""
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else None
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise UsageError(f"{_said(value)} is neither true nor false")


def duration_between(low: float, high: float) -> Callable[[object], float]:
    """A reader of seconds as a number, or as "500ms"."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise UsageError(f"{_said(value)} is no duration; write 2 or '500ms'")
        seconds = parse_duration_s(value) if isinstance(value, str) else float(value)
        if not low <= seconds <= high:
            raise UsageError(f"{_said(value)} is outside {low:g} to {high:g} seconds")
        return seconds

    return read


def number_between(low: float, high: float) -> Callable[[object], float]:
    """A reader of a number."""

    def read(value: object) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            raise UsageError(f"{_said(value)} is no number")
        if not low <= number <= high:
            raise UsageError(f"{_said(value)} is outside {low:g} to {high:g}")
        return number

    return read


def one_of(words: tuple[str, ...], empty: str = "") -> Callable[[object], str]:
    """A reader of one of these words. empty: a word that stands for ""."""

    def read(value: object) -> str:
        if value in words:
            return str(value)
        if empty and value in ("", empty):
            return ""
        raise UsageError(f"{_said(value)} is none of {', '.join((*words, empty) if empty else words)}")

    return read


def read_text(value: object) -> str:
    """A string."""
    if isinstance(value, str) and "\0" not in value:
        return value
    raise UsageError(f"{_said(value)} is no string")


def read_list(value: object) -> tuple[str, ...]:
    """Names: a TOML list of strings, or a string with commas."""
    if isinstance(value, str):
        return parse_names(value)
    if isinstance(value, list) and all(isinstance(word, str) and word for word in value):
        return tuple(dict.fromkeys(value))
    raise UsageError(f"{_said(value)} is no list of names; write ['sda', 'nvme0n1']")


def read_panels(value: object) -> tuple[str, ...]:
    """Names of panels."""
    names = read_list(value)
    for name in names:
        if name not in PANEL_KEYS:
            raise UsageError(f"{_said(name)} is no panel; there are {', '.join(PANEL_KEYS)}")
    return names


def read_columns(value: object) -> tuple[str, ...]:
    """Ids of columns of the processes."""
    names = read_list(value)
    known = {column.id for column in optional_columns()}
    for name in names:
        if name not in known:
            raise UsageError(f"{_said(name)} is no column that can be left out{nearest(name, known)}")
    return names


def read_smart_types(value: object) -> tuple[tuple[str, str], ...]:
    """A table of disk = what ``smartctl -d`` is given for it."""
    if not isinstance(value, Mapping) or not all(isinstance(kind, str) and kind for kind in value.values()):
        raise UsageError("smart_types is a table; write a line like sda = 'megaraid,3' below [smart_types]")
    return tuple(value.items())


def read_keys(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A table of action = [keys]; the keymap that it makes. Raises UsageError naming the first that cannot be."""
    if not isinstance(value, Mapping):
        raise UsageError('keys is a table; write a line like "sort.next" = ["F11"] below [keys]')
    chosen: dict[str, tuple[str, ...]] = {}
    acts = all_acts()
    for name, keys in flat(value).items():
        if name not in acts:
            raise PartError(name, f"unknown action {_said(name)}{nearest(name, acts)}")
        words = [keys] if isinstance(keys, str) else keys
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise PartError(name, f"{name}: {_said(keys)} is no list of keys; write ['F11', '>']")
        named = [key_named(word) for word in words]
        for word, key in zip(words, named, strict=True):
            if key is None:
                raise PartError(name, f"{name}: {_said(word)} is no key; write F11, Ctrl+T, Space, R or >")
        chosen[name] = tuple(key for key in named if key)
    keymap, taken = remapped(chosen)
    for one in taken:
        if one.both:
            raise PartError(one.of, f"{key_shown(one.key)} is given to {one.by} and to {one.of}; one screen has both")
    return keymap


def flat(table: Mapping[str, object], before: str = "") -> dict[str, object]:
    """A table with its tables inside as dotted names: TOML reads an unquoted ``sort.next`` as a table in a table."""
    out: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            out |= flat(value, f"{before}{name}.")
        else:
            out[before + name] = value
    return out


def nearest(word: str, known: object) -> str:
    """ "; did you mean 'x'?" for the known word that is most like it, "" when none is."""
    import difflib

    names = [str(name) for name in known]  # type: ignore[attr-defined]
    found = difflib.get_close_matches(word, names, 1, 0.55)
    return f"; did you mean {found[0]!r}?" if found else ""


def _said(value: object) -> str:
    text = clean(repr(value) if not isinstance(value, bool) else str(value).lower())
    return text if len(text) <= 40 else f"{text[:37]}..."


_MARKS = Marks()
SETTINGS: tuple[Setting, ...] = (
    Setting(
        *("interval", "interval_s", duration_between(SHORTEST_S, LONGEST_S), "0.1 to 3600 seconds, or '500ms'"),
        *("Time between two readings.", "interval = 1.0"),
    ),
    Setting(
        *("devices", "devices", read_list, "names, labels, /dev paths, patterns; empty: all"),
        *("Only these devices.", "devices = ['nvme0n1', 'md0']"),
    ),
    Setting(
        *("theme", "theme", one_of(THEMES, AUTO), ", ".join((*THEMES, AUTO))),
        *("Colours; auto asks the terminal. NO_COLOR goes before a theme of the file.", "theme = 'auto'"),
    ),
    Setting("ascii", "ascii_only", read_switch, "true, false", "No character beyond ASCII.", "ascii = false"),
    Setting(
        "mouse", "mouse", read_switch, "true, false", "Whether the screen takes the mouse's clicks.", "mouse = true"
    ),
    Setting(
        *("readonly", "readonly", read_switch, "true, false"),
        *("No key and no command changes anything on the machine.", "readonly = false"),
    ),
    Setting(
        *("cmdline", "cmdline", one_of(CMDLINE_LEVELS), ", ".join(CMDLINE_LEVELS)),
        *("How much of a command line is written, printed or copied; the live screen shows all.", "cmdline = 'names'"),
    ),
    Setting(
        *("sort", "sort", one_of(SORT_KEYS), ", ".join(SORT_KEYS)),
        *("The column by which processes are sorted.", "sort = 'io'"),
    ),
    Setting("reverse", "reverse", read_switch, "true, false", "Smallest first.", "reverse = false"),
    Setting(
        *("only_active", "only_active", read_switch, "true, false"),
        *("Only devices and processes that do something.", "only_active = false"),
    ),
    Setting(
        *("hide", "hidden", read_panels, ", ".join(PANEL_KEYS)),
        *("Panels that are not shown.", "hide = []"),
    ),
    Setting(
        *("hide_columns", "no_columns", read_columns, ", ".join(column.id for column in optional_columns())),
        *("Columns of the processes that are not shown.", "hide_columns = []"),
    ),
    Setting(
        *("tree", "tree", read_switch, "true, false"),
        *("Each process in a row of its own under its parent, instead of equal ones folded.", "tree = false"),
    ),
    Setting(
        *("remember", "remember", read_switch, "true, false"),
        *(
            "Begin with the order, device, theme, panels and columns of the last time, where nothing else names them, "
            "and with how long each disk's reads took.",
            "remember = true",
        ),
    ),
    Setting(
        *("exact", "exact", read_switch, "true, false"),
        *(
            "Read every process in every tick also where there are thousands and what is left out can be checked.",
            "exact = false",
        ),
    ),
    Setting("smart", "smart", read_switch, "true, false", "Whether smartctl is asked at all.", "smart = true"),
    Setting(
        *("smartctl", "smartctl", read_text, "a path; empty: the system's"),
        *("The smartctl to run.", "smartctl = '/usr/sbin/smartctl'"),
    ),
    Setting(
        *("smart_interval", "smart_interval_s", duration_between(30.0, 86_400.0), "30 to 86400 seconds, or '5m'"),
        *("Time between two questions to a disk.", "smart_interval = '5m'"),
    ),
    Setting(
        *("marks.io_wait", "mark_io_wait", number_between(0, 100), "0 to 100 %; 0: never"),
        *("A process that waits for disks at least this much stands out.", f"io_wait = {_MARKS.io_wait:g}"),
    ),
    Setting(
        *("marks.await", "mark_await", number_between(0, 60_000), "0 to 60000 ms; 0: never"),
        *("A read or write await of a device from here on stands out.", f"await = {_MARKS.await_ms:g}"),
    ),
    Setting(
        *("marks.util", "mark_util", number_between(0, 100), "0 to 100 %; 0: never"),
        *("A device's %util from here on stands out.", f"util = {_MARKS.util:g}"),
    ),
    Setting(
        *("smart_types", "smart_types", read_smart_types, "disk = what smartctl -d is given"),
        *("For disks behind a USB bridge or a RAID controller.", "sda = 'megaraid,3'", False),
    ),
    Setting(
        *("keys", "keymap", read_keys, "action = [keys]"),
        *("Keys of the screen.", '"sort.next" = [">", "F11"]', False),
    ),
)
TABLES = ("marks", "smart_types", "keys")
"""Tables of the file; what stands above them is a key of its own."""
BY_NAME = {setting.name: setting for setting in SETTINGS}


def applied(settings: Settings, values: Mapping[str, object]) -> Settings:
    """The Settings with these values by field."""
    marks = {name.removeprefix("mark_"): value for name, value in values.items() if name.startswith("mark_")}
    if "await" in marks:
        marks["await_ms"] = marks.pop("await")
    rest = {name: value for name, value in values.items() if not name.startswith("mark_")}
    return settings._replace(marks=settings.marks._replace(**marks), **rest)  # type: ignore[arg-type]


def value_of(settings: Settings, setting: Setting) -> object:
    """What the Settings hold for one."""
    if setting.field.startswith("mark_"):
        field = setting.field.removeprefix("mark_")
        return getattr(settings.marks, "await_ms" if field == "await" else field)
    return getattr(settings, setting.field)
