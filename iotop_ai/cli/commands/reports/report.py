"""``iotop-ai report``: write a report of a recorded run, as text, Markdown, JSON or one HTML file."""

from __future__ import annotations

import argparse

from iotop_ai.cli.commands.reports.common import (
    STREAM,
    HtmlOut,
    add_html_flag,
    add_reading_flags,
    judged_story,
    text_layout,
)
from iotop_ai.cli.options.common import add_job_flag
from iotop_ai.cli.options.conditions import add_fail_if_flag, conditions_of, exit_code_of_conditions, fail_lines
from iotop_ai.cli.stdout import print_lines
from iotop_ai.export.report.money import Price, parse_price
from iotop_ai.export.report.step_curve import with_steps
from iotop_ai.export.report.story import Story
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.playback.selection import add_replay_flags
from iotop_ai.sources.imports.step_log import read_step_log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``report``."""
    add_replay_flags(parser)
    form = parser.add_mutually_exclusive_group()
    add_html_flag(form)
    form.add_argument("--md", "--markdown", dest="markdown", action="store_true", help="print Markdown instead of text")
    form.add_argument("--json", action="store_true", help="print a JSON object (docs/report.md) instead of text")
    parser.add_argument(
        "--gpu-hour-price", metavar="PRICE", help="price of one GPU per hour: 2.50, $2.50 or '2.50 EUR'"
    )
    parser.add_argument(
        "--steps", metavar="LOG", help="training log: printed step lines, trainer_state.json or TensorBoard events"
    )
    add_reading_flags(parser)
    add_job_flag(parser)
    add_fail_if_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Read the recording and print the report; return 0, or the exit code of --fail-if."""
    conditions = conditions_of(args)
    price = None if args.gpu_hour_price is None else parse_price(args.gpu_hour_price)
    with HtmlOut(args) as out:
        log = None if args.steps is None else read_step_log(args.steps, allow_root=args.allow_root)
        story, builder = judged_story(args.file, args, conditions, getattr(args, "job", 0))
        story = story if log is None else with_steps(story, log)
        outcomes = builder.diagnosis.outcomes()
        out.put(_render(args, story, price, outcomes))
    if not args.json and args.html != STREAM:
        print_lines(fail_lines(outcomes))
    return exit_code_of_conditions(outcomes)


def _render(args: argparse.Namespace, story: Story, price: Price | None, outcomes: tuple[ConditionResult, ...]) -> str:
    if args.json:
        from iotop_ai.export.report.json import render_report_json

        return render_report_json(story, price, outcomes)
    if args.html is not None:
        from iotop_ai.export.html.report import render_report_html

        return render_report_html(story, price)
    if args.markdown:
        from iotop_ai.export.report.markdown import render_report_markdown

        return render_report_markdown(story, price)
    from iotop_ai.export.report.text import render_report_text

    width, plain = text_layout(args)
    return render_report_text(story, width, ascii_only=plain, price=price)
