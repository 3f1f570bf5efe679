"""``iotop-ai config``: create the settings file, print the effective settings, or find mistakes in the file."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from iotop_ai.cli.config.common import DEFAULT
from iotop_ai.cli.config.effective import Effective, effective_settings
from iotop_ai.cli.config.file import ConfigFile, read_config
from iotop_ai.cli.config.table import AUTO, SETTINGS, TABLES, Setting, value_of
from iotop_ai.cli.options.common import flags_of
from iotop_ai.cli.stdout import print_path
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.collectors.state.folder import CONFIG_VARIABLE, config_path
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.present.screen.actions import all_actions
from iotop_ai.present.screen.key_names import SENT_AS, key_label
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.text.units import plural

ACTIONS = ("init", "print", "path", "validate")
WRITE_S = 5.0
"""The longest time that ``init`` waits for the file's disk or server, in seconds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``config``."""
    parser.add_argument(
        "action",
        choices=ACTIONS,
        help="init writes a file with every setting as a comment; print shows the effective settings and their "
        "origins; path prints the file's path; validate checks the file and exits 1 when it finds mistakes",
    )
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="use this settings file")
    parser.add_argument("--force", action="store_true", help="with init: overwrite an existing file")


def run(args: argparse.Namespace) -> int:
    """Run the action; return 0, or 1 if ``validate`` finds mistakes.

    Raises UsageError if the file cannot be read or written.
    """
    path = config_path(os.environ, args.config)
    if args.action == "path":
        print_path(str(path))
        return 0
    if args.action == "init":
        return _init(path, force=args.force)
    if args.action == "validate":
        return _validate(path, required=bool(args.config or os.environ.get(CONFIG_VARIABLE)))
    print(effective_text(effective_settings(flags_of(args), os.environ, args.config)), end="")
    return 0


def _init(path: Path, *, force: bool) -> int:
    def write() -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with OutFile(str(path), force=force) as out:
            with out.stream() as file:
                file.write(template().encode())
            out.commit()

    try:
        call_with_timeout(WRITE_S, path, write)
    except OSError as error:
        raise UsageError(f"{clean(str(path))}: {error.strerror}") from None
    print(f"wrote {clean(str(path))}")
    return 0


def _validate(path: Path, *, required: bool) -> int:
    file = read_config(path, required=required)
    if file is None:
        print(f"no file {clean(str(path))}: the defaults apply")
        return 0
    for problem in file.problems:
        print(file.describe(problem))
    for note in (*_rebound_keys(file), *_ambiguous_keys(file)):
        print(note)
    if file.problems:
        return 1
    print(f"{clean(str(path))}: no mistakes, {plural(len(file.values), 'setting')}")
    return 0


def _rebound_keys(file: ConfigFile) -> list[str]:
    """Return a note for each key that the file assigns to one action although another action has it by default."""
    keymap = dict(file.values.get("keys", ()))  # type: ignore[call-overload]
    actions = all_actions()
    # An action that only loses some of its default keys takes no key from another action.
    bound = {name: keys for name, keys in keymap.items() if not set(keys) < set(actions[name].keys)}
    return [
        f"note: {key_label(conflict.key)} now runs {conflict.remapped_action}, no longer {conflict.other_action}"
        for conflict in user_keymap(bound)[1]
        if not conflict.both_remapped
    ]


def _ambiguous_keys(file: ConfigFile) -> list[str]:
    """Return a note for each key in the file that most terminals send as another key."""
    keymap = dict(file.values.get("keys", ()))  # type: ignore[call-overload]
    return [
        f"note: {key_label(key)} arrives as {key_label(SENT_AS[key])} from most terminals"
        for key in dict.fromkeys(key for keys in keymap.values() for key in keys if key in SENT_AS)
    ]


def template() -> str:
    """Return the text of a settings file that holds every setting with its default value, commented out."""
    out = ["# Settings of iotop-ai. A flag overrides the environment, which overrides this file.\n\n"]
    current_table = ""
    for setting in SETTINGS:
        table, _ = _table_and_key(setting)
        if table != current_table:
            out.append(f"\n[{table}]\n")
            current_table = table
        out.append(f"# {setting.text} ({setting.allowed})\n")
        out.append(f"#{setting.example}\n")
    return "".join(out)


def _table_and_key(setting: Setting) -> tuple[str, str]:
    """Return the table and the key of a setting in the file.

    The table is "" for a setting outside any table, and the key is "" for a setting that is a whole table.
    """
    table, dot, name = setting.name.partition(".")
    return (table, name) if dot else (setting.name, "") if setting.name in TABLES else ("", setting.name)


def effective_text(result: Effective) -> str:
    """Return the effective settings as TOML, each with a comment that names its origin."""
    rows: list[tuple[str, str]] = []
    current_table = ""
    for setting in SETTINGS:
        table, name = _table_and_key(setting)
        if table != current_table:
            rows += [("", ""), (f"[{table}]", "")]
            current_table = table
        value, origin = value_of(result.settings, setting), result.origins[setting.name]
        if not name:
            rows += [(f"{_toml_key(key)} = {_toml(part)}", origin) for key, part in value]  # type: ignore[attr-defined]
        elif origin == DEFAULT and setting.name == "devices":
            rows.append(("devices = []", DEFAULT))
        else:
            rows.append((f"{name} = {_toml(value or AUTO if setting.name == 'theme' else value)}", origin))
    # Limited, so that one very long line does not move the comments of all other lines.
    width = min(44, max(len(text) for text, origin in rows if origin))
    return "".join(f"{text:<{width}}  # {origin}\n" if origin else f"{text}\n" for text, origin in rows)


def _toml(value: object) -> str:
    """Return a value in TOML's notation."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:.15g}"
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(part) for part in value)}]"
    text = clean(str(value))
    return f"'{text}'" if "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _toml_key(name: str) -> str:
    return name if all(c.isalnum() or c in "-_" for c in name) and name.isascii() else _toml(name)
