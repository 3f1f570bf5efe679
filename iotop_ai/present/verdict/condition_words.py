"""The result of a condition in words: "data_wait > 10%: met: data_wait 66.8 %"."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.model.condition.figures import Figure
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.model.condition.watch import ClauseResult
from iotop_ai.present.text.units import UNKNOWN, duration, figure
from iotop_ai.present.verdict.evidence import value_with_unit

_ANSWERS = {True: "met", False: "not met", None: "unknown"}


def outcome_text(outcome: ConditionResult) -> str:
    """The condition, whether it is met, and the measurement for each of its clauses."""
    return f"{outcome.condition.text}: {_ANSWERS[outcome.met]}: {found_text(outcome.clauses)}"


def found_text(seen: Iterable[ClauseResult]) -> str:
    """The measurement for each clause: "disks.sda.busy_ratio 99.2 %"."""
    return "; ".join(map(_seen_text, seen))


def _seen_text(seen: ClauseResult) -> str:
    clause = seen.clause
    if clause.figure is None:
        if not seen.name:
            return f"{clause.finding} {'not judged' if seen.met is None else 'was not active'}"
        if not seen.met and not seen.held_s:
            return f"{seen.name} is not active"
        return f"{seen.name} was active for {duration(seen.held_s)}"
    name = _name_of(clause.figure, seen.name)
    if seen.met is None:
        return f"{name} not recorded"
    if seen.value is None and not seen.held_s:
        return f"{name}: none left"
    if not clause.hold_s:
        return f"{name} {value_text(clause.figure, seen.value)}"
    held = "never" if not seen.held_s else f"for {duration(seen.held_s)}"
    return f"{name} {clause.operator} {value_text(clause.figure, clause.value)} {held}"


def _name_of(one: Figure, name: str) -> str:
    """The figure's name with the object's name in place of the pattern: "disks.sda.busy_ratio" for
    "disks.*.busy_ratio".
    """
    return one.text if not one.family or not name or not one.name else f"{one.family}.{name}.{one.field}"


def value_text(one: Figure, value: float | None) -> str:
    """The value in the figure's unit; a ratio as a percentage."""
    if value is None:
        return UNKNOWN
    if one.unit == "ratio":
        return f"{figure(100 * value) if value >= 0 else f'{100 * value:.1f}'} %"
    return value_with_unit(value, one.unit)
