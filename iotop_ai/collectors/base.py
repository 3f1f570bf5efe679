"""The interface of a collector, and the one function that turns a collector's errors into a Reading."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.clean import clean
from iotop_ai.model.reading import Reading, Status

log = logging.getLogger(__name__)

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Unavailable(Exception):  # noqa: N818 - a normal state of the machine
    """Raised when a value is missing for a normal reason.

    status: the Status that the Reading gets. reason: why the value is missing, in words. remedy: what the user can do
    to get the value; "" when there is nothing to do.
    """

    def __init__(self, status: Status, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.remedy = remedy


class Collector(Protocol[T_co]):
    """Reads one subsystem of the machine.

    field: the name of the Snapshot's field that this collector fills. every_s: the seconds between two reads; 0 to read
    in every tick (each tick makes one Snapshot). A collector may also have a method ``at_ns() -> int | None``, which
    returns the time of the value that ``read`` returned last. The time of a Reading is the value's own ``io_at_ns``, or
    else the result of ``at_ns``, or else the end of the read.
    """

    field: str
    every_s: float

    def read(self) -> T_co:
        """Return the current value.

        Raises Unavailable when the value is missing for a normal reason. An OSError for a missing file makes the
        Reading ``absent``, and one for a missing permission ``denied``. Any other exception makes it ``failed``.
        """
        ...

    def close(self) -> None:
        """Close all descriptors and end all threads and child processes."""
        ...


class FunctionCollector(Generic[T]):
    """Wraps a function as a collector, for a value that is read only when the user asks for it."""

    every_s = 0.0

    def __init__(self, field: str, read: Callable[[], T]) -> None:
        self.field = field
        self._read = read

    def read(self) -> T:
        """Return the result of the function."""
        return self._read()

    def close(self) -> None:
        """Do nothing: a function keeps nothing open."""


def take_reading(collector: Collector[T], clock: Clock, at_step_ns: int = 1, took_step_ns: int = 1) -> Reading[T]:
    """Read the collector once. An exception becomes a Reading without a value, so it does not end the monitor.

    at_step_ns: the time of the value is rounded down to a multiple of this step. took_step_ns: the duration of the read
    is rounded up to a multiple of this step. A Reading without a value is not rounded.
    """
    start = clock.monotonic_ns()
    try:
        value = collector.read()
    except Unavailable as unavailable:
        end = clock.monotonic_ns()
        return Reading(None, unavailable.status, clean(unavailable.reason), clean(unavailable.remedy), end, end - start)
    except OSError as error:
        end = clock.monotonic_ns()
        status = {errno.ENOENT: Status.ABSENT, errno.EACCES: Status.DENIED, errno.EPERM: Status.DENIED}.get(
            error.errno or 0, Status.FAILED
        )
        reason = clean(f"{error.filename or collector.field}: {error.strerror or error}")
        return Reading(None, status, reason, "", end, end - start)
    except Exception as error:  # a bug in one collector must not stop the others
        end = clock.monotonic_ns()
        log.exception("collector %s failed", collector.field)
        return Reading(None, Status.FAILED, clean(f"{type(error).__name__}: {error}"), "", end, end - start)
    end = clock.monotonic_ns()
    own_at = getattr(collector, "at_ns", None)
    at = getattr(value, "io_at_ns", None) or (own_at() if own_at is not None else None) or end
    rounded_up_took = -((start - end) // took_step_ns) * took_step_ns
    return Reading(value, Status.OK, "", "", at - at % at_step_ns, rounded_up_took)
