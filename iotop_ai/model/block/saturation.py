"""Whether a block device is saturated: almost always busy, and slow."""

from __future__ import annotations

from iotop_ai.model.frame import Frame

SATURATED_BUSY_RATIO = 0.95
SATURATED_AWAIT_MS = 50.0
"""SMART is not read while a device reaches both values, because the command would delay the job's requests."""


def any_device_saturated(frame: Frame) -> bool:
    """Whether any device is saturated in the Frame's Sample."""
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
