"""``iotop-ai``: the commands, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence

import iotop_ai
from iotop_ai.cli.settings import settings_now
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError, UsageError
from iotop_ai.model.parse import parse_duration_s
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.settings import LONGEST_S, SHORTEST_S
from iotop_ai.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from iotop_ai.cli.options import Parser

DEBUG_VARIABLE = "IOTOP_AI_DEBUG"
INTERRUPTED = 130
TIME_FLAGS = ("--at", "--begin", "--end")
GARBAGE = 20_000
"""New objects after which garbage is looked for: what a second makes goes by itself, as nothing in it is a circle."""


class Command(NamedTuple):
    """One subcommand. module: has ``add_arguments(parser)`` and ``run(args) -> int``; loaded only when it is named."""

    name: str
    module: str
    help: str


COMMANDS: tuple[Command, ...] = (
    Command("why", "iotop_ai.cli.why", "why is it slow? watch 15 s and say it in a few lines; exits 1 when it is"),
    Command("diagnose", "iotop_ai.cli.diagnose", "the verdict over a while or a whole recording, also as JSON"),
    Command("snapshot", "iotop_ai.cli.snapshot", "one interval of everything as text or JSON"),
    Command("ack", "iotop_ai.cli.ack", "take note of a failing disk or GPU: silent until it gets worse"),
    Command("health", "iotop_ai.cli.health", "every disk's health; exits 0 fine, 1 not, 2 unknown, for cron"),
    Command("gpu-log", "iotop_ai.cli.gpu_log", "what nvidia-smi --query-gpu -l prints, each line out at once"),
    Command("trend", "iotop_ai.cli.trend", "watch a while, then print the curves"),
    Command("record", "iotop_ai.cli.record", "the counters of the whole machine into a file, or while a command runs"),
    Command("service", "iotop_ai.cli.service", "a systemd unit that records always, to standard output"),
    Command("replay", "iotop_ai.cli.replay", "a recording on this screen; of a pipe, another machine as it happens"),
    Command("mark", "iotop_ai.cli.mark", "a mark on the time line of every monitor and recording of this user"),
    Command("export", "iotop_ai.cli.export", "a recording as CSV, JSON Lines, SQLite or Parquet tables"),
    Command("cache", "iotop_ai.cli.cache", "what of a dataset is in memory; evict it; drop the host's caches"),
    Command("web", "iotop_ai.cli.web", "the live screen in a browser on this machine, read-only (extra: web)"),
    Command("config", "iotop_ai.cli.config", "the settings file: where it is, what holds now, what is wrong in it"),
    Command("stage", "iotop_ai.cli.stage", "copy a dataset to where it is read faster: planned, measured, verified"),
    Command("import", "iotop_ai.cli.import_logs", "a log of iostat or nvidia-smi as a recording"),
)


def build_parser(argv: Sequence[str]) -> Parser:
    """The parser; only the commands that ``argv`` names are loaded and get their own arguments."""
    from argparse import RawDescriptionHelpFormatter

    from iotop_ai.cli.options import EXAMPLES, Parser, add_screen_flags, add_source_flags

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
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        if command.name in argv:
            import_module(command.module).add_arguments(sub)
    return parser


def run(argv: Sequence[str]) -> int:
    """Parse and run; the exit code. Raises what the command raises."""
    if (flags := plain_flags(argv)) is not None:
        return _screen(flags)
    args = build_parser(argv).parse_args(times_joined(stream_named(argv)))
    text = args.command or ("-b" if args.batch or args.timestamps else "")
    if args.host is not None and text:  # this machine's figures under the other's name would mislead
        raise UsageError(f"--host is for the screen alone; write ssh HOST iotop-ai {text}")
    for command in COMMANDS:
        if command.name == args.command:
            # Not at the top: a start needs no module by its name.
            from importlib import import_module

            result: int = import_module(command.module).run(args)
            return result
    return _bare(args)


def stream_named(argv: Sequence[str]) -> list[str]:
    """``record - ...`` as ``record -o - ...``: the short form of a pipe to another monitor."""
    out = list(argv)
    if "record" in out:
        at = out.index("record") + 1
        end = out.index("--", at) if "--" in out[at:] else len(out)
        if "-" in out[at:end] and out[out.index("-", at) - 1] not in ("-o", "--output", "--csv"):
            out.insert(out.index("-", at), "-o")
    return out


def times_joined(argv: Sequence[str]) -> list[str]:
    """``--at -3m`` as ``--at=-3m``: argparse would take a time before the end for an option that it does not know."""
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


def _bare(args: argparse.Namespace) -> int:
    """No command: the live screen, or its text form."""
    if args.batch or args.timestamps:
        from iotop_ai.cli import batch

        return batch.run(args)
    if args.count is not None:
        raise UsageError("-n counts blocks of text; write -b too")
    if args.host is not None:
        from iotop_ai.cli.options import settings_elsewhere
        from iotop_ai.cli.remote import show_host

        return show_host(settings_elsewhere(args), args.host)
    from iotop_ai.cli.options import flags_of

    return _screen(flags_of(args), args.config, getattr(args, "job", 0))


def plain_flags(argv: Sequence[str]) -> dict[str, object] | None:
    """The settings of a start that asks for nothing but the screen, or for its delay; None: the parser has to look.

    The parser says the same, but to import and to build it is a tenth of the time until something is on the screen.
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


def _screen(flags: Mapping[str, object], config: str | None = None, job: int = 0) -> int:
    """The live screen of this machine."""
    gc.disable()  # nothing of what is imported is garbage
    from iotop_ai.cli.monitor import run_monitor
    from iotop_ai.sources.live import LiveSource

    gc.enable()
    settings = settings_now(flags, os.environ, config)._replace(job=job)
    if settings.devices or settings.path:
        from iotop_ai.cli.select import resolved

        settings = resolved(settings)
    source = LiveSource(settings, marks=True, soon=True)
    return run_monitor(settings, source, source.begin)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and return the exit code: nothing that goes wrong shows a traceback unless IOTOP_AI_DEBUG asks for it."""
    gc.set_threshold(GARBAGE, 10, 10)
    if sys.stdout is None:
        return _fail("unknown", "standard output is closed", 2)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            return run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except IotopError as error:
        return _fail(error.word, str(error), error.exit_code)
    except Exception as error:  # the last net: one line for people, the traceback on request
        if os.environ.get(DEBUG_VARIABLE):
            raise
        what = f"{error.filename or 'I/O'}: {error.strerror}" if isinstance(error, OSError) else repr(error)
        where = "; ".join(getattr(error, "__notes__", ())) or f"{DEBUG_VARIABLE}=1 shows where"
        return _fail("unknown", f"{what} ({where})", 2)


def _fail(word: str, text: str, code: int) -> int:
    if isinstance(sys.exc_info()[1], OSError):
        _drop_stdout()
    if sys.stderr is not None:
        print(f"{word}: {clean(text)}", file=sys.stderr)
    return code


def _drop_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter's last flush does not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
