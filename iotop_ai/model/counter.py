"""Arithmetic on the kernel's counters. None stands for an unknown value; no result is negative."""

from __future__ import annotations

from collections.abc import Iterable

U32 = 2**32
LEAST_INT, MOST_INT = -(2**63), 2**64 - 1
"""The range of the kernel's integers."""


def known_int(number: int | None) -> int | None:
    """The number; None if it does not fit into 64 bits, such as an NVMe's counter of 128 bits that is all ones."""
    return None if number is None or not LEAST_INT <= number <= MOST_INT else number


def delta(before: int | None, after: int | None) -> int | None:
    """The growth of a 64-bit counter; None if either value is unknown, or if the counter fell because it was reset."""
    if before is None or after is None or after < before:
        return None
    return after - before


def delta_u32(before: int | None, after: int | None) -> int | None:
    """The growth of an unsigned 32-bit counter, also when it wraps.

    A fallen value is taken for a wrap, so the caller has to rule out a reset first.
    """
    if before is None or after is None:
        return None
    return (after - before) % U32


def delta_up_to(most: int, before: int | None, after: int | None) -> int | None:
    """The growth of a counter that stops at ``most``.

    None if the earlier value is ``most``, if the counter fell, or if either value is unknown.
    """
    return None if before == most else delta(before, after)


def per_second(increase: int | float | None, seconds: float | None) -> float | None:
    """The growth per second; None when the growth is unknown or the interval is not positive."""
    if increase is None or seconds is None or seconds <= 0:
        return None
    return increase / seconds


def quotient(part: int | float | None, whole: int | float | None) -> float | None:
    """part / whole; None if either is unknown or ``whole`` is 0, such as the mean time of 0 requests."""
    if part is None or not whole:
        return None
    return part / whole


def total(*parts: int | None) -> int | None:
    """The sum of the parts; None when any part is unknown."""
    out = 0
    for part in parts:
        if part is None:
            return None
        out += part
    return out


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """The sum of the known values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
