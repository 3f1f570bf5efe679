"""The monitors that are measured beside each other, each at 1 Hz. Ours comes in several forms."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.peers import installed


class Program(NamedTuple):
    """A monitor that refreshes once a second.

    shows: a pattern that its screen's text, without escape sequences, matches once the screen has data; b"" without a
    screen. keys: the keys to press once the pattern appears. version: the command that prints its version; ()
    for another form of our program.
    """

    name: str
    argv: tuple[str, ...]
    shows: bytes
    version: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


OURS = "iotop-ai"
BARE = "collector and diagnosis"
_BARE_SCRIPT = str(Path(__file__).with_name("bare.py"))
_SHOWS = rb"mem\s+[\d.]+/[\d.]+"
PROGRAMS = (
    Program(OURS, ("iotop-ai", "-d", "1"), _SHOWS, ("iotop-ai", "--version")),
    Program("top", ("top", "-d", "1"), rb"Tasks:\s*\d+", ("top", "-V")),
    Program("iotop-c", ("iotop-c", "-P", "-d", "1"), rb"(?:be|rt|id)/\d", ("iotop-c", "--version")),
    Program("iotop", ("iotop-py", "-P", "-d", "1"), rb"(?:be|rt|id)/\d", ("iotop-py", "--version")),
    Program("htop", ("htop", "-d", "10"), rb"Tasks:\s*\d+", ("htop", "--version")),
    Program("btop", ("btop",), rb"Total:\s*[\d.]+", ("btop", "--version")),
    Program("atop", ("atop", "1"), rb"PRC\s*\|\s*sys", ("atop", "-V")),
    Program("glances", ("glances", "-t", "1"), rb"TASKS\s*\d+", ("glances", "--version")),
    Program("bpytop", ("bpytop",), rb"Total:\s*[\d.]+", ("bpytop", "--version")),
    Program("nvitop", ("nvitop", "--interval", "1"), rb"\d+W\s*/\s*\d+W", ("nvitop", "--version")),
)
EXACT = "iotop-ai --exact"
FORMS = (
    Program(EXACT, ("iotop-ai", "-d", "1", "--exact"), _SHOWS),
    Program("paused", ("iotop-ai", "-d", "1"), _SHOWS, keys=("Space",)),
    Program("help open", ("iotop-ai", "-d", "1"), _SHOWS, keys=("?",)),
    Program("record", ("iotop-ai", "record", "-d", "1"), b""),
    Program(BARE, (sys.executable, _BARE_SCRIPT), b""),
    Program(f"{BARE}, last hour kept", (sys.executable, _BARE_SCRIPT, "--ring"), b""),
)
"""Our program with --exact, paused, with another screen, without a screen, and with only reading and verdict."""
CONFIGURED_BY_FILE = ("btop", "bpytop")
BY_NAME = {program.name: program for program in (*PROGRAMS, *FORMS)}


def installed_ones(names: Sequence[str]) -> tuple[list[tuple[Program, str]], list[str]]:
    """Return the installed programs with their paths, and the names of those that are not installed here."""
    paths = {name: _path(BY_NAME[name].argv[0]) for name in names}
    here = [(BY_NAME[name], path) for name, path in paths.items() if path is not None]
    return here, [name for name, path in paths.items() if path is None]


def _path(program: str) -> str | None:
    return program if program == sys.executable else installed(program)


def one_hertz(folder: Path) -> str:
    """Write settings that make the programs of CONFIGURED_BY_FILE refresh each second; return the home with them."""
    for name in CONFIGURED_BY_FILE:
        place = folder / "home" / ".config" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.conf").write_text("update_ms=1000\n")
    return str(folder / "home")
