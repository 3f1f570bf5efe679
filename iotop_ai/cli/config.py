"""``iotop-ai config``: make the settings file, show what holds and whence, say what is wrong in it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from iotop_ai.cli.config_file import Said, read_config
from iotop_ai.cli.options import flags_of
from iotop_ai.cli.settings import DEFAULT, Effective, effective
from iotop_ai.cli.settings_table import AUTO, SETTINGS, TABLES, Setting, value_of
from iotop_ai.collectors.state_folder import CONFIG_VARIABLE, config_path
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.present.keymap import all_acts, key_shown, remapped

ACTIONS = ("init", "print", "path", "validate")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``config``."""
    parser.add_argument(
        "action",
        choices=ACTIONS,
        help="init writes a file with every setting, as comments; print says what holds now and where it comes from; "
        "path says which file is read; validate looks for mistakes and exits 1 when there are some",
    )
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="this file instead of the usual")
    parser.add_argument("--force", action="store_true", help="with init: write over a file that exists")


def run(args: argparse.Namespace) -> int:
    """Do it; 0 fine, 1 validate has found mistakes, 2 the file cannot be read or written."""
    path = config_path(os.environ, args.config)
    if args.action == "path":
        print(path)
        return 0
    if args.action == "init":
        return _init(path, force=args.force)
    if args.action == "validate":
        return _validate(path, asked=bool(args.config or os.environ.get(CONFIG_VARIABLE)))
    print(printed(effective(flags_of(args), os.environ, args.config)), end="")
    return 0


def _init(path: Path, *, force: bool) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if force:
            path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        raise UsageError(f"{clean(str(path))} exists; --force writes over it") from None
    except OSError as error:
        raise UsageError(f"{clean(str(path))}: {error.strerror}") from None
    print(f"written: {path}")
    return 0


def _validate(path: Path, *, asked: bool) -> int:
    said = read_config(path, asked=asked)
    if said is None:
        print(f"no file {path}: the defaults hold")
        return 0
    for problem in said.problems:
        print(said.where(problem))
    for note in _notes(said):
        print(note)
    if said.problems:
        return 1
    print(f"{path}: no mistake, {len(said.values)} settings")
    return 0


def _notes(said: Said) -> list[str]:
    """The keys that the user's choice takes from an action that has them by default."""
    keymap = dict(said.values.get("keys", ()))  # type: ignore[call-overload]
    acts = all_acts()
    lost = {name: keys for name, keys in keymap.items() if set(keys) < set(acts[name].keys)}
    chosen = {name: keys for name, keys in keymap.items() if name not in lost}
    return [
        f"note: {key_shown(one.key)} is now {one.by}'s and no longer {one.of}'s"
        for one in remapped(chosen)[1]
        if not one.both
    ]


def template() -> str:
    """A file with every setting and its default as comments."""
    out = ["# Settings of iotop-ai. A flag goes before the environment, that before this file.\n\n"]
    at = ""
    for setting in SETTINGS:
        table, _ = _parts(setting)
        if table != at:
            out.append(f"\n[{table}]\n")
            at = table
        out.append(f"# {setting.text} ({setting.may})\n")
        out.append(f"#{setting.example}\n")
    return "".join(out)


def _parts(setting: Setting) -> tuple[str, str]:
    table, dot, name = setting.name.partition(".")
    return (table, name) if dot else (setting.name, "") if setting.name in TABLES else ("", setting.name)


def printed(found: Effective) -> str:
    """What holds, as TOML, each with where it comes from."""
    rows: list[tuple[str, str]] = []
    at = ""
    for setting in SETTINGS:
        table, name = _parts(setting)
        if table != at:
            rows += [("", ""), (f"[{table}]", "")]
            at = table
        value, origin = value_of(found.settings, setting), found.origins[setting.name]
        if not name:
            rows += [(f"{_toml_key(key)} = {_toml(part)}", origin) for key, part in value]  # type: ignore[attr-defined]
        elif origin == DEFAULT and setting.name == "devices":
            rows.append(("devices = []", DEFAULT))
        else:
            rows.append((f"{name} = {_toml(value or AUTO if setting.name == 'theme' else value)}", origin))
    width = min(44, max(len(text) for text, origin in rows if origin))
    return "".join(f"{text:<{width}}  # {origin}\n" if origin else f"{text}\n" for text, origin in rows)


def _toml(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(part) for part in value)}]"
    text = clean(str(value))
    return f"'{text}'" if "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _toml_key(name: str) -> str:
    return name if all(c.isalnum() or c in "-_" for c in name) and name.isascii() else _toml(name)
