"""The minute before a file: snap lines that build history and are not shown."""

from __future__ import annotations

import json
from typing import Any

from iotop_ai.model.process import ProcessInfo
from iotop_ai.store.pieces import to_line
from iotop_ai.store.redact import COMMANDS

SNAP = '{"k":"snap",'
_CMDLINE = ProcessInfo._fields.index("cmdline")


def marked_pre(line: str) -> str:
    """A snap line as one of the pre-roll."""
    return line if '"pre":true,' in line[:60] else line.replace(SNAP, SNAP + '"pre":true,', 1)


def redacted_line(line: str, level: str) -> str:
    """A snap line of full command lines at another level of redaction."""
    command = COMMANDS.get(level)
    if command is None or '"info":' not in line:
        return line
    raw = json.loads(line)
    table = raw["v"].get("processes", {}).get("value") or {}
    info = table.get("=", table).get("info") or {}
    entries: dict[str, Any] = info if raw.get("key") or "=" in table else info.get("+", {})
    for entry in entries.values():
        if isinstance(entry, list):
            entry[_CMDLINE] = list(command(tuple(entry[_CMDLINE])))
        elif "cmdline" in entry:
            entry["cmdline"] = list(command(tuple(entry["cmdline"])))
    return to_line(raw)
