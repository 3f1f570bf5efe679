"""Values of smartctl's JSON, of any shape: missing values and those of another type are None or empty. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iotop_ai.model.clean import clean

LONGEST = 160


def get(answer: object, *path: str | int) -> Any:
    """The value at the path; None when a step is missing."""
    for key in path:
        answer = answer.get(key) if isinstance(answer, Mapping) else None
    return answer


def integer(answer: object, *path: str) -> int | None:
    """The integer at the path."""
    value = get(answer, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(answer: object, *path: str) -> str:
    """The clean text at the path, cut to LONGEST characters; "" without one."""
    value = get(answer, *path)
    return clean(value.strip(), LONGEST) if isinstance(value, str) else ""


def rows(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
