"""``iotop-ai why``: watch a moment, then say why the training is slow, in the banner's words."""

from __future__ import annotations

import argparse

from iotop_ai.cli.options import add_source_flags, settings_of
from iotop_ai.cli.select import resolved
from iotop_ai.cli.verdict import JobSeen, add_watch_flags, ended, lines_out, watched
from iotop_ai.model.errors import UnknownError
from iotop_ai.present.paste import fenced, verdict_block
from iotop_ai.present.view import View
from iotop_ai.sources.live import LiveSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``why``."""
    add_watch_flags(parser)
    parser.add_argument("--md", action="store_true", help="fenced, to be pasted where Markdown is read")
    add_source_flags(parser, sub=True)


def run(args: argparse.Namespace) -> int:
    """Watch, print the block; 1 when something holds the job back, 2 when that cannot be told."""
    settings = resolved(settings_of(args))
    job = JobSeen(getattr(args, "job", 0))
    last = watched(LiveSource(settings), args.duration, job)
    if last is None:
        raise UnknownError("nothing could be read")
    job.check()
    lines = verdict_block(last, View(devices=settings.devices))
    lines_out(fenced(lines) if args.md else lines)
    return ended(None if last.verdict.measuring and not last.verdict.primary.lost_ratio else last.verdict.primary)
