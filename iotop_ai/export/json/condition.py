"""The result of a condition as JSON."""

from __future__ import annotations

from typing import Any

from iotop_ai.export.field_names import rounded
from iotop_ai.model.condition.over_run import ConditionResult

Object = dict[str, Any]


def outcome_object(outcome: ConditionResult) -> Object:
    """The condition's text, whether it is met (null if unknown), and each clause with what was found.

    value: the figure's value in its unit; null for a finding, or if unknown. held_s: for how many seconds the clause
    has been true; given for a finding and for a clause with "for".
    """
    return {
        "condition": outcome.condition.text,
        "met": outcome.met,
        "clauses": [
            {
                "text": seen.clause.text,
                "met": seen.met,
                "name": seen.name,
                "value": rounded(seen.value),
                "unit": "" if seen.clause.figure is None else seen.clause.figure.unit,
                "held_s": round(seen.held_s, 3) if seen.clause.hold_s or seen.clause.figure is None else None,
            }
            for seen in outcome.clauses
        ],
    }
