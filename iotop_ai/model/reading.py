"""A subsystem's reading with its status, and rates with their age."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from iotop_ai.lazy.namedtuple import NamedTuple

T = TypeVar("T")


class Status(StrEnum):
    """Why a Reading has a value or lacks it."""

    OK = "ok"
    PENDING = "pending"
    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    DENIED = "denied"
    FAILED = "failed"
    ASLEEP = "asleep"
    OFF = "off"


class Reading(NamedTuple, Generic[T]):
    """The result of one collector at one moment."""

    value: T | None = None
    """None exactly when unknown; {} when the read found none."""
    status: Status = Status.PENDING
    reason: str = ""
    """Why the value, or which part of it, is missing: one clause for people."""
    remedy: str = ""
    """The exact command or step that fixes it; "" if missing."""
    at_ns: int | None = None
    """Monotonic, taken just after the read; None before the first."""
    took_ns: int = 0
    """Duration of the read."""


class Rated(NamedTuple, Generic[T]):
    """Rates derived from two Readings."""

    value: T | None = None
    """None when unknown."""
    at_ns: int | None = None
    """The newer Reading's own time."""
    seconds: float | None = None
    """Between the two Readings; None without a usable earlier one."""
    renewed: bool = False
    """False when the Reading was not read again since the previous Sample: a rule does not count the rates again."""

    def age_s(self, now_ns: int) -> float | None:
        """Seconds since the Reading was taken; None before the first."""
        return None if self.at_ns is None else max(0.0, (now_ns - self.at_ns) / 1e9)
