"""Decides when a recording with a long interval uses a short one.

The reasons are a finding above INFO that begins, and a sharp change in the rate of a disk or GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from iotop_ai.model.finding import Severity
from iotop_ai.model.frame import Frame

CALM_S = 30.0
"""After this many seconds without a reason for the short interval, the recording returns to its long interval."""
SHARP = 2.0
"""A rate above its running mean times this factor, or below its running mean divided by it, is a sharp change."""
FLOOR_BYTES_PER_S = 1 << 20
FLOOR_BUSY_RATIO = 0.1
"""A sharp change is ignored if the rate and its running mean are both below these floors: the disk or GPU is idle."""
MEAN_S = 60.0
"""The time constant of the running mean, in seconds."""


class Burst:
    """Decides whether the short interval is wanted, from the running mean of each rate and from the active findings."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}
        self._active: frozenset[tuple[str, str]] = frozenset()
        self._reason_ns: int | None = None
        """The time of the newest reason for the short interval; None before the first."""

    def wanted(self, frame: Frame) -> bool:
        """Whether the next Snapshots should be taken at the short interval."""
        now = frame.snapshot.at_ns
        if self._finding_began(frame) | self._rate_changed(frame):  # not ``or``: each call also updates its own state
            self._reason_ns = now
        return self._reason_ns is not None and now - self._reason_ns < CALM_S * 1e9

    def _finding_began(self, frame: Frame) -> bool:
        active = frozenset((f.class_id, f.subject) for f in frame.verdict.findings if f.severity is not Severity.INFO)
        began, self._active = bool(active - self._active), active
        return began

    def _rate_changed(self, frame: Frame) -> bool:
        seconds = frame.sample.seconds
        if seconds is None or frame.sample.gap:
            return False
        old_weight = max(0.0, 1 - seconds / MEAN_S)
        sharp, means = False, {}
        for name, value, floor in _rates(frame):
            mean = self._means.get(name)
            if mean is None:
                means[name] = value
                continue
            sharp |= max(value, mean) >= floor and (value > SHARP * mean or value * SHARP < mean)
            means[name] = mean * old_weight + value * (1 - old_weight)
        self._means = means
        return sharp


def _rates(frame: Frame) -> Iterator[tuple[str, float, float]]:
    """The name, value and floor of every known rate of a disk or GPU; changes below the floor are ignored."""
    for key, block in (frame.sample.block.value or {}).items():
        for direction, value in (("read", block.read_bytes_per_s), ("write", block.write_bytes_per_s)):
            if value is not None:
                yield f"{direction} {key.name} {key.diskseq}", value, FLOOR_BYTES_PER_S
    for uuid, gpu in (frame.sample.gpu.value or {}).items():
        if gpu.busy_ratio is not None:
            yield f"gpu {uuid}", gpu.busy_ratio, FLOOR_BUSY_RATIO
