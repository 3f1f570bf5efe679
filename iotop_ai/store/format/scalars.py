"""Checks the scalars that are read from a recording, and raises ShapeError for one that does not fit."""

from __future__ import annotations

from math import isfinite
from typing import Any

from iotop_ai.model.clean import clean

LEAST_INT, MOST_INT = -(2**63), 2**64 - 1
"""The range of the kernel's integers; a number outside it means that the file is damaged."""


class ShapeError(ValueError):
    """JSON that does not have the shape of the record; the message never quotes it."""


def checked_scalar(raw: Any) -> Any:
    """A scalar from a file: text without control characters, numbers finite and in range. Raises ShapeError."""
    kind = type(raw)
    if kind is str:
        return clean(raw)
    if kind is int and not LEAST_INT <= raw <= MOST_INT:
        raise ShapeError("a number out of range")
    if kind is float and not isfinite(raw):
        raise ShapeError("a number that is not finite")
    return raw


def checked_int(text: str) -> int:
    """An int in the spelling of ``str``, so that different texts never become the same key. Raises ValueError."""
    number = int(text)
    if str(number) != text:
        raise ShapeError("not a key")
    whole: int = checked_scalar(number)
    return whole
