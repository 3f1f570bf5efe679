"""Gets values from smartctl's JSON, whatever its shape. A value that is missing or of another type is None or empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iotop_ai.model.clean import clean
from iotop_ai.model.counter import known_int

LONGEST_TEXT = 160
"""The longest text that is kept, in characters."""


def get(answer: object, *path: str) -> Any:
    """Return the value at the path; None when a step of the path is missing."""
    for key in path:
        answer = answer.get(key) if isinstance(answer, Mapping) else None
    return answer


def integer(answer: object, *path: str) -> int | None:
    """Return the integer at the path; None when there is none, or when it does not fit into 64 bits."""
    value = get(answer, *path)
    return known_int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def text(answer: object, *path: str) -> str:
    """Return the text at the path without control characters, cut to LONGEST_TEXT characters; "" if there is none."""
    value = get(answer, *path)
    return clean(value.strip(), LONGEST_TEXT) if isinstance(value, str) else ""


def rows(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list; [] when the value is not a list."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
