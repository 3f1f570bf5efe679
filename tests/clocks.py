"""Clocks whose time a test controls."""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock


class SetClock(Clock):
    """A clock whose monotonic time changes only when a test sets it."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def skip(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


class ShiftedClock(Clock):
    """The machine's clock, whose monotonic time a test may move ahead."""

    ahead_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.ahead_ns

    def skip(self, seconds: float) -> None:
        self.ahead_ns += int(seconds * 1e9)
