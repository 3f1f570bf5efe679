"""Clocks that a test moves."""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock


class SetClock(Clock):
    """Its monotonic time stands until a test sets it."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def skip(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


class ShiftedClock(Clock):
    """The machine's clock, whose monotonic time a test moves ahead."""

    ahead_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.ahead_ns

    def skip(self, seconds: float) -> None:
        self.ahead_ns += int(seconds * 1e9)
