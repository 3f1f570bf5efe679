"""Finds a disk that is very slow or saturated. Every verdict names it, even if no job waits for it."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.block import DeviceFacts
from iotop_ai.diagnosis.facts.gather import Facts
from iotop_ai.diagnosis.facts.window import share
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.model.block.saturation import SATURATED_AWAIT_MS, SATURATED_BUSY_RATIO
from iotop_ai.model.finding import SlowDisk


def slow_disk(facts: Facts, before: SlowDisk | None) -> SlowDisk | None:
    """The slowest disk; None while the window is too short or if no disk is slow.

    In a stack of devices, the lowest slow device is named. before: the disk named so far. It stays named, even
    if another one becomes slower, until its figures are clearly below the thresholds.
    """
    if len(facts.window.samples) < facts.window.needed:
        return None
    name = "" if before is None else before.device
    slow = [device for device in facts.devices if _is_slow(device, facts.limits, stays=device.name == name)]
    worst = max(slow, key=lambda d: (not d.info.slaves, d.name == name, d.inflation or 0.0), default=None)
    if worst is None:
        return None
    return SlowDisk(
        worst.name,
        worst.info.label or worst.name,
        _await_ms(worst),
        worst.normal_ms,
        worst.busy_ratio,
        worst.read_bytes_per_s,
        worst.write_bytes_per_s,
    )


def _await_ms(device: DeviceFacts) -> float | None:
    """The larger of the mean awaits of reads and of all requests, so that a few slow reads show; None when unknown."""
    return max((ms for ms in (device.read_await_ms, device.await_ms) if ms is not None), default=None)


def _is_slow(device: DeviceFacts, limits: Thresholds, *, stays: bool) -> bool:
    await_ms, factor = _await_ms(device) or 0.0, limits.leave_level if stays else 1.0
    if await_ms < SATURATED_AWAIT_MS * factor:
        return False
    if share(device.critical) >= (limits.leave_share if stays else limits.enter_share):
        return True
    return (device.busy_ratio or 0.0) >= SATURATED_BUSY_RATIO * factor
