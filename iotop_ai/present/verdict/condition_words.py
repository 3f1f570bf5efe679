"""The result of a condition in words: "data_wait > 10%: met: data_wait 66.8 %"."""

from __future__ import annotations

import math
from collections.abc import Iterable

from iotop_ai.model.condition.figures import Figure
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.model.condition.watch import ClauseResult
from iotop_ai.present.text.units import UNKNOWN, duration, figure
from iotop_ai.present.verdict.evidence import value_with_unit

_ANSWERS = {True: "met", False: "not met", None: "unknown"}


def outcome_text(outcome: ConditionResult) -> str:
    """The condition, whether it is met, and the measurement for each of its clauses."""
    return f"{outcome.condition.text}: {_ANSWERS[outcome.met]}: {measurements_text(outcome.clauses)}"


def measurements_text(results: Iterable[ClauseResult]) -> str:
    """The measurements for the clauses: "disks.sda.busy_ratio 99.2 %; gpus.0.busy_ratio not recorded"."""
    return "; ".join(map(_measurement_text, results))


def _measurement_text(result: ClauseResult) -> str:
    """The measurement for one clause; for a clause about a finding, for how long the finding was active."""
    clause = result.clause
    if clause.figure is None:
        if not result.name:
            return f"{clause.finding} {'not judged' if result.met is None else 'was not active'}"
        if not result.met and not result.held_s:
            return f"{result.name} is not active"
        return f"{result.name} was active for {duration(result.held_s)}"
    name = _figure_name(clause.figure, result.name)
    if result.met is None:
        return f"{name} {result.why or 'not recorded'}"
    if result.value is None and not result.held_s:
        return f"{name}: no longer there"
    if not clause.hold_s:
        return f"{name} {value_text(clause.figure, result.value)}"
    held_text = "never" if not result.held_s else f"for {duration(result.held_s)}"
    return f"{name} {clause.operator} {value_text(clause.figure, clause.value)} {held_text}"


def _figure_name(metric: Figure, name: str) -> str:
    """The figure's name with the object's name in place of the pattern: "disks.sda.busy_ratio" for
    "disks.*.busy_ratio".
    """
    return metric.text if not metric.family or not name or not metric.name else f"{metric.family}.{name}.{metric.field}"


def value_text(metric: Figure, value: float | None) -> str:
    """The value in the figure's unit, a ratio as a percentage; "?" when unknown. A change from 0 is infinite."""
    if value is None:
        return UNKNOWN
    if math.isinf(value):
        return "up from 0" if value > 0 else "down from 0"
    if metric.unit == "ratio":
        return f"{figure(100 * value) if value >= 0 else f'{100 * value:.1f}'} %"
    return value_with_unit(value, metric.unit)
