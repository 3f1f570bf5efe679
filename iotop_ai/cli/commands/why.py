"""``iotop-ai why``: watch for a moment, then print why training is slow, in the words of the screen's banner."""

from __future__ import annotations

import argparse

from iotop_ai.cli.commands.common_verdict import (
    SelectedJob,
    add_watch_flags,
    exit_code_of,
    print_status,
    watch,
)
from iotop_ai.cli.options.common import Parser, add_source_flags, settings_of
from iotop_ai.cli.options.devices import resolve_devices
from iotop_ai.cli.stdout import print_lines
from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.frame import Frame
from iotop_ai.present.job.current import current_job
from iotop_ai.present.screen.view import View
from iotop_ai.present.verdict.plain_text import LABEL, code_block, verdict_block
from iotop_ai.sources.live.source import LiveSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``why``."""
    add_watch_flags(parser)
    parser.add_argument(
        "--stack",
        action="store_true",
        help="sample the trainer's Python stack for 5 s more, with py-spy (extra: stack)",
    )
    parser.add_argument("--md", "--markdown", action="store_true", help="print a fenced block for Markdown")
    add_source_flags(parser, sub=True)
    if isinstance(parser, Parser):
        parser.other_command_hint = "iotop-ai diagnose prints JSON and reads recordings"


def run(args: argparse.Namespace) -> int:
    """Watch and print the verdict; return its ``exit_code_of``. Raises UnknownError if the verdict is unclear."""
    settings = resolve_devices(settings_of(args))
    job = SelectedJob(getattr(args, "job", 0))
    source = LiveSource(settings, marks=True)
    last = watch(source, args.duration, job)
    if last is None:
        raise UnknownError("no data could be read")
    job.check()
    lines = verdict_block(last, View(devices=settings.devices))
    if args.stack:
        lines.insert(-1, code_line(source.root, last))  # the last line says where and when the verdict was seen
    print_lines(code_block(lines) if args.md else lines)
    return exit_code_of(None if last.verdict.unjudged else last.verdict.primary)


def code_line(root: Root, frame: Frame) -> str:
    """Return a line with the code location of the judged job's first training process, or why it is unknown."""
    return f"{'code':<{LABEL}}{_code(root, frame)}"


def _code(root: Root, frame: Frame) -> str:
    from iotop_ai.collectors.process.python_code import SECONDS, read_python_code  # imported only if --stack is given
    from iotop_ai.present.process.code import code_text

    job = current_job(frame)
    if job is None:
        return "unknown: no training job is seen"
    key = job.ranks[0].key if job.ranks else job.key
    print_status(f"py-spy samples pid {key.pid} for {SECONDS} s ...")
    try:
        return code_text(read_python_code(root, key.pid, job.uid))
    except Unavailable as error:
        return f"unknown: {error.reason}{f' ({error.remedy})' if error.remedy else ''}"
