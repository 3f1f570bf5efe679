"""The flags that several commands share, and the Settings that result from them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from iotop_ai.cli.config.settings import settings_now
from iotop_ai.cli.options.alerts import add_alerts_flag
from iotop_ai.model.errors import UsageError
from iotop_ai.model.parse import parse_duration_s, parse_names
from iotop_ai.model.settings import LONGEST_S, SHORTEST_S, SORT_KEYS, THEMES, Settings

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EXAMPLES = """\
examples:
  iotop-ai                          the live screen (? shows its keys)
  iotop-ai --path /data             only the disks that hold a folder
  iotop-ai -b -n 3 -d 0.5           three blocks of plain text, half a second apart
  iotop-ai -b -o -t | tee log.txt   active disks and processes, each line with its time
  iotop-ai snapshot --json -d 5     one interval of five seconds as JSON, with iostat's keys
  iotop-ai trend --device sda -n 60 watch for a minute, then print charts

exit codes: 0 fine; 1 a check found a problem; 2 no answer, stderr says why in one line
"""


MOST_DIGITS = 18
"""The maximum number of digits of a whole number. int() raises ValueError for more than 4300."""
_MAY_BE_EMPTY = ("procfs", "sysfs", "smartctl", "find", "host_name")
"""The flags whose empty value stands for the default."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError for a wrong argument: one line of text and exit code 2."""

    called_parser: Parser | None = None
    """The parser of the command that the user calls.

    The outer parser keeps it, because argparse reports unknown words to the outer parser.
    """
    argv: Sequence[str] = ()
    commands: tuple[str, ...] = ()
    """The names of all commands."""
    other_command_hint = ""
    """A sentence that names the command to use for a flag that this command lacks."""

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> object:
        """Refuse an empty value, such as that of an unset shell variable.

        Otherwise the flag would count as missing, and an error about an empty path would name no path.
        """
        if arg_strings == [""] and action.option_strings and action.dest not in _MAY_BE_EMPTY:
            self.error(f"{action.option_strings[-1]} is empty")
        # The words after a subcommand and those of a command to record have other nargs; they may be empty.
        if "" in arg_strings and action.metavar and not action.option_strings and action.nargs in (None, "?", "*"):
            self.error(f"{action.metavar} is empty")
        return super()._get_values(action, arg_strings)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Print help or the version. argparse would ignore an error, such as that of a full disk."""
        if file is not None:
            file.write(message)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError. argparse would print the whole usage text."""
        from iotop_ai.cli.options.wrong_words import with_hint  # imported only on an error

        parser = self.called_parser or self
        flags = [flag for flag in parser._option_string_actions if flag[:2] == "--"]
        text = with_hint(message, self.argv, flags, self.commands, parser.other_command_hint)
        raise UsageError(f"{text} (see {parser.prog} --help)")


def parse_seconds(text: str, least_s: float, most_s: float) -> float:
    """Return the duration that a text names, in seconds, from ``least_s`` to ``most_s``. Raises ArgumentTypeError."""
    try:
        seconds = parse_duration_s(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not least_s <= seconds <= most_s:
        raise argparse.ArgumentTypeError(f"{text} is outside {least_s:g} to {most_s:g} seconds")
    return seconds


def parse_interval(text: str) -> float:
    """Return the interval that a text names, in seconds, from SHORTEST_S to LONGEST_S. Raises ArgumentTypeError."""
    return parse_seconds(text, SHORTEST_S, LONGEST_S)


def whole_number(text: str) -> int | None:
    """Return the whole number in a text; None for another text, or for more digits than MOST_DIGITS."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


def quoted(text: str) -> str:
    """Return the text in quotes, shortened, because the end of a very long message is not printed."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def parse_count(text: str) -> int:
    """Return the whole number in a text; it must be at least 1. Raises ArgumentTypeError."""
    if not (number := whole_number(text)):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a count; write 1 or more")
    return number


def add_source_flags(parser: argparse.ArgumentParser, *, sub: bool) -> None:
    """Add the flags of all commands that read the machine.

    sub: whether the parser belongs to a subcommand. A flag that is missing there keeps the value that was given before
    the subcommand.
    """
    absent = argparse.SUPPRESS if sub else None

    def flag(*names: str, **options: object) -> None:
        options.setdefault("default", absent)
        parser.add_argument(*names, **options)  # type: ignore[arg-type]

    flag("-d", "--delay", metavar="SEC", type=parse_interval, help="seconds between readings, 0.1 to 3600 (default 1)")
    flag(
        "--device",
        metavar="NAMES",
        action="append",
        help="only these disks: names, labels, /dev paths, patterns or ALL, comma-separated",
    )
    flag("--path", metavar="DIR", help="only the disks that hold this folder")
    flag("--exact", action="store_true", help="read every process at every interval, even with thousands of them")
    add_machine_flags(parser, absent)
    add_smart_type(parser)


def add_machine_flags(parser: argparse._ActionsContainer, absent: str | None = None) -> None:
    """Add the flags for the paths of /proc, /sys and smartctl, and the flag that turns smartctl off.

    absent: the value of a flag that is not on the command line.
    """
    switch = argparse.BooleanOptionalAction
    parser.add_argument(
        "--procfs",
        metavar="DIR",
        default=absent,
        help="read this /proc, in a container that watches its host",
    )
    parser.add_argument(
        "--sysfs", metavar="DIR", default=absent, help="read this /sys, in a container that watches its host"
    )
    parser.add_argument("--smart", action=switch, default=absent, help="run smartctl (default yes)")
    parser.add_argument(
        "--smartctl", metavar="PATH", default=absent, help="the smartctl to run (default: the system's)"
    )


def add_job_flag(parser: argparse._ActionsContainer) -> None:
    """Add the flag that selects the job to judge."""
    parser.add_argument(
        "--job",
        metavar="PID",
        type=parse_pid,
        default=argparse.SUPPRESS,
        help="the job with this process: its trainer, a worker or its launcher",
    )


def parse_pid(text: str) -> int:
    """Return the process id in a text. Raises ArgumentTypeError."""
    number = whole_number(text)
    if number is None or not 0 < number < 1 << 31:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a process id")
    return number


def add_smart_type(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names the type of a disk whose type smartctl does not detect."""
    parser.add_argument(
        "--smart-type",
        metavar="DISK=TYPE",
        action="append",
        type=parse_smart_type,
        default=argparse.SUPPRESS,
        help="type for smartctl -d: sda=megaraid,3, sdb=sntjmicron (repeatable)",
    )


def parse_smart_type(text: str) -> tuple[str, str]:
    """Return the disk and the type in DISK=TYPE. Raises ArgumentTypeError."""
    disk, equals, type_name = text.partition("=")
    if not (disk and equals and type_name):
        raise argparse.ArgumentTypeError(f"{text!r} is not DISK=TYPE; write sda=megaraid,3")
    from iotop_ai.collectors.health.commands import is_type  # imported here: few starts need it

    if not is_type(type_name):
        raise argparse.ArgumentTypeError(f"{type_name!r} is not a type for smartctl -d; write sda=megaraid,3")
    return disk, type_name


def add_screen_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``iotop-ai`` without a subcommand: the live screen and its text form."""
    batch = parser.add_argument_group("plain text instead of the screen")
    batch.add_argument("-b", "--batch", action="store_true", help="print one block of text per interval")
    batch.add_argument("-n", "--count", metavar="COUNT", type=parse_count, help="end after COUNT blocks")
    batch.add_argument("-t", "--timestamps", action="store_true", help="start each line with the time (implies -b)")
    batch.add_argument("--once", action="store_true", help="print one block and end: -b -n 1")
    batch.add_argument(
        "--json",
        action="store_true",
        help="print one line of JSON per interval, the object of snapshot --json (implies -b)",
    )
    content = parser.add_argument_group("content")
    switch = argparse.BooleanOptionalAction
    content.add_argument("-o", "--only", action=switch, help="only active disks and processes")
    content.add_argument("--sort", metavar="COLUMN", choices=SORT_KEYS, help="one of " + ", ".join(SORT_KEYS))
    content.add_argument(
        "-a",
        "--accumulated",
        action="store_true",
        default=None,
        help="sums since the start instead of rates; an exited child counts with its parent",
    )
    add_job_flag(content)
    screen = parser.add_argument_group("the screen")
    screen.add_argument("--theme", metavar="NAME", choices=THEMES, help="one of " + ", ".join(THEMES))
    screen.add_argument("--ascii", action=switch, help="use ASCII characters only")
    screen.add_argument("--mouse", action=switch, help="react to the mouse (default), or leave it to the terminal")
    screen.add_argument("--host", metavar="[USER@]HOST", help="watch another machine through ssh")
    screen.add_argument("--readonly", action=switch, help="refuse every key that changes the machine")
    add_alerts_flag(screen, sub=False)
    screen.add_argument("--config", metavar="FILE", help="the settings file (iotop-ai config path prints the default)")


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the Settings of flags, environment and file.

    ``devices`` holds the words that the user typed; ``resolve_devices`` replaces them by kernel names.
    """
    settings = settings_now(flags_of(args), os.environ, getattr(args, "config", None))
    return settings._replace(job=getattr(args, "job", 0))


def settings_elsewhere(args: argparse.Namespace) -> Settings:
    """Return the Settings for a recording or another machine: without devices of this machine.

    The devices that the file or the environment names are devices of this machine; those of a flag are kept. Raises
    UsageError for a folder of this machine (--path).
    """
    if getattr(args, "path", None):
        raise UsageError("--path is a folder of this machine; use --device")
    settings = settings_of(args)
    return settings if getattr(args, "device", None) else settings._replace(devices=())


def flags_of(args: argparse.Namespace) -> dict[str, object]:
    """Return the values of the flags in ``args``, by the field of Settings. Raises UsageError for an empty --device."""
    device_lists = getattr(args, "device", None)
    devices = parse_names(",".join(device_lists)) if device_lists else None
    if devices == ():  # for example, from two unset shell variables; it would mean all devices
        raise UsageError("--device is empty")
    types = getattr(args, "smart_type", None)
    values: dict[str, object] = {
        "interval_s": getattr(args, "delay", None),
        "devices": devices,
        "path": getattr(args, "path", None),
        "only_active": getattr(args, "only", None),
        "accumulated": getattr(args, "accumulated", None),
        "sort": getattr(args, "sort", None),
        "theme": getattr(args, "theme", None),
        "ascii_only": getattr(args, "ascii", None),
        "mouse": getattr(args, "mouse", None),
        "readonly": getattr(args, "readonly", None),
        "exact": getattr(args, "exact", None) or None,
        "procfs": getattr(args, "procfs", None),
        "sysfs": getattr(args, "sysfs", None),
        "smart": getattr(args, "smart", None),
        "smartctl": getattr(args, "smartctl", None),
        "smart_types": tuple(types) if types else None,
    }
    return {name: value for name, value in values.items() if value is not None and value != ""}
