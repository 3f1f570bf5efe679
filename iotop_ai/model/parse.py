"""One parser for the durations, sizes and times that people type."""

from __future__ import annotations

import math
import re

from iotop_ai.model.errors import UsageError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h|d)?")
_DURATION_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b)?", re.IGNORECASE)
_SIZE_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_duration_s(text: str) -> float:
    """Seconds of "2", "0.5", "90s", "10m", "1h30m", "7d"; UsageError when it is none."""
    compact = text.strip().lower()
    seconds, end = 0.0, 0
    for match in _DURATION.finditer(compact):
        if match.start() != end:
            break
        seconds += float(match[1]) * _DURATION_UNIT[match[2] or "s"]
        end = match.end()
    if not compact or end != len(compact) or not math.isfinite(seconds):
        raise UsageError(f"{text!r} is no duration; write 2, 0.5, 90s, 10m or 1h30m")
    return seconds


def parse_size_bytes(text: str) -> int:
    """Bytes of "512M", "1.5G", "64k", "100"; powers of 1024; UsageError when it is none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no size; write 512M, 1.5G or 64k")
    return int(float(match[1]) * 1024 ** _SIZE_POWER[match[2].lower()])


def parse_names(text: str) -> tuple[str, ...]:
    """The names of a comma- or space-separated list, in order, without repeats and empty ones."""
    return tuple(dict.fromkeys(part for part in re.split(r"[,\s]+", text) if part))
