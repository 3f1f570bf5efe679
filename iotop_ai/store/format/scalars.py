"""Checks the scalars that are read from a recording, and raises ShapeError for one that does not fit."""

from __future__ import annotations

from math import isfinite
from typing import Any

from iotop_ai.model.clean import clean
from iotop_ai.model.counter import LEAST_INT, MOST_INT


class ShapeError(ValueError):
    """JSON that does not have the shape of the record; the message never quotes it."""


def checked_scalar(raw: Any) -> Any:
    """A scalar from a file: text without control characters, numbers finite. Raises ShapeError.

    An integer that does not fit into 64 bits becomes the nearest that does, because one such figure, which the writer
    does not refuse, must not make the whole recording unreadable.
    """
    kind = type(raw)
    if kind is str:
        return clean(raw)
    if kind is int:
        return min(max(raw, LEAST_INT), MOST_INT)
    if kind is float and not isfinite(raw):
        raise ShapeError("a number that is not finite")
    return raw


def checked_int(text: str) -> int:
    """The int that the text spells as ``str`` would ("7", not "07"), so that two texts never become one key.

    Raises ValueError.
    """
    number = int(text)
    if str(number) != text or not LEAST_INT <= number <= MOST_INT:
        raise ShapeError("not a key")
    return number
