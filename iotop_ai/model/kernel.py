"""Compares kernel releases."""

from __future__ import annotations

from iotop_ai.lazy.regex import pattern

_RELEASE = pattern(r"(\d+)\.(\d+)")


def release_of(kernel: str) -> tuple[int, int] | None:
    """The first two numbers of a kernel's release: (5, 14) for "5.14.0-427.el9.x86_64"; None if it is unknown."""
    match = _RELEASE.match(kernel)
    return None if match is None else (int(match[1]), int(match[2]))
