"""``iotop-ai``: its parser, and the entry point that turns errors into one line and an exit code."""

from __future__ import annotations

import sys

try:
    import contextlib
    import gc
    import os
    from collections.abc import Mapping, Sequence
    from typing import TYPE_CHECKING

    import iotop_ai
    from iotop_ai.cli.config.settings import settings_now
    from iotop_ai.cli.start.environment import drop_variables
    from iotop_ai.cli.stderr import print_notice
    from iotop_ai.cli.subcommands import COMMANDS
    from iotop_ai.model.clean import clean
    from iotop_ai.model.errors import DEBUG_VARIABLE, IotopError, UsageError
    from iotop_ai.model.parse import parse_duration_s
    from iotop_ai.model.settings import LONGEST_S, SHORTEST_S
except KeyboardInterrupt:  # a Ctrl-C before ``main`` can catch it
    sys.exit(130)

if TYPE_CHECKING:
    import argparse

    from iotop_ai.cli.options.common import Parser

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
NO_THREAD = "can't start new thread"
"""The text of Python's RuntimeError when this user or the container has too many threads."""
TIME_FLAGS = ("--at", "--begin", "--end")
"""The flags whose value may begin with a "-", such as -3m."""
RECORD_SWITCHES = ("-h", "--help", "--append", "--control", "--exact", "--smart", "--no-smart")
"""The flags of ``record`` that take no value."""
VALUE_FLAGS = (
    *("-d", "--delay", "-n", "--count", "--device", "--path", "--procfs", "--sysfs", "--smartctl", "--smart-type"),
    *("--sort", "--job", "--theme", "--host", "--alerts", "--config"),
)
"""The flags that may precede a command, and whose value may be the next word."""
TEXT_FLAGS = ("-b", "--batch", "-t", "--timestamps", "--once", "--json", "-n", "--count")
"""The flags of the text output that ``iotop-ai -b`` prints instead of the screen."""
GC_THRESHOLD = 20_000
"""The number of new objects that starts a garbage collection. It is large, because a tick's objects form no cycles."""


def build_parser(argv: Sequence[str]) -> Parser:
    """Return the parser. It loads only the commands that ``argv`` names, and only these have arguments."""
    from argparse import RawDescriptionHelpFormatter

    from iotop_ai.cli.options.common import EXAMPLES, Parser, add_screen_flags, add_source_flags

    parser = Parser(
        prog="iotop-ai",
        description="Why is my training slow? Disks, GPUs, SMART and processes, live, with a verdict.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"iotop-ai {iotop_ai.__version__}")
    add_source_flags(parser, sub=False)
    add_screen_flags(parser)
    from importlib import import_module

    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    parser.argv, called = argv, _command_of(argv)
    parser.commands = tuple(command.name for command in COMMANDS)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        if command.name in argv:
            import_module(command.module).add_arguments(sub)
        if command.name == called:
            parser.called_parser = sub
    return parser


def run(argv: Sequence[str]) -> int:
    """Parse the words and run the command; return the exit code. Raises the command's errors."""
    if (flags := plain_flags(argv)) is not None:
        return _run_screen(flags)
    args = build_parser(argv).parse_args(join_times(expand_stream(argv)))
    _mute_log()
    if args.command:
        _refuse_text_flags(argv, args.command)
    words = args.command or ("-b" if _wants_text(args) else "")
    if args.host is not None and words:  # this machine's figures would look like the other machine's
        raise UsageError(f"--host works with the screen only; use ssh HOST iotop-ai {words}")
    for command in COMMANDS:
        if command.name == args.command:
            # imported here, because start-up without a command does not need importlib
            from importlib import import_module

            result: int = import_module(command.module).run(args)
            return result
    return _run_bare(args)


def _mute_log() -> None:
    """Keep the program's log off the terminal, unless IOTOP_AI_DEBUG is set.

    The screen shows an error of a collector as its Reading's reason.
    """
    if not os.environ.get(DEBUG_VARIABLE):
        import logging  # needed to run a command, but not for its help

        logging.getLogger("iotop_ai").addHandler(logging.NullHandler())


def expand_stream(argv: Sequence[str]) -> list[str]:
    """Replace ``record - ...``, the short form for a pipe to another monitor, by ``record -o - ...``.

    Only a "-" before the command that ``record`` runs is replaced, because that command may have a "-" of its own.
    """
    out = list(argv)
    if _command_of(out) != "record":
        return out
    at = _command_at(out) + 1
    while at < len(out) and out[at][:1] == "-" and out[at] != "--":
        word = out[at]
        if word == "-":
            out.insert(at, "-o")
            break
        # -d5 and --delay=5 contain their value.
        takes_value = "=" not in word and word not in RECORD_SWITCHES and (word[:2] == "--" or len(word) == 2)
        at += 2 if takes_value else 1
    return out


def _command_of(argv: Sequence[str]) -> str:
    """Return the name of the command; "" if there is none."""
    return next(iter(argv[_command_at(argv) :]), "")


def _command_at(argv: Sequence[str]) -> int:
    """Return the index of the first word that names a command and is not a flag's value; without one, the end."""
    names = {command.name for command in COMMANDS}
    at = 0
    while at < len(argv) and argv[at] not in names:
        at += 2 if argv[at] in VALUE_FLAGS else 1
    return at


def join_times(argv: Sequence[str]) -> list[str]:
    """Replace ``--at -3m`` by ``--at=-3m``, because argparse would take -3m for an option.

    The arguments of a command that ``record`` runs stay as they are.
    """
    if _command_of(argv) == "record":
        return list(argv)
    out: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            return [*out, word, *words]
        after_time = bool(out) and out[-1] in TIME_FLAGS
        if after_time and word[:1] == "-" and word[1:2].isdigit():
            out[-1] += f"={word}"
        else:
            out.append(word)
    return out


def _run_bare(args: argparse.Namespace) -> int:
    """Run without a subcommand: show the live screen, or print its text form; return the exit code."""
    if _wants_text(args):
        if args.alerts is not None:
            raise UsageError("--alerts works with the screen, record and serve, not with text output")
        from iotop_ai.cli.commands import batch

        return batch.run(args)
    if args.count is not None:
        raise UsageError("-n counts blocks of text; add -b")
    if args.alerts is not None and args.host is not None:
        raise UsageError("--alerts is for this machine; iotop-ai serve or record checks alerts on the other machine")
    from iotop_ai.cli.options.common import flags_of, settings_elsewhere

    if args.host is not None:
        from iotop_ai.cli.commands.monitor.remote import show_host

        return show_host(settings_elsewhere(args), args.host, flags_of(args))
    return _run_screen(flags_of(args), args.config, getattr(args, "job", 0), args.alerts)


def _refuse_text_flags(argv: Sequence[str], command: str) -> None:
    """Raise UsageError for a live-text flag before a command, because the command would ignore the flag."""
    for word in argv[: _command_at(argv)]:
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if name in TEXT_FLAGS:
            raise UsageError(f"{name} prints live text; for the flags of {command}: iotop-ai {command} --help")


def _wants_text(args: argparse.Namespace) -> bool:
    return bool(args.batch or args.timestamps or args.once or args.json)


def plain_flags(argv: Sequence[str]) -> dict[str, object] | None:
    """Return the flags of ``iotop-ai`` and ``iotop-ai -d SEC``; None for other command lines, which need the parser.

    This avoids importing and building the parser, which takes a tenth of the time to the first frame.
    """
    if not argv:
        return {}
    if len(argv) != 2 or argv[0] not in ("-d", "--delay") or not argv[1][:1].isdecimal():
        return None
    try:
        seconds = parse_duration_s(argv[1])
    except UsageError:
        return None
    return {"interval_s": seconds} if SHORTEST_S <= seconds <= LONGEST_S else None


def _run_screen(flags: Mapping[str, object], config: str | None = None, job: int = 0, alerts: str | None = None) -> int:
    """Show the live screen of this machine; return the exit code. alerts: the file of rules that the user named."""
    gc.disable()  # the imports create no garbage
    from iotop_ai.cli.commands.monitor.command import run_monitor
    from iotop_ai.sources.live.source import LiveSource

    gc.enable()
    settings = settings_now(flags, os.environ, config)._replace(job=job)
    if settings.devices or settings.path:
        from iotop_ai.cli.options.devices import resolve_devices

        settings = resolve_devices(settings)
    make_alerts = None
    if alerts is not None:
        from iotop_ai.cli.commands.monitor.command import named_alerts
        from iotop_ai.cli.options.alerts import load_alerts

        make_alerts = named_alerts(load_alerts(alerts))
    source = LiveSource(settings, marks=True, quick_start=True)
    return run_monitor(settings, source, source.begin, make_alerts)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. A traceback appears only if IOTOP_AI_DEBUG is set."""
    gc.set_threshold(GC_THRESHOLD, 10, 10)
    if sys.stdout is None:
        return _fail("unknown", "standard output is closed", 2)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
        # Another program may have made a shared pipe non-blocking, and output would be lost while the pipe is full.
        with contextlib.suppress(OSError):  # a stream in memory has no descriptor
            os.set_blocking(sys.stdout.fileno(), True)
    if os.geteuid() == 0 and (ignored := drop_variables()):
        print_notice(ignored)
    code = 0
    try:
        try:
            code = run(sys.argv[1:] if argv is None else argv)
        except (Exception, KeyboardInterrupt):
            try:
                sys.stdout.flush()
            except OSError:  # the reader of the output has gone, but the error must still be reported
                _drop_stdout()
            raise
        finally:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_stdout()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except IotopError as error:
        return _fail(error.word, str(error), error.exit_code)
    except Exception as error:  # an error that no command expects
        if os.environ.get(DEBUG_VARIABLE):
            raise
        if isinstance(error, RuntimeError) and str(error) == NO_THREAD:
            return _fail("unknown", f"{NO_THREAD}: end processes, or raise ulimit -u or the cgroup's pids.max", 2)
        description = f"{error.filename or 'I/O'}: {error.strerror}" if isinstance(error, OSError) else repr(error)
        hint = "; ".join(getattr(error, "__notes__", ())) or f"{DEBUG_VARIABLE}=1 shows where"
        return _fail("unknown", f"{description} ({hint})", 2)


def _fail(word: str, text: str, code: int) -> int:
    """Print the error as one line to stderr; return ``code``. word: the kind of error, such as "usage"."""
    if isinstance(sys.exc_info()[1], OSError):
        _drop_stdout()  # the write to stdout may have failed, and the interpreter's last flush would fail again
    print_notice(f"{word}: {clean(text)}")
    return code


def _drop_stdout() -> None:
    from iotop_ai.cli.stdout import drop_stdout  # rarely needed, so not imported at start-up

    drop_stdout()
