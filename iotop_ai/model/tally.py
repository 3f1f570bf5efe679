"""What the verdict was over a stretch of time, summed so that the sums of its parts are the sums of the whole."""

from __future__ import annotations

from iotop_ai.model.finding import Finding, State
from iotop_ai.model.record import NamedTuple


class Share(NamedTuple):
    """What one finding took of the time. All in ns: integers add up the same in any order.

    finding: as it stood when it was surest, the newest of these. stood_ns: for how long it was on; lost_ns: of that,
    lost; first_ns: how long it was the verdict; led_ns: lost while it was.
    """

    finding: Finding
    stood_ns: int
    lost_ns: int
    first_ns: int
    led_ns: int


class Stretch(NamedTuple):
    """A verdict that stood for a while. wall_ns: when it began."""

    wall_ns: int
    class_id: str
    state: State
    stood_ns: int

    @property
    def seconds(self) -> float:
        """How long it stood."""
        return self.stood_ns / 1e9


class Tally(NamedTuple):
    """measuring_ns: time before a rule had seen its window; needed_s: how long the last such window is. stall_ns of
    known_ns was without data. shares: one a class and subject. stretches: the verdict's changes, oldest first.
    """

    measuring_ns: int = 0
    needed_s: float = 0.0
    stall_ns: int = 0
    known_ns: int = 0
    shares: tuple[Share, ...] = ()
    stretches: tuple[Stretch, ...] = ()
