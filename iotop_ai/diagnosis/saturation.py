"""Whether a device is as busy as it can be, and slow with it."""

from __future__ import annotations

from iotop_ai.model.frame import Frame

SATURATED_BUSY_RATIO = 0.95
SATURATED_AWAIT_MS = 50.0
"""A device this busy and this slow is not asked for SMART: the answer would wait behind the job, and slow it."""


def saturated(frame: Frame) -> bool:
    """Whether any device is as busy as it can be and slow with it."""
    rates = frame.sample.block.value
    if rates is None:
        return False
    return any(
        r.busy_ratio is not None
        and r.await_ms is not None
        and r.busy_ratio >= SATURATED_BUSY_RATIO
        and r.await_ms >= SATURATED_AWAIT_MS
        for r in rates.values()
    )
