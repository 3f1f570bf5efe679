"""Whether a block device is saturated: fully busy and slow."""

from __future__ import annotations

from iotop_ai.model.frame import Frame

SATURATED_BUSY_RATIO = 0.95
SATURATED_AWAIT_MS = 50.0
"""SMART is not read while a busy device has at least this await: the command would delay the job's requests."""


def any_device_saturated(frame: Frame) -> bool:
    """Whether any device is fully busy and slow."""
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
