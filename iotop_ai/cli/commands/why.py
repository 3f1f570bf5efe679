"""``iotop-ai why``: watch for a moment, then print why the training is slow, in the words of the banner."""

from __future__ import annotations

import argparse

from iotop_ai.cli.commands.common_verdict import SelectedJob, add_watch_flags, exit_code_of, print_lines, watch
from iotop_ai.cli.options.common import add_source_flags, settings_of
from iotop_ai.cli.options.devices import resolve_devices
from iotop_ai.model.errors import UnknownError
from iotop_ai.present.screen.view import View
from iotop_ai.present.verdict.plain_text import fenced, verdict_block
from iotop_ai.sources.live.source import LiveSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``why``."""
    add_watch_flags(parser)
    parser.add_argument(
        "--stack", action="store_true", help="look at the trainer's Python stack for 5 s more, by py-spy (extra: stack)"
    )
    parser.add_argument("--md", action="store_true", help="print a fenced block for Markdown")
    add_source_flags(parser, sub=True)


def run(args: argparse.Namespace) -> int:
    """Watch, print the block; 1 when something slows the job, 2 when unknown."""
    settings = resolve_devices(settings_of(args))
    job = SelectedJob(getattr(args, "job", 0))
    source = LiveSource(settings, marks=True)
    last = watch(source, args.duration, job)
    if last is None:
        raise UnknownError("no data could be read")
    job.check()
    lines = verdict_block(last, View(devices=settings.devices))
    if args.stack:
        from iotop_ai.cli.commands.code_line import code_line  # only where it is asked for

        lines.insert(-1, code_line(source.root, last))
    print_lines(fenced(lines) if args.md else lines)
    return exit_code_of(
        None if last.verdict.measuring and not last.verdict.primary.lost_ratio else last.verdict.primary
    )
