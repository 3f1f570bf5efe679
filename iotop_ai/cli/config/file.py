"""The settings file: its path, the values that it sets, their line numbers, and its mistakes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from iotop_ai.cli.config.table import BY_NAME, TABLES, PartError, did_you_mean
from iotop_ai.collectors.io.input_file import open_input
from iotop_ai.collectors.io.trust import why_untrusted
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.model.toml_text import TomlError, parse_toml

LARGEST_BYTES = 256 * 1024
_NOT_REGULAR = "it is not a regular file"
_TABLE_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_ASSIGNMENT = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
_KEY_PART = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w-]+)\s*\.?""")


class Problem(NamedTuple):
    """A mistake in the file. line: its line number, from 1; None if the line is unknown."""

    line: int | None
    text: str


class ConfigFile(NamedTuple):
    """A parsed file.

    values, lines: the values and their line numbers, by the setting's name
    problems: its mistakes, in the order of the file
    """

    path: Path
    values: Mapping[str, object]
    lines: Mapping[str, int]
    problems: tuple[Problem, ...]

    def describe(self, problem: Problem) -> str:
        """Return the problem as one line of text: the file, the line number and the mistake."""
        place = f"{self.path}:{problem.line}" if problem.line is not None else str(self.path)
        return clean(f"{place}: {problem.text}")


def read_config(path: Path, *, required: bool) -> ConfigFile | None:
    """Return the parsed file; None if the file is missing.

    Raises UsageError for a file that cannot be read or is not trusted (another user's, or writable by all users), and
    TimeoutError when the disk or server of a file that is not required does not answer.

    required: True if the user named the file, so that a missing file is an error.
    """
    try:
        text = call_with_timeout(HOME_TIMEOUT_S, path, lambda: _read_text(path, required=required))
    except TimeoutError as error:
        if required:
            raise UsageError(f"{clean(str(path))}: {error.strerror}") from None
        raise
    return None if text is None else parse_config(path, text)


def _read_text(path: Path, *, required: bool) -> str | None:
    shown_path = clean(str(path))
    try:
        file = open_input(str(path))
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise UsageError(f"no settings file {shown_path}: iotop-ai config init creates one") from None
        return None
    except IsADirectoryError:
        raise UsageError(f"{shown_path} is not read: {_NOT_REGULAR}") from None
    except OSError as error:
        raise UsageError(f"{shown_path}: {error.strerror}") from None
    with file:
        if why := _why_untrusted(path, os.fstat(file.fileno())):
            raise UsageError(f"{shown_path} is not read: {why}")
        try:
            raw = file.read(LARGEST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{shown_path}: {error.strerror}") from None
    if len(raw) > LARGEST_BYTES:
        raise UsageError(f"{shown_path} is not read: it has more than {LARGEST_BYTES // 1024} KiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(f"{shown_path}:{line}: not UTF-8") from None


def _why_untrusted(path: Path, status: os.stat_result) -> str:
    """Return why the file is not trusted; "" for a trusted file.

    The file names programs to run, so root trusts only files that root owns.
    """
    if not stat.S_ISREG(status.st_mode):
        return _NOT_REGULAR
    if os.geteuid() == 0:
        why = why_untrusted(str(path))
        return (
            f"{why} (keep the file in a folder that only root can write to, such as /root/.config/iotop-ai)"
            if why
            else ""
        )
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {status.st_uid}, not to you (chown it, or name your own with --config)"
    if status.st_mode & stat.S_IWOTH:
        return "every user can write to it (chmod o-w)"
    return ""


def parse_config(path: Path, text: str) -> ConfigFile:
    """Return the values and mistakes of a text, checked against the settings' table. Never raises."""
    try:
        tree = parse_toml(text)
    except TomlError as error:
        return ConfigFile(path, {}, {}, (Problem(error.line, error.fault),))
    lines = key_lines(text)
    values: dict[str, object] = {}
    problems: list[Problem] = []
    for name, value in _named_values(tree).items():
        setting = BY_NAME.get(name)
        if setting is None:
            problems.append(Problem(_line(lines, name), f"unknown key {name!r}{did_you_mean(name, BY_NAME)}"))
            continue
        try:
            values[name] = setting.read(value)
        except UsageError as error:
            part = f"{name}.{error.part}" if isinstance(error, PartError) else name
            problems.append(Problem(_line(lines, part), str(error) if name in TABLES else f"{name}: {error}"))
    problems.sort(key=lambda problem: problem.line or 0)
    value_lines = {name: line for name in values if (line := _line(lines, name)) is not None}
    return ConfigFile(path, values, value_lines, tuple(problems))


def _named_values(tree: Mapping[str, object]) -> dict[str, object]:
    """Return the file's values by the setting's name, without empty tables."""
    out: dict[str, object] = {}
    for name, value in tree.items():
        if name == "marks" and isinstance(value, Mapping):
            out |= {f"marks.{part}": figure for part, figure in value.items()}
        elif value != {}:
            out[name] = value
    return out


def _line(lines: Mapping[str, int], name: str) -> int | None:
    """Return the line number of a key, or of the first key in a table of this name; None if there is none."""
    return lines.get(name) or min((line for key, line in lines.items() if key.startswith(name + ".")), default=None)


def key_lines(text: str) -> dict[str, int]:
    """Return the line number of each key and table in valid TOML, from 1, by its dotted name.

    A line inside a multi-line string that looks like a key counts as that key.
    """
    out: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _TABLE_HEADER.match(line):
            table = _unquote(header[1])
            out.setdefault(table, number)
        elif key := _ASSIGNMENT.match(line):
            name = _unquote(key[1])
            out.setdefault(f"{table}.{name}" if table else name, number)
    return out


def _unquote(dotted: str) -> str:
    return ".".join(part.strip("\"'") for part in _KEY_PART.findall(dotted))
