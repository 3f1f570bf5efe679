"""``iotop-ai compare``: show two recorded runs side by side, and say in one sentence what changed and why."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Mapping

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
from iotop_ai.export.compare.comparison import (
    ALIGNMENTS,
    GPU_UNITS,
    JOB_DISK,
    STEPS,
    Change,
    Comparison,
    compare_runs,
)
from iotop_ai.export.report.step_curve import with_steps
from iotop_ai.model.condition.figures import figure_of
from iotop_ai.model.condition.grammar import Condition
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.model.errors import UsageError
from iotop_ai.playback.selection import ALLOW_ROOT
from iotop_ai.sources.imports.step_log import read_step_log

_CHANGE = "change."
_OWN_UNITS = {STEPS: "1/s", **GPU_UNITS}
"""The figures that only a comparison has, with their units. --fail-if accepts them and the common figures."""
_NOT_IN_CONDITIONS = (JOB_DISK, "network")
"""--fail-if does not accept a figure of a comparison whose name, up to the first dot, is one of these."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``compare``."""
    parser.add_argument("before", metavar="BEFORE", help="the recording of the first run")
    parser.add_argument("after", metavar="AFTER", help="the recording of the second run")
    parser.add_argument(
        "--align",
        choices=ALIGNMENTS,
        help="what to compare: the part between common marks (marks), the jobs from their first step (job), or the "
        "whole runs (time); default: the first of these that both runs allow",
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
    _check_durations(conditions, changes)
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
        outcomes = _explained(outcomes, comparison, changes)
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


def _check_durations(conditions: Iterable[Condition], changes: Mapping[str, str]) -> None:
    """Raise UsageError for a "for" after a figure that only a comparison has: such a figure is one value."""
    for condition in conditions:
        for clause in condition.clauses:
            if clause.hold_s and clause.figure is not None and clause.figure.text in {**_OWN_UNITS, **changes}:
                raise UsageError(f"{clause.text!r}: {clause.figure.text} has one value for the whole run; omit 'for'")


def _figure_values(comparison: Comparison, changes: Mapping[str, str]) -> dict[str, float | None]:
    """Return the figures of _OWN_UNITS in AFTER and the changes, by name. Raises UsageError.

    A figure or change is None if it is unknown. A change that is not clear is 0; a clear change from 0 is infinite.
    """
    out: dict[str, float | None] = {}
    for name in _OWN_UNITS:
        change = comparison.change(name)
        out[name] = None if change is None else change.after
    for name in changes:
        change = _change_of(comparison, name)
        if change is None or not change.is_known:
            out[name] = None
        elif not change.clear:
            out[name] = 0.0
        elif change.relative is None:
            out[name] = math.copysign(math.inf, change.difference or 0.0)
        else:
            out[name] = change.relative
    return out


def _change_of(comparison: Comparison, name: str) -> Change | None:
    """Return the Change that the figure "change.NAME" is about; None if NAME has no dot and neither run has it.

    Raises UsageError if NAME has a dot, such as disks.sda.busy_ratio, and is not compared: only some of these figures
    are compared.
    """
    figure = name.removeprefix(_CHANGE)
    if figure not in _OWN_UNITS:
        parsed = figure_of(figure)
        figure = f"{parsed.family}.{parsed.name}.{parsed.field}" if parsed.family else parsed.field
    # A comparison has the share goodput under the name compute.
    change = comparison.change({"goodput": "compute"}.get(figure, figure))
    if change is None and "." in figure:
        known = (one.name for one in comparison.changes if one.name.partition(".")[0] not in _NOT_IN_CONDITIONS)
        raise UsageError(f"the comparison has no figure {figure!r}; it has {', '.join(known) or 'none'}")
    return change


def _explained(
    outcomes: Iterable[ConditionResult], comparison: Comparison, changes: Iterable[str]
) -> tuple[ConditionResult, ...]:
    """Return the outcomes; each clause about a change that is unknown for want of readings gives this reason."""
    found = {name: _change_of(comparison, name) for name in changes}
    few = {name for name, change in found.items() if change and change.difference is not None and not change.is_known}
    return tuple(
        outcome._replace(
            clauses=tuple(
                result._replace(why="has too few readings")
                if result.clause.figure and result.clause.figure.text in few
                else result
                for result in outcome.clauses
            )
        )
        for outcome in outcomes
    )


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
