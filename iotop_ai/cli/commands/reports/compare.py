"""``iotop-ai compare``: show two recorded runs side by side, and say in one sentence what changed and why."""

from __future__ import annotations

import argparse
import re

from iotop_ai.cli.commands.reports.common import (
    STREAM,
    HtmlOut,
    add_html_flag,
    add_reading_flags,
    judged_story,
    text_layout,
)
from iotop_ai.cli.options.common import parse_pid
from iotop_ai.cli.options.conditions import add_fail_if_flag, conditions_of, exit_code_of_conditions, fail_lines
from iotop_ai.cli.stdout import print_lines
from iotop_ai.export.compare.comparison import ALIGNMENTS, GPU_BUSY, STEPS, Comparison, compare_runs
from iotop_ai.export.report.step_curve import with_steps
from iotop_ai.model.condition.figures import figure_of
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.model.errors import UsageError
from iotop_ai.playback.selection import ALLOW_ROOT
from iotop_ai.sources.imports.step_log import read_step_log

_CHANGE = "change."
_OWN_UNITS = {STEPS: "1/s", GPU_BUSY: "ratio"}
"""The figures that only a comparison has, with their units. --fail-if accepts them and the common figures."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``compare``."""
    parser.add_argument("before", metavar="BEFORE", help="the recording of the first run")
    parser.add_argument("after", metavar="AFTER", help="the recording of the second run")
    parser.add_argument(
        "--align",
        choices=ALIGNMENTS,
        help="compare between common marks, the jobs from their first step, or the whole time "
        "(default: the first of these that both runs allow)",
    )
    parser.add_argument(
        "--before-job", metavar="PID", type=parse_pid, default=0, help="the job in BEFORE that has this process"
    )
    parser.add_argument(
        "--after-job", metavar="PID", type=parse_pid, default=0, help="the job in AFTER that has this process"
    )
    parser.add_argument(
        "--before-steps", metavar="LOG", help="training log of BEFORE; report --steps lists the formats"
    )
    parser.add_argument("--after-steps", metavar="LOG", help="training log of AFTER")
    parser.add_argument("--begin", metavar="T", help="start of the compared part, in both runs: +2m, 45%%, 14:32")
    parser.add_argument("--end", metavar="T", help="end of the compared part, in both runs")
    parser.add_argument("--allow-root", action="store_true", help=ALLOW_ROOT)
    form = parser.add_mutually_exclusive_group()
    add_html_flag(form)
    form.add_argument("--json", action="store_true", help="print a JSON object (docs/compare.md) instead of text")
    add_reading_flags(parser)
    add_fail_if_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Read both runs, compare them and print; return 0, or the exit code of --fail-if for AFTER and the changes."""
    changes = _change_figures(args.fail_if)
    conditions = conditions_of(args, {**_OWN_UNITS, **changes})
    if args.before == STREAM or args.after == STREAM:
        raise UsageError("compare reads each file more than once; save the stream to a file first")
    with HtmlOut(args) as out:
        logs = [
            None if path is None else read_step_log(path, allow_root=args.allow_root)
            for path in (args.before_steps, args.after_steps)
        ]
        before, _ = judged_story(args.before, args, [], args.before_job)
        after, builder = judged_story(args.after, args, conditions, args.after_job)
        before, after = (s if log is None else with_steps(s, log) for s, log in zip((before, after), logs, strict=True))
        comparison = compare_runs(before, after, args.align)
        outcomes = builder.diagnosis.outcomes(_figure_values(comparison, changes))
        out.put(_render(args, comparison, outcomes))
    if not args.json and args.html != STREAM:
        print_lines(fail_lines(outcomes))
    return exit_code_of_conditions(outcomes)


def _change_figures(texts: list[str]) -> dict[str, str]:
    """Return the figures "change.NAME" that the conditions use, with their units. Raises UsageError.

    Each is the relative change of the figure NAME; for a share it is the difference in points.
    """
    out = {}
    for name in re.findall(r"change\.([^\s<>=]+)", " ".join(texts)):
        if name not in _OWN_UNITS:
            figure_of(name)
        out[f"{_CHANGE}{name}"] = "ratio"
    return out


def _figure_values(comparison: Comparison, changes: dict[str, str]) -> dict[str, float | None]:
    """Return the figures of _OWN_UNITS in AFTER and the changes, by name.

    A figure or change is None if it is unknown. A change that is not clear is 0.
    """
    out: dict[str, float | None] = {}
    for name in _OWN_UNITS:
        change = comparison.change(name)
        out[name] = None if change is None else change.after
    for name in changes:
        figure = name.removeprefix(_CHANGE)
        if figure not in _OWN_UNITS:
            parsed = figure_of(figure)
            figure = f"{parsed.family}.{parsed.name}.{parsed.field}" if parsed.family else parsed.field
        # A comparison has the share goodput under the name compute.
        change = comparison.change({"goodput": "compute"}.get(figure, figure))
        if change is None or change.interval is None:
            out[name] = None
        else:
            out[name] = change.relative if change.clear else 0.0
    return out


def _render(args: argparse.Namespace, comparison: Comparison, outcomes: tuple[ConditionResult, ...]) -> str:
    if args.json:
        from iotop_ai.export.compare.text import render_compare_json

        return render_compare_json(comparison, outcomes)
    if args.html is not None:
        from iotop_ai.export.html.compare import render_compare_html

        return render_compare_html(comparison)
    from iotop_ai.export.compare.text import render_compare_text

    width, plain = text_layout(args)
    return render_compare_text(comparison, width, ascii_only=plain)
