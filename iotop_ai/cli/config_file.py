"""The user's settings file: where it is, whether it may be believed, what it says and where it says it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from iotop_ai.cli.settings_table import BY_NAME, TABLES, PartError, nearest
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError

LONGEST = 256 * 1024
_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_LINE = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
_PART = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w-]+)\s*\.?""")


class Problem(NamedTuple):
    """Something of the file that cannot be meant. line: counted from 1; None where it cannot be told."""

    line: int | None
    text: str


class Said(NamedTuple):
    """What a file says. values: by the setting's name. lines: where it says so. problems: in the order of the file."""

    path: Path
    values: Mapping[str, object]
    lines: Mapping[str, int]
    problems: tuple[Problem, ...]

    def where(self, problem: Problem) -> str:
        """The problem with its place, in one line."""
        at = f"{self.path}:{problem.line}" if problem.line is not None else str(self.path)
        return clean(f"{at}: {problem.text}")


def read_config(path: Path, *, asked: bool) -> Said | None:
    """What the file says; None when there is none. asked: it was named, so that it must be there.

    Raises UsageError for a file that cannot be read or is not to be believed: another user's, or one that everybody
    may write.
    """
    text = _text(path, asked=asked)
    return None if text is None else parse_config(path, text)


def _text(path: Path, *, asked: bool) -> str | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if asked:
            raise UsageError(f"no settings file {clean(str(path))}: iotop-ai config init makes one") from None
        return None
    except OSError as error:
        raise UsageError(f"{clean(str(path))}: {error.strerror}") from None
    try:
        if why := _why_not(os.fstat(handle)):
            raise UsageError(f"{clean(str(path))} is not read: {why}")
        raw = b""
        while len(raw) <= LONGEST and (part := os.read(handle, LONGEST + 1)):
            raw += part
    except OSError as error:
        raise UsageError(f"{clean(str(path))}: {error.strerror}") from None
    finally:
        os.close(handle)
    if len(raw) > LONGEST:
        raise UsageError(f"{clean(str(path))} is not read: it has more than {LONGEST // 1024} KiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(f"{clean(str(path))}:{line}: this is not UTF-8") from None


def _why_not(found: os.stat_result) -> str:
    """Why a file is not to be believed; "" when it is."""
    if not stat.S_ISREG(found.st_mode):
        return "it is no plain file"
    if found.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {found.st_uid}, not to you (chown it, or name your own with --config)"
    if found.st_mode & stat.S_IWOTH:
        return "everybody may write it (chmod o-w)"
    return ""


def parse_config(path: Path, text: str) -> Said:
    """What a text says, checked against the table of settings. Raises nothing: what is wrong is a Problem."""
    import tomllib

    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        what = re.sub(r" \(at .*\)$", "", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        return Said(path, {}, {}, (Problem(line, f"no TOML: {what}"),))
    lines = key_lines(text)
    values: dict[str, object] = {}
    problems: list[Problem] = []

    def take(name: str, value: object) -> None:
        setting = BY_NAME.get(name)
        if setting is None:
            problems.append(Problem(_line(lines, name), f"unknown key {name!r}{nearest(name, BY_NAME)}"))
            return
        try:
            values[name] = setting.read(value)
        except UsageError as error:
            part = f"{name}.{error.part}" if isinstance(error, PartError) else name
            problems.append(Problem(_line(lines, part), str(error) if name in TABLES else f"{name}: {error}"))

    for name, value in tree.items():
        if name == "marks" and isinstance(value, Mapping):
            for part, figure in value.items():
                take(f"marks.{part}", figure)
        elif value != {}:
            take(name, value)
    problems.sort(key=lambda problem: problem.line or 0)
    return Said(path, values, {name: at for name in values if (at := _line(lines, name)) is not None}, tuple(problems))


def _line(lines: Mapping[str, int], name: str) -> int | None:
    return lines.get(name) or min((at for key, at in lines.items() if key.startswith(name + ".")), default=None)


def key_lines(text: str) -> dict[str, int]:
    """The line of each key and table by its dotted name, counted from 1, of TOML that has been parsed.

    A line inside a string over several lines may be taken for a key that is not there: no name is asked for then.
    """
    out: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _plain(header[1])
            out.setdefault(table, number)
        elif key := _LINE.match(line):
            name = _plain(key[1])
            out.setdefault(f"{table}.{name}" if table else name, number)
    return out


def _plain(dotted: str) -> str:
    return ".".join(part.strip("\"'") for part in _PART.findall(dotted))
