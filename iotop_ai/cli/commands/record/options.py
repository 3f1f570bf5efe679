"""The flags of ``iotop-ai record``, and the checks of their values and combinations."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from iotop_ai.cli.options.alerts import add_alerts_flag, load_alerts
from iotop_ai.cli.options.common import add_source_flags, parse_count, parse_interval, settings_of
from iotop_ai.cli.options.devices import resolve_devices
from iotop_ai.collectors.io.programs import programs_in_path
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.model.parse import parse_duration_s, parse_size_bytes
from iotop_ai.model.settings import CMDLINE_LEVELS, Settings
from iotop_ai.store.write.recorder import MIN_FREE_BYTES, Rotation

if TYPE_CHECKING:
    from iotop_ai.alerts.config import AlertConfig

STREAM = "-"
LONGEST_DAYS = 3650
"""The longest --duration. It is far below the 292 years for which a timer of Python can wait."""
_DURATION = re.compile(r"([\d.]+(ms|s|m|min|h|d))+")


class RecordOptions(NamedTuple):
    """The values of the flags of ``record``, already checked.

    output, csv: a path or "-" for standard output; "" if the flag is missing
    keep: the number of finished files to keep beside the current one; None for all
    hook, command: the words of a command line; () for none
    burst_s: the interval during a burst (while rates or the verdict change), in seconds; None for no bursts
    control: whether the program that started iotop-ai controls the recording through stdin and stdout
    """

    settings: Settings
    output: str
    append: bool
    csv: str
    duration_s: float | None
    rotation: Rotation
    keep: int | None
    hook: tuple[str, ...]
    min_free_bytes: int
    burst_s: float | None
    command: tuple[str, ...]
    control: bool = False
    alerts: AlertConfig | None = None


def add_record_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``record``."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the recording to write (default ./HOST-TIME.iotop.jsonl; - is stdout)"
    )
    parser.add_argument("--append", action="store_true", help="append a session to an existing file")
    parser.add_argument("--duration", metavar="T", help="stop after this time: 30, 10m, 2h")
    parser.add_argument(
        "--rotate",
        metavar="LIMIT",
        help="start a new file at this size or age: 512M or 24h, or 1G,24h for whichever comes first",
    )
    parser.add_argument(
        "--keep",
        metavar="N",
        type=parse_count,
        help="number of finished files to keep beside the current one (default all)",
    )
    parser.add_argument(
        "--hook",
        metavar="CMD",
        help="command for each closed file, with its path in IOTOP_AI_FILE; in the folder /, without a shell",
    )
    parser.add_argument("--cmdline", choices=CMDLINE_LEVELS, help="how much of command lines to write (default names)")
    parser.add_argument("--min-free", metavar="SIZE", help="pause while the disk has less free space (default 64M)")
    parser.add_argument(
        "--burst", metavar="SEC", type=parse_interval, help="shorter interval while rates or the verdict change"
    )
    parser.add_argument("--csv", metavar="FILE", help="write a CSV log of the disks; without -o, write only this log")
    parser.add_argument(
        "--control",
        action="store_true",
        help="let the program that started iotop-ai control the recording: JSON requests on stdin, answers on stdout; "
        "the recording ends when stdin closes, and uses a new name if FILE exists",
    )
    add_alerts_flag(parser)
    add_source_flags(parser, sub=True)
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="-- COMMAND …", help="record while this command runs"
    )


def record_options(args: argparse.Namespace) -> RecordOptions:
    """Return the options that the flags describe. Raises UsageError for an invalid value or combination."""
    settings = resolve_devices(settings_of(args))
    settings = settings._replace(cmdline=args.cmdline or settings.cmdline)
    output, csv = args.output or "", args.csv or ""
    rotation = parse_rotation(args.rotate) if args.rotate else Rotation()
    if output == STREAM and (args.append or args.rotate):
        raise UsageError("--append and --rotate do not work with stdout; name a file with -o")
    if output == STREAM and args.hook is not None:
        raise UsageError("--hook does not work with stdout; name a file with -o")
    if output == STREAM and csv == STREAM:
        raise UsageError("the recording and the log cannot both go to stdout")
    if csv and not output and (args.rotate or args.hook):
        raise UsageError("--csv alone writes no recording: --rotate and --hook need -o")
    if args.keep is not None and not args.rotate:
        raise UsageError("--keep needs --rotate")
    if args.burst is not None and args.burst >= settings.interval_s:
        raise UsageError(f"--burst {args.burst:g} is not shorter than the interval of {settings.interval_s:g} s")
    command = tuple(args.words[1:] if args.words[:1] == ["--"] else args.words)
    if args.control and (command or STREAM in (output, csv)):
        raise UsageError("--control needs standard input and output: leave out COMMAND and -")
    if command and STREAM in (output, csv):
        raise UsageError(f"COMMAND prints to stdout too: name a file with {'-o' if output == STREAM else '--csv'}")
    if command[:1] and command[0].startswith("-"):
        raise UsageError(f"unrecognized arguments: {command[0]} (put -- before a command)")
    return RecordOptions(
        settings=settings,
        output=output,
        append=args.append,
        csv=csv,
        duration_s=None if args.duration is None else _duration_s(args.duration),
        rotation=rotation,
        keep=args.keep,
        hook=parse_hook(args.hook),
        min_free_bytes=MIN_FREE_BYTES if args.min_free is None else parse_size_bytes(args.min_free),
        burst_s=args.burst,
        command=command,
        control=args.control,
        alerts=load_alerts(args.alerts),
    )


def _duration_s(text: str) -> float:
    seconds = _positive(parse_duration_s(text))
    if seconds > LONGEST_DAYS * 86_400:
        raise UsageError(f"--duration {text} is longer than {LONGEST_DAYS} days")
    return seconds


def parse_rotation(text: str) -> Rotation:
    """Return the limits in a text such as "512M", "24h" or "1G,24h": a size, an age, or both.

    A lower-case m stands for minutes, an upper-case M for MiB. Raises UsageError.
    """
    size: int | None = None
    seconds: float | None = None
    for word in text.split(","):
        is_age = _DURATION.fullmatch(word.strip()) is not None
        if (seconds if is_age else size) is not None:
            raise UsageError(f"--rotate {text}: give at most one size and one age")
        if is_age:
            seconds = _positive(parse_duration_s(word))
        else:
            size = parse_size_bytes(word)
            if size < 1:
                raise UsageError(f"--rotate {word.strip()}: the size must be above 0")
    return Rotation(size, seconds)


def parse_hook(text: str | None) -> tuple[str, ...]:
    """Return the words of the hook's command line, split by a shell's rules; () for None.

    The program's path is absolute, because a hook runs in the folder "/". Raises UsageError, also for a program that
    does not exist: the first hook may run only a day later.
    """
    try:
        argv = tuple(shlex.split(text or ""))
    except ValueError as error:
        raise UsageError(f"--hook: {error}") from None
    if text is None:
        return ()
    if not argv:
        raise UsageError("--hook is empty")
    program = os.path.abspath(argv[0]) if "/" in argv[0] else next(programs_in_path(argv[0]), "")
    if not (os.path.isfile(program) and os.access(program, os.X_OK)):
        raise UsageError(f"--hook: {clean(argv[0])} is not a program that can run")
    return (program, *argv[1:])


def default_output(host: str, wall_ns: int) -> str:
    """Return the default name of a recording: HOST-TIME.iotop.jsonl, with the local time."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", host).lstrip(".-") or "host"
    return f"{name[:60]}-{datetime.fromtimestamp(wall_ns // 10**9).strftime('%Y%m%dT%H%M%S')}.iotop.jsonl"


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise UsageError("the time must be above 0")
    return seconds
