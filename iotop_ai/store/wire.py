"""What every part of the codec may say of JSON that it cannot take."""

from __future__ import annotations

from math import isfinite
from typing import Any

from iotop_ai.model.clean import clean

LEAST_INT, MOST_INT = -(2**63), 2**64 - 1
"""What the kernel can print. A number beyond it is damage, and fits no database and no date."""


class ShapeError(ValueError):
    """JSON that does not have the shape of the record; the message never quotes it."""


def checked(raw: Any) -> Any:
    """A scalar as it may come from a file: text made harmless, numbers finite and in range. Raises ShapeError."""
    kind = type(raw)
    if kind is str:
        return clean(raw)
    if kind is int and not LEAST_INT <= raw <= MOST_INT:
        raise ShapeError("a number out of range")
    if kind is float and not isfinite(raw):
        raise ShapeError("a number beyond all reason")
    return raw


def checked_int(text: str) -> int:
    """An int in the one spelling that ``str`` gives it, so that no two texts are one key. Raises ValueError."""
    number = int(text)
    if str(number) != text:
        raise ShapeError("no such key")
    whole: int = checked(number)
    return whole
