"""The messages of a child process: each is a line with a JSON object that has the key "message"."""

from __future__ import annotations

import json
from typing import Any

_LONGEST_LINE = 1 << 17


class MessageReader:
    """Joins the pieces of a child's output into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, raw: bytes) -> list[dict[str, Any]]:
        """Return a message for each line that ends in ``raw``; {} for a line that is not a message.

        The beginning of an unfinished line is dropped if it is too long for a message.
        """
        *lines, self._rest = (self._rest + raw).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""
        return [parse_message(line) for line in lines]


def parse_message(line: bytes) -> dict[str, Any]:
    """Return the message in one line; {} for a line that is not a message."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) and isinstance(message.get("message"), str) else {}
