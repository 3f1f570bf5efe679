"""The names of the parts of a rotated recording: RUN.20261121T143205.iotop.jsonl (UTC) for RUN.iotop.jsonl."""

from __future__ import annotations

import re
from datetime import datetime

TIME_FORMAT = "%Y%m%dT%H%M%S"
"""The time in the name of a part, as strftime writes it."""
_NAME = re.compile(r"(.*?)((?:\.iotop)?\.jsonl)?(?:\.gz)?", re.DOTALL)


def part_name(path: str, when: datetime) -> str:
    """The name of a part that is not packed. path: the name of the recording. when: the time for the name, in UTC."""
    stem, extension = _split(path)
    return f"{stem}.{when.strftime(TIME_FORMAT)}{extension}"


def part_pattern(path: str) -> re.Pattern[str]:
    """Matches the names of the parts of a recording, packed or not.

    The groups are the time, a number that tells apart parts of the same time (None for the first), and ".gz" (None if
    the part is not packed).
    """
    stem, extension = map(re.escape, _split(path))
    return re.compile(stem + r"\.(\d{8}T\d{6})(?:[.-](\d+))?" + extension + r"(\.gz)?")


def _split(path: str) -> tuple[str, str]:
    """The path up to its extension, and the extension without .gz; the extension may be ""."""
    match = _NAME.fullmatch(path)
    assert match is not None
    return match[1], match[2] or ""
