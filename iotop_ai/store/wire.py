"""What every part of the codec may say of JSON that it cannot take."""

from __future__ import annotations


class ShapeError(ValueError):
    """JSON that does not have the shape of the record; the message never quotes it."""
