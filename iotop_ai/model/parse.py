"""Parses durations, sizes, lists of names and times that users type."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from iotop_ai.lazy.regex import pattern
from iotop_ai.model.errors import UsageError

if TYPE_CHECKING:  # datetime is slow to import and rarely needed at start-up
    from datetime import datetime, tzinfo

_DURATION = pattern(r"(\d+(?:\.\d+)?)(ms|min|s|m|h|d)?")
_DURATION_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = pattern(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b)?", re.IGNORECASE)
_SIZE_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_duration_s(text: str) -> float:
    """The seconds in "2", "0.5", "90s", "10m", "1h30m" or "7d". Raises UsageError for any other text."""
    compact = text.strip().lower()
    seconds, end = 0.0, 0
    for match in _DURATION.finditer(compact):
        if match.start() != end or (end and not match[2]):  # only a single number may lack its unit
            break
        seconds += float(match[1]) * _DURATION_UNIT[match[2] or "s"]
        end = match.end()
    if not compact or end != len(compact) or not math.isfinite(seconds * 1e9):  # also finite in ns
        raise UsageError(f"{text!r} is not a duration; write 2, 0.5, 90s, 10m or 1h30m")
    return seconds


def parse_size_bytes(text: str) -> int:
    """The bytes in "512M", "1.5G", "64k" or "100", with powers of 1024. Raises UsageError for any other text."""
    match = _SIZE.fullmatch(text.strip())
    size = math.inf if match is None else float(match[1]) * 1024 ** _SIZE_POWER[match[2].lower()]
    if not math.isfinite(size):
        raise UsageError(f"{text!r} is not a size; write 512M, 1.5G or 64k")
    return int(size)


def parse_names(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas or spaces, in order, without repeats or empty names."""
    return tuple(dict.fromkeys(part for part in re.split(r"[,\s]+", text) if part))


_CLOCK = pattern(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?")
_SHARE = pattern(r"(\d+(?:\.\d+)?)%")
_TIME_HELP = "try 14:32, -3m, +3m, 45%, start or end"
_STARTS = ("start", "begin")
_FIRST_YEAR, _LAST_YEAR = 1970, 2200


def _wall_ns(moment: datetime) -> int:
    """The Unix time of a moment in ns, exact to the microsecond."""
    return (int(moment.replace(microsecond=0).timestamp()) * 1_000_000 + moment.microsecond) * 1000


def parse_moment_ns(text: str, zone: tzinfo | None = None, *, fold: int = 0) -> int:
    """The Unix time in ns of "2026-11-21T14:32:05Z", "2026-11-21 14:32" or a date. Raises UsageError for other texts.

    zone: the time zone of a text without an offset; None for the machine's time zone
    fold: 1 for the second occurrence of a time that occurs twice, at the end of summer time
    """
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text.strip()).replace(fold=fold)
        if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
            raise ValueError
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
        return _wall_ns(moment)
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a time; write 2026-11-21T14:32:05Z or '2026-11-21 14:32'") from None


def parse_time_ns(text: str, begin_ns: int, end_ns: int, zone: tzinfo | None = None) -> int:
    """The Unix time in ns that a text names in a recording from begin_ns to end_ns. Raises UsageError for other texts.

    "14:32" and "14:32:05" mean the last such time within the recording; if there is none, the nearest one outside it.
    "-3m" is 3 minutes before the end, "+3m" 3 minutes after the beginning, and "45%" a share of the whole length.
    "start" and "begin" are the beginning of the recording, and "end" is its end. A text that ``parse_moment_ns``
    accepts is valid too. The result may be outside the recording.
    """
    typed = text.strip()
    if (word := typed.lower()) in _STARTS or word == "end":
        return begin_ns if word in _STARTS else end_ns
    if (share := _SHARE.fullmatch(typed)) is not None and float(share[1]) <= 100:
        return begin_ns + int((end_ns - begin_ns) * float(share[1]) / 100)
    if typed[:1] in "+-" and typed[1:2].isdigit():
        offset_ns = int(parse_duration_s(typed[1:]) * 1e9)
        return begin_ns + offset_ns if typed[0] == "+" else end_ns - offset_ns
    if (clock := _CLOCK.fullmatch(typed)) is not None:
        return _clock_ns(typed, clock, begin_ns, end_ns, zone)
    try:
        return parse_moment_ns(typed, zone)
    except UsageError:
        raise UsageError(f"{text!r} is not a time: {_TIME_HELP}") from None


def is_time_of_day(text: str) -> bool:
    """Whether the text is a time of day without a date, such as "14:32"."""
    return _CLOCK.fullmatch(text.strip()) is not None


def _clock_ns(text: str, clock: re.Match[str], begin_ns: int, end_ns: int, zone: tzinfo | None) -> int:
    """The Unix time in ns of a time of day: the last one in the recording, or else the nearest one outside it.

    Raises UsageError for a time such as 25:00.
    """
    from datetime import datetime, time, timedelta

    hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise UsageError(f"{text!r} is not a time of day")
    time_of_day = time(hour, minute, second, int((clock[4] or "0").ljust(6, "0")))
    first, last = (datetime.fromtimestamp(ns // 1_000_000_000, zone) for ns in (begin_ns, end_ns))
    moments_ns = []
    for day in {last.date() + timedelta(days=n) for n in (-1, 0, 1)} | {
        first.date() + timedelta(days=n) for n in (-1, 0)
    }:
        for fold in (0, 1):  # when summer time ends, one hour of the day occurs twice
            moment = datetime.combine(day, time_of_day.replace(fold=fold), zone)
            moments_ns.append(_wall_ns(moment if zone is not None else moment.astimezone()))
    within = [ns for ns in moments_ns if begin_ns <= ns <= end_ns]
    return max(within) if within else min(moments_ns, key=lambda ns: max(begin_ns - ns, ns - end_ns))
