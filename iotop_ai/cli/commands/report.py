"""``iotop-ai report``: what happened in a recorded run, as text, Markdown, JSON or one HTML file."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Iterator

from iotop_ai.cli.commands.common_verdict import SelectedJob, print_lines
from iotop_ai.cli.options.common import add_job_flag
from iotop_ai.cli.options.conditions import add_fail_if_flag, conditions_of, exit_code_if, fail_lines
from iotop_ai.cli.prompt import Progress
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.export.report.builder import StoryBuilder
from iotop_ai.export.report.money import Price, parse_price
from iotop_ai.export.report.story import Story
from iotop_ai.model.clean import clean
from iotop_ai.model.condition.grammar import Condition
from iotop_ai.model.condition.over_run import ConditionOverRun, Outcome
from iotop_ai.model.frame import Frame
from iotop_ai.playback.run_reader import JudgedSpan, RunItem, RunReader
from iotop_ai.playback.selection import RecordedFrames, add_replay_flags, corrupt_input_as_error
from iotop_ai.present.screen.bounds import bounded

STDOUT = "-"
_WIDTH = 100
_OTHERS_S = 5.0
"""Another job than the recorded command's counts when it was watched for so long."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``report``."""
    add_replay_flags(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--html", metavar="OUT", help="write one self-contained HTML file; - is standard output")
    form.add_argument("--markdown", action="store_true", help="print Markdown instead of text")
    form.add_argument("--json", action="store_true", help="print a JSON object (docs/report.md) instead of text")
    parser.add_argument(
        "--gpu-hour-price", metavar="PRICE", help="what an hour of one GPU costs: 2.50, $2.50 or '2.50 EUR'"
    )
    parser.add_argument(
        "--every", action="store_true", help="read every interval of a long run, too, instead of one a minute: slower"
    )
    add_job_flag(parser)
    add_fail_if_flag(parser)
    parser.add_argument("--ascii", action="store_true", help="ASCII only")
    parser.add_argument("--force", action="store_true", help="replace an existing OUT")


def run(args: argparse.Namespace) -> int:
    """Read, then print; 0, or what --fail-if answers."""
    conditions = conditions_of(args)
    price = None if args.gpu_hour_price is None else parse_price(args.gpu_hour_price)
    with contextlib.ExitStack() as stack:
        out = None
        if args.html not in (None, STDOUT):
            # Refused before the recording is read, which may take long.
            out = stack.enter_context(OutFile(args.html, force=args.force))
        story, outcomes = told(args, conditions)
        lines = _rendered(args, story, price, outcomes)
        if out is not None:
            with out.stream() as file:
                file.write("".join(f"{line}\n" for line in lines).encode())
            out.commit()
            lines = []
    print_lines([*lines, *([] if args.json or args.html == STDOUT else fail_lines(outcomes))])
    return exit_code_if(outcomes)


def told(args: argparse.Namespace, conditions: list[Condition]) -> tuple[Story, tuple[Outcome, ...]]:
    """The Story of the file, judged for the job of --job, else for the recorded command's own."""
    pid = getattr(args, "job", 0)
    story, outcomes = read_story(args, conditions, pid)
    main = story.main_job
    others = [job for job in story.jobs if job is not main and job.counts.whole_ms > _OTHERS_S * 1000]
    if not pid and main is not None and main.own and others and args.file != "-":
        # The verdict may be about another job of the machine.
        return read_story(args, conditions, main.pid)
    return story, outcomes


def read_story(
    args: argparse.Namespace, conditions: list[Condition], pid: int, every: bool = False
) -> tuple[Story, tuple[Outcome, ...]]:
    """The Story of the recording that FILE, --begin and --end select. pid: judge this job; 0: the leading one."""
    watched = tuple(ConditionOverRun(one) for one in conditions)
    job = SelectedJob(pid)
    with corrupt_input_as_error(args.file), Progress(after_s=1.0) as show:
        played = RecordedFrames(args.file, args.begin, args.end, allow_root=args.allow_root)
        folded = job.given or any(one.needs_frames for one in watched)
        reader = RunReader(played, every=True if args.every or every else None, folded=folded)
        builder = StoryBuilder(*_span(played), watched)
        for item in _items(reader, job):
            builder.add(item)
            if not isinstance(item, JudgedSpan):
                show(f"reading {played.progress(item.snapshot.wall_ns)}")
        job.check()
        story = builder.story(clean(os.path.basename(args.file)), played.about(), every=reader.every)
    return story, builder.diagnosis.outcomes()


def _items(reader: RunReader, job: SelectedJob) -> Iterator[RunItem]:
    for item in reader:
        yield job.judge(item) if isinstance(item, Frame) and job.given else item


def _span(played: RecordedFrames) -> tuple[int | None, int | None]:
    if played.source.streams:
        return played.begin_ns, played.end_ns
    first_ns, last_ns = played.source.span()
    begin_ns = None if played.begin_ns is None else max(first_ns, played.begin_ns)
    return begin_ns, last_ns if played.end_ns is None else min(last_ns, played.end_ns)


def _rendered(args: argparse.Namespace, story: Story, price: Price | None, outcomes: tuple[Outcome, ...]) -> list[str]:
    if args.json:
        from iotop_ai.export.report.json import render_report_json

        return [render_report_json(story, price, outcomes)]
    if args.html is not None:
        from iotop_ai.export.html.report import render_report_html

        return [render_report_html(story, price)]
    if args.markdown:
        from iotop_ai.export.report.markdown import render_report_markdown

        return [render_report_markdown(story, price)]
    from iotop_ai.export.report.text import render_report_text

    plain = args.ascii or not (sys.stdout.encoding or "").lower().startswith("utf")
    width, _ = bounded(*shutil.get_terminal_size((_WIDTH, 45)))
    return [render_report_text(story, width, ascii_only=plain, price=price)]
