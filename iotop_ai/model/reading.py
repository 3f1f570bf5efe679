"""A collector's result with its status, and rates with their age."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from iotop_ai.lazy.namedtuple import NamedTuple

T = TypeVar("T")


class Status(StrEnum):
    """Whether a Reading has a value, and why not if it has none."""

    OK = "ok"
    PENDING = "pending"
    """Not read yet."""
    ABSENT = "absent"
    """This machine does not have the object."""
    UNSUPPORTED = "unsupported"
    """The kernel, the driver or the device does not report the value."""
    DENIED = "denied"
    """This user may not read the value."""
    FAILED = "failed"
    ASLEEP = "asleep"
    """The device is in standby and is not woken; a value is from an earlier read."""
    OFF = "off"
    """A setting of the monitor or of the kernel switches the value off."""


class Reading(NamedTuple, Generic[T]):
    """The result of one collector at one moment."""

    value: T | None = None
    """The value that was read; None if it is unknown, {} if there are no entries."""
    status: Status = Status.PENDING
    reason: str = ""
    """Why the value or a part of it is missing, as one clause for display."""
    remedy: str = ""
    """The exact command or step that makes the value readable; "" if there is none."""
    at_ns: int | None = None
    """The monotonic time in ns just after the read; None before the first read."""
    took_ns: int = 0
    """How long the read took, in ns."""


class Rated(NamedTuple, Generic[T]):
    """Rates computed from two Readings."""

    value: T | None = None
    """The rates; None if unknown."""
    at_ns: int | None = None
    """The time of the newer Reading, in monotonic ns."""
    seconds: float | None = None
    """The seconds between the two Readings; None without a usable earlier Reading."""
    renewed: bool = False
    """Whether a new Reading with a value was made since the previous Sample. Rules do not count repeated rates."""

    def age_s(self, now_ns: int) -> float | None:
        """The seconds since the newer Reading; None before the first Reading."""
        return None if self.at_ns is None else max(0.0, (now_ns - self.at_ns) / 1e9)
