"""The result of a condition as JSON."""

from __future__ import annotations

import math
from typing import Any

from iotop_ai.export.field_names import rounded
from iotop_ai.model.condition.over_run import ConditionResult

Object = dict[str, Any]


def outcome_object(outcome: ConditionResult) -> Object:
    """The condition's text, whether it is met (null if unknown), and each clause with its result.

    value: the figure's value in its unit; null for a finding, or if unknown or infinite. held_s: how many seconds the
    clause has been true; null for a clause about a figure without "for".
    """
    return {
        "condition": outcome.condition.text,
        "met": outcome.met,
        "clauses": [
            {
                "text": result.clause.text,
                "met": result.met,
                "name": result.name,
                "value": None if result.value is not None and math.isinf(result.value) else rounded(result.value),
                "unit": "" if result.clause.figure is None else result.clause.figure.unit,
                "held_s": round(result.held_s, 3) if result.clause.hold_s or result.clause.figure is None else None,
            }
            for result in outcome.clauses
        ],
    }
