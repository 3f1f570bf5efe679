"""A subsystem's answer with its health, and rates with their age."""

from __future__ import annotations

from enum import StrEnum

from iotop_ai.model.record import NamedTuple
from iotop_ai.model.typed import Generic, TypeVar

T = TypeVar("T")


class Status(StrEnum):
    """Why a Reading holds a value or does not."""

    OK = "ok"
    PENDING = "pending"
    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    DENIED = "denied"
    FAILED = "failed"
    ASLEEP = "asleep"
    OFF = "off"


class Reading(NamedTuple, Generic[T]):
    """What one collector knows at one moment.

    value: None exactly when nothing is known; {} is "looked and found none".
    reason: why there is no value (or what is missing from it), one clause for people.
    remedy: the exact command or step that would mend it; empty when there is none.
    at_ns: monotonic ns taken just after the read; None before the first.
    took_ns: how long the read took.
    """

    value: T | None = None
    status: Status = Status.PENDING
    reason: str = ""
    remedy: str = ""
    at_ns: int | None = None
    took_ns: int = 0


class Rated(NamedTuple, Generic[T]):
    """Rates derived from two Readings.

    value: None when unknown. at_ns: the newer Reading's own time. seconds: between the two Readings; None when
    there was no usable earlier one. renewed: False when the Reading was not read again since the Sample before,
    so that its rates are carried on (they are no new sample for a rule).
    """

    value: T | None = None
    at_ns: int | None = None
    seconds: float | None = None
    renewed: bool = False

    def age_s(self, now_ns: int) -> float | None:
        """Seconds since the Reading was taken; None before the first."""
        return None if self.at_ns is None else max(0.0, (now_ns - self.at_ns) / 1e9)
