"""The table of all settings: their names, their allowed values and their effect.

The reader of the settings file, ``iotop-ai config`` and docs/configuration.md are all based on this table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from iotop_ai.cli.config.common import PREFIX
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.model.parse import parse_duration_s, parse_names
from iotop_ai.model.settings import CMDLINE_LEVELS, LONGEST_S, SHORTEST_S, SORT_KEYS, THEMES, UNITS, Marks, Settings
from iotop_ai.present.process.table import optional_columns
from iotop_ai.present.screen.actions import PANEL_KEYS, all_actions
from iotop_ai.present.screen.key_names import CTRL_AT, key_label, parse_key
from iotop_ai.present.screen.keymap import user_keymap

Reader = Callable[[object], object]
"""Converts a value of the file (TOML) or the environment (a string) to the value of a field. Raises UsageError."""

AUTO = "auto"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class Setting(NamedTuple):
    """One setting.

    name: its key in the file, such as "marks.util" for ``util`` in the table ``marks``
    field: the field of Settings, or mark_FIELD for a field of Marks; mark_await stands for ``await_ms``
    read: converts and checks a value of the file or the environment
    allowed: the allowed values, as text
    text: its description
    example: the line for it in the file that ``config init`` writes
    in_environment: whether an environment variable can set it too
    """

    name: str
    field: str
    read: Reader
    allowed: str
    text: str
    example: str
    in_environment: bool = True

    @property
    def variable(self) -> str:
        """The environment variable of this setting; "" if it has none."""
        return PREFIX + self.name.upper().replace(".", "_") if self.in_environment else ""


class PartError(UsageError):
    """An invalid entry of a table in the settings file. part: the name of the entry."""

    def __init__(self, part: str, text: str) -> None:
        self.part = part
        super().__init__(text)


def read_switch(value: object) -> bool:
    """Return the truth value that a TOML boolean or a word such as "yes" or "off" stands for."""
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else None
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise UsageError(f"{_quoted(value)} is neither true nor false")


def duration_between(low: float, high: float) -> Callable[[object], float]:
    """Return a function that reads a duration of ``low`` to ``high`` seconds: a number, or a text such as "500ms"."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise UsageError(f"{_quoted(value)} is not a duration; write 2 or '500ms'")
        seconds = parse_duration_s(value) if isinstance(value, str) else value
        if not low <= seconds <= high:
            raise UsageError(f"{_quoted(value)} is outside {low:g} to {high:g} seconds")
        return float(seconds)

    return read


def number_between(low: float, high: float) -> Callable[[object], float]:
    """Return a function that reads a number from ``low`` to ``high``."""

    def read(value: object) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        except OverflowError:  # raised for an integer of hundreds of digits
            number = math.inf
        if math.isnan(number):
            raise UsageError(f"{_quoted(value)} is not a number")
        if not low <= number <= high:
            raise UsageError(f"{_quoted(value)} is outside {low:g} to {high:g}")
        return number

    return read


def one_of(words: tuple[str, ...], empty: str = "") -> Callable[[object], str]:
    """Return a function that reads one of these words. empty: a further word, which is read as ""."""

    def read(value: object) -> str:
        if value in words:
            return str(value)
        if empty and value in ("", empty):
            return ""
        raise UsageError(f"{_quoted(value)} is not one of {', '.join((*words, empty) if empty else words)}")

    return read


def read_text(value: object) -> str:
    """Return the value if it is a string without a null character. Raises UsageError."""
    if isinstance(value, str) and "\0" not in value:
        return value
    raise UsageError(f"{_quoted(value)} is not a string")


def read_list(value: object) -> tuple[str, ...]:
    """Return the names in a TOML list of strings or in a comma-separated string."""
    if isinstance(value, str):
        return parse_names(value)
    if isinstance(value, list) and all(isinstance(word, str) and word for word in value):
        return tuple(dict.fromkeys(value))
    raise UsageError(f"{_quoted(value)} is not a list of names; write ['sda', 'nvme0n1']")


def read_panels(value: object) -> tuple[str, ...]:
    """Return the names in a list of panels. Raises UsageError for an unknown panel."""
    names = read_list(value)
    for name in names:
        if name not in PANEL_KEYS:
            raise UsageError(f"{_quoted(name)} is not a panel; panels are {', '.join(PANEL_KEYS)}")
    return names


def read_columns(value: object) -> tuple[str, ...]:
    """Return the ids in a list of columns of the process table. Raises UsageError if one of them cannot be hidden."""
    names = read_list(value)
    optional = {column.id for column in optional_columns()}
    for name in names:
        if name not in optional:
            raise UsageError(f"{_quoted(name)} is not a column that can be hidden{did_you_mean(name, optional)}")
    return names


def read_smart_types(value: object) -> tuple[tuple[str, str], ...]:
    """Return (disk, type for ``smartctl -d``) for each line of the table smart_types.

    Raises UsageError, and PartError for an invalid type.
    """
    from iotop_ai.collectors.health.commands import is_type  # imported here: few starts need it

    rows = tuple(value.items()) if isinstance(value, Mapping) else None
    if rows is None or not all(isinstance(text, str) and text for row in rows for text in row):
        raise UsageError("smart_types must be a table; write a line like sda = 'megaraid,3' below [smart_types]")
    for disk, type_name in rows:
        if not is_type(type_name):
            raise PartError(disk, f"smart_types.{disk}: {_quoted(type_name)} is not a type for smartctl -d")
    return rows


def read_keys(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the keymap that a table of action = [keys] describes. Raises PartError for its first invalid entry."""
    if not isinstance(value, Mapping):
        raise UsageError('keys must be a table; write a line like "sort.next" = ["F11"] below [keys]')
    keys_by_action: dict[str, tuple[str, ...]] = {}
    actions = all_actions()
    for name, keys in flatten(value).items():
        if name not in actions:
            raise PartError(name, f"unknown action {_quoted(name)}{did_you_mean(name, actions)}")
        words = [keys] if isinstance(keys, str) else keys
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise PartError(name, f"{name}: {_quoted(keys)} is not a list of keys; write ['F11', '>']")
        key_names = [parse_key(word) for word in words]
        for word, key in zip(words, key_names, strict=True):
            if key is None:
                raise PartError(name, f"{name}: {_quoted(word)} is not a key; write F11, Ctrl+T, Space, R or >")
            if key == CTRL_AT:
                why = "terminals send Ctrl+Space or Ctrl+Shift+2 for it"
                raise PartError(name, f"{name}: {_quoted(word)} cannot be bound: {why}")
        keys_by_action[name] = tuple(key for key in key_names if key)
    keymap, conflicts = user_keymap(keys_by_action)
    for conflict in conflicts:
        if conflict.both_remapped:
            both = f"{conflict.remapped_action} and to {conflict.other_action}"
            text = f"{key_label(conflict.key)} is bound to {both}, which share a screen"
            raise PartError(conflict.other_action, text)
    return keymap


def flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return the values of a nested table by dotted name. TOML reads an unquoted ``sort.next`` as a nested table."""
    out: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            out |= flatten(value, f"{prefix}{name}.")
        else:
            out[prefix + name] = value
    return out


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return the text "; did you mean 'x'?" for the most similar candidate; "" if none is similar."""
    import difflib

    matches = difflib.get_close_matches(word, list(candidates), 1, 0.55)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def _quoted(value: object) -> str:
    try:
        text = clean(repr(value) if not isinstance(value, bool) else str(value).lower())
    except ValueError:  # Python refuses to write an integer of thousands of digits
        text = "the number"
    return text if len(text) <= 40 else f"{text[:37]}..."


_MARKS = Marks()
SETTINGS: tuple[Setting, ...] = (
    Setting(
        *("interval", "interval_s", duration_between(SHORTEST_S, LONGEST_S), "0.1 to 3600 seconds, or '500ms'"),
        *("Seconds between two readings.", "interval = 1.0"),
    ),
    Setting(
        *("devices", "devices", read_list, "names, labels, /dev paths, patterns; empty: all"),
        *("Show only these disks.", "devices = ['nvme0n1', 'md0']"),
    ),
    Setting(
        *("theme", "theme", one_of(THEMES, AUTO), ", ".join((*THEMES, AUTO))),
        *("Colour theme; auto chooses by terminal. NO_COLOR overrides the file's theme.", "theme = 'auto'"),
    ),
    Setting("ascii", "ascii_only", read_switch, "true, false", "Use ASCII characters only.", "ascii = false"),
    Setting("mouse", "mouse", read_switch, "true, false", "React to mouse clicks.", "mouse = true"),
    Setting(
        *("readonly", "readonly", read_switch, "true, false"),
        *("Refuse every key and command that changes the machine.", "readonly = false"),
    ),
    Setting(
        *("cmdline", "cmdline", one_of(CMDLINE_LEVELS), ", ".join(CMDLINE_LEVELS)),
        *(
            "How much of a command line is recorded, printed or copied; the live screen shows all of it.",
            "cmdline = 'names'",
        ),
    ),
    Setting(
        *("sort", "sort", one_of(SORT_KEYS), ", ".join(SORT_KEYS)),
        *("Sort column of the process table.", "sort = 'io'"),
    ),
    Setting("reverse", "reverse", read_switch, "true, false", "Smallest first; names from Z to A.", "reverse = false"),
    Setting(
        *("only_active", "only_active", read_switch, "true, false"),
        *("Show only active disks and processes.", "only_active = false"),
    ),
    Setting(
        *("hide", "hidden", read_panels, ", ".join(PANEL_KEYS)),
        *("Hide these panels.", "hide = []"),
    ),
    Setting(
        *("hide_columns", "no_columns", read_columns, ", ".join(column.id for column in optional_columns())),
        *("Hide these columns of the process table.", "hide_columns = []"),
    ),
    Setting(
        *("tree", "tree", read_switch, "true, false"),
        *("Show each process in its own row below its parent, instead of grouping equal processes.", "tree = false"),
    ),
    Setting(
        *("units", "units", one_of(UNITS), ", ".join(UNITS)),
        *("1 MB in rates: 1,048,576 B (binary, as iostat -m) or 1,000,000 B (decimal).", "units = 'binary'"),
    ),
    Setting(
        *("remember", "remember", read_switch, "true, false"),
        *(
            "Start with the last session's sort column, tree, selected disk, theme, units, panels, columns and "
            "dismissed problems, where nothing else sets them, and with each disk's baseline of read latency.",
            "remember = true",
        ),
    ),
    Setting(
        *("exact", "exact", read_switch, "true, false"),
        *(
            "Read every process at every interval, even with thousands of processes.",
            "exact = false",
        ),
    ),
    Setting(
        *("procfs", "procfs", read_text, "a directory; empty: /proc"),
        *("The /proc to read, for a container that watches its host.", "procfs = '/host/proc'"),
    ),
    Setting(
        *("sysfs", "sysfs", read_text, "a directory; empty: /sys"),
        *("The /sys to read, for a container that watches its host.", "sysfs = '/host/sys'"),
    ),
    Setting("smart", "smart", read_switch, "true, false", "Run smartctl.", "smart = true"),
    Setting(
        *("smartctl", "smartctl", read_text, "a path; empty: the system's"),
        *("The smartctl to run.", "smartctl = '/usr/sbin/smartctl'"),
    ),
    Setting(
        *("smart_interval", "smart_interval_s", duration_between(30.0, 86_400.0), "30 to 86400 seconds, or '5m'"),
        *("Seconds between two smartctl runs on a disk.", "smart_interval = '5m'"),
    ),
    Setting(
        *("marks.io_wait", "mark_io_wait", number_between(0, 100), "0 to 100 %; 0: never"),
        *("Highlight a process whose I/O wait reaches this.", f"io_wait = {_MARKS.io_wait:g}"),
    ),
    Setting(
        *("marks.await", "mark_await", number_between(0, 60_000), "0 to 60000 ms; 0: never"),
        *("Highlight a disk whose read or write await reaches this.", f"await = {_MARKS.await_ms:g}"),
    ),
    Setting(
        *("marks.util", "mark_util", number_between(0, 100), "0 to 100 %; 0: never"),
        *("Highlight a disk whose %util reaches this.", f"util = {_MARKS.util:g}"),
    ),
    Setting(
        *("smart_types", "smart_types", read_smart_types, "disk = type for smartctl -d"),
        *("Types of disks behind a USB bridge or a RAID controller.", "sda = 'megaraid,3'", False),
    ),
    Setting(
        *("keys", "keymap", read_keys, "action = [keys]"),
        *("Key bindings of the screen.", '"sort.next" = [">", "F11"]', False),
    ),
)
TABLES = ("marks", "smart_types", "keys")
"""The names of the tables in the settings file."""
BY_NAME = {setting.name: setting for setting in SETTINGS}


def value_of(settings: Settings, setting: Setting) -> object:
    """Return the value of one setting."""
    if setting.field.startswith("mark_"):
        field = setting.field.removeprefix("mark_")
        return getattr(settings.marks, "await_ms" if field == "await" else field)
    return getattr(settings, setting.field)
