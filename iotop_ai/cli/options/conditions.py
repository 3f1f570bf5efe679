"""The flag ``--fail-if EXPR``, which makes the exit code 1 if a condition is met."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from iotop_ai.model.condition.grammar import Condition, parse_condition
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.model.errors import UnknownError
from iotop_ai.present.verdict.condition_words import outcome_text


def add_fail_if_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag --fail-if, which may be repeated."""
    parser.add_argument(
        "--fail-if",
        metavar="EXPR",
        action="append",
        default=[],
        help="exit 1 if EXPR holds, 2 if this is unknown, else 0: 'data_wait > 10%%', 'finding failing_disk' "
        "(docs/conditions.md)",
    )


def conditions_of(args: argparse.Namespace, extra: Mapping[str, str] | None = None) -> list[Condition]:
    """Return the parsed conditions of --fail-if. Raises UsageError.

    extra: the units of the figures that this command has in addition to the common ones, by the figure's name.
    """
    return [parse_condition(text, extra) for text in args.fail_if]


def fail_lines(outcomes: Iterable[ConditionResult]) -> list[str]:
    """Return one line of text per condition with its outcome."""
    return [f"fail-if   {outcome_text(outcome)}" for outcome in outcomes]


def exit_code_of_conditions(outcomes: Sequence[ConditionResult]) -> int:
    """Return 1 if a condition is met, else 0.

    Raises UnknownError if no condition is met and a condition is unknown, so call this function after all output.
    """
    if any(outcome.met for outcome in outcomes):
        return 1
    for outcome in outcomes:
        if outcome.met is None:
            raise UnknownError(f"no answer to --fail-if {outcome_text(outcome)}")
    return 0
