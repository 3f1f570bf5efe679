"""The flags that commands share, and the Settings they make."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import NoReturn

from iotop_ai.cli.settings import settings_now
from iotop_ai.model.errors import UsageError
from iotop_ai.model.parse import parse_duration_s, parse_names
from iotop_ai.model.settings import LONGEST_S, SHORTEST_S, SORT_KEYS, THEMES, Settings

EXAMPLES = """\
examples:
  iotop-ai                          the live screen (? shows its keys)
  iotop-ai --path /data             only the disks behind a folder
  iotop-ai -b -n 3 -d 0.5           three blocks of plain text, half a second apart
  iotop-ai -b -o -t | tee log.txt   what is active, each line with its time, for a log
  iotop-ai snapshot --json -d 5     one interval of five seconds as JSON, iostat's own keys
  iotop-ai trend --device sda -n 60 watch a minute, then print its curves

exit codes: 0 fine; 1 a check found a problem; 2 no answer, one line on stderr says why
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are UsageError, so that they end as one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage text."""
        raise UsageError(f"{message} (see iotop-ai --help)")


def interval(text: str) -> float:
    """Seconds between two readings, SHORTEST_S to LONGEST_S. Raises ArgumentTypeError."""
    try:
        seconds = parse_duration_s(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text} is outside {SHORTEST_S:g} to {LONGEST_S:g} seconds")
    return seconds


def count(text: str) -> int:
    """A whole number of at least 1. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no count; write 1 or more")
    return int(text)


def add_source_flags(parser: argparse.ArgumentParser, *, sub: bool) -> None:
    """Flags of every command that reads the machine.

    sub: the parser of a subcommand. Its absent flags set nothing, so that a value given before the command stays.
    """
    absent = argparse.SUPPRESS if sub else None

    def flag(*names: str, **how: object) -> None:
        how.setdefault("default", absent)
        parser.add_argument(*names, **how)  # type: ignore[arg-type]

    flag("-d", "--delay", metavar="SEC", type=interval, help="seconds between readings, 0.1 to 3600 (default 1)")
    flag("--device", metavar="NAMES", action="append", help="only these devices: names or /dev paths, by comma; ALL")
    flag("--path", metavar="DIR", help="only the disks behind this folder")
    flag("--exact", action="store_true", help="read every process in every tick, also where there are thousands")
    flag("--smart", action=argparse.BooleanOptionalAction, help="whether smartctl is asked at all (default yes)")
    flag("--smartctl", metavar="PATH", help="the smartctl to run (default: the system's)")
    add_smart_type(parser)


def add_job_flag(parser: argparse._ActionsContainer) -> None:
    """Which job the verdict is about."""
    parser.add_argument(
        "--job",
        metavar="PID",
        type=pid,
        default=argparse.SUPPRESS,
        help="the job of this process: its trainer, a worker or its launcher",
    )


def pid(text: str) -> int:
    """A process id. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{text!r} is no process id")
    return int(text)


def add_smart_type(parser: argparse.ArgumentParser) -> None:
    """The flag for disks that smartctl does not find by itself."""
    parser.add_argument(
        "--smart-type",
        metavar="DISK=TYPE",
        action="append",
        type=smart_type,
        default=argparse.SUPPRESS,
        help="what smartctl -d is given for a disk: sda=megaraid,3 (repeatable), sdb=sntjmicron",
    )


def smart_type(text: str) -> tuple[str, str]:
    """DISK=TYPE as a pair. Raises ArgumentTypeError."""
    disk, equals, kind = text.partition("=")
    if not (disk and equals and kind):
        raise argparse.ArgumentTypeError(f"{text!r} is no DISK=TYPE; write sda=megaraid,3")
    return disk, kind


def add_screen_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of the bare command: the live screen and its text form."""
    batch = parser.add_argument_group("plain text instead of the screen")
    batch.add_argument("-b", "--batch", action="store_true", help="print text, one block an interval")
    batch.add_argument("-n", "--count", metavar="COUNT", type=count, help="end after COUNT blocks")
    batch.add_argument("-t", "--timestamps", action="store_true", help="put the time before each line (implies -b)")
    shown = parser.add_argument_group("what is shown")
    switch = argparse.BooleanOptionalAction
    shown.add_argument("-o", "--only", action=switch, help="only devices and processes that do something")
    shown.add_argument("--sort", metavar="COLUMN", choices=SORT_KEYS, help="one of " + ", ".join(SORT_KEYS))
    shown.add_argument(
        "-a",
        "--accumulated",
        action="store_true",
        default=None,
        help="sums since the start instead of rates; a finished child counts with its parent",
    )
    add_job_flag(shown)
    look = parser.add_argument_group("the screen")
    look.add_argument("--theme", metavar="NAME", choices=THEMES, help="one of " + ", ".join(THEMES))
    look.add_argument("--ascii", action=switch, help="no character beyond ASCII")
    look.add_argument("--mouse", action=switch, help="take the mouse, or leave it to the terminal (default: take it)")
    look.add_argument("--host", metavar="[USER@]HOST", help="watch another machine, through ssh")
    look.add_argument("--readonly", action=switch, help="no key changes anything on the machine")
    look.add_argument("--config", metavar="FILE", help="the settings file (iotop-ai config path says which it is)")


def settings_of(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """The Settings of flags, environment and file. ``devices`` are as typed: cli.select makes kernel names of them."""
    found = settings_now(flags_of(args), environ, getattr(args, "config", None))
    return found._replace(job=getattr(args, "job", 0))


def settings_elsewhere(args: argparse.Namespace) -> Settings:
    """As ``settings_of``, for a recording or another machine: the devices of the file are this machine's."""
    found = settings_of(args)
    return found if getattr(args, "device", None) else found._replace(devices=())


def flags_of(args: argparse.Namespace) -> dict[str, object]:
    """What the flags say, by the field of Settings; a flag that was not given says nothing."""
    typed = getattr(args, "device", None)
    types = getattr(args, "smart_type", None)
    found: dict[str, object] = {
        "interval_s": getattr(args, "delay", None),
        "devices": parse_names(",".join(typed)) if typed else None,
        "path": getattr(args, "path", None),
        "only_active": getattr(args, "only", None),
        "accumulated": getattr(args, "accumulated", None),
        "sort": getattr(args, "sort", None),
        "theme": getattr(args, "theme", None),
        "ascii_only": getattr(args, "ascii", None),
        "mouse": getattr(args, "mouse", None),
        "readonly": getattr(args, "readonly", None),
        "exact": getattr(args, "exact", None) or None,
        "smart": getattr(args, "smart", None),
        "smartctl": getattr(args, "smartctl", None),
        "smart_types": tuple(types) if types else None,
    }
    return {name: value for name, value in found.items() if value is not None and value != ""}
