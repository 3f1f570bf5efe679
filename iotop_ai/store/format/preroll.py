"""Redacts the command lines in pre-roll: snap lines from the minute before a recording, which readers do not show."""

from __future__ import annotations

import json
from typing import Any

from iotop_ai.model.process.records import ProcessInfo
from iotop_ai.store.format.json_chunks import to_line
from iotop_ai.store.format.redact import COMMAND_REDACTORS

_CMDLINE = ProcessInfo._fields.index("cmdline")


def redacted_line(line: str, level: str) -> str:
    """A snap line that has full command lines, redacted to ``level``; unchanged for the level "full"."""
    redact = COMMAND_REDACTORS.get(level)
    if redact is None or '"info":' not in line:
        return line
    raw = json.loads(line)
    table = raw["v"].get("processes", {}).get("value") or {}
    info = table.get("=", table).get("info") or {}
    entries: dict[str, Any] = info if raw.get("key") or "=" in table else info.get("+", {})
    for entry in entries.values():
        if isinstance(entry, list):
            entry[_CMDLINE] = list(redact(tuple(entry[_CMDLINE])))
        elif "cmdline" in entry:
            entry["cmdline"] = list(redact(tuple(entry["cmdline"])))
    return to_line(raw)
