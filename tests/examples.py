"""The number of examples for a property whose examples take long."""

from __future__ import annotations

from hypothesis import settings

FULL = 100
"""The number with --slow, for a property without settings of its own."""


def quick_or(quick: int, full: int = FULL) -> int:
    """The ``full`` number with --slow, else the ``quick`` one."""
    return full if settings().max_examples >= FULL else quick
