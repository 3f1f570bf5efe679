"""The verdict as lines of plain text."""

from __future__ import annotations

from iotop_ai.model.frame import Frame


def verdict_lines(frame: Frame) -> list[str]:
    """The state word."""
    return [f"verdict {frame.verdict.state}"]
