"""The news that a child process writes: a line each, a JSON object with the key "news"."""

from __future__ import annotations

import json
from typing import Any

_LONGEST_LINE = 1 << 17


class ChildNews:
    """Puts the pieces of a child's output together."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, raw: bytes) -> list[dict[str, Any]]:
        """Return the lines that ``raw`` ends; {} for one that is not news. What is too long for a line is dropped."""
        *lines, self._rest = (self._rest + raw).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""
        return [parse_news(line) for line in lines]


def parse_news(line: bytes) -> dict[str, Any]:
    """Return the news in one line; {} for a line that is not news."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("news"), str) else {}
