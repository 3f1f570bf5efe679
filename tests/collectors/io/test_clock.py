"""The clocks of the machine."""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock


def test_the_suspended_time_is_never_negative() -> None:
    assert all(Clock().suspended_ns() >= 0 for _ in range(100))
