"""The audit log: what was done to the machine, by whom and with what result, one JSON object a line.

``audit.jsonl`` in the state folder, mode 0600, only ever appended to. An action that cannot be written is not taken.
"""

from __future__ import annotations

import json
import os
import pwd
from datetime import UTC, datetime
from pathlib import Path

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.state_folder import open_folder, state_folder
from iotop_ai.model.clean import clean

FILE = "audit.jsonl"
LONGEST_TEXT = 300


class Audit:
    """The log in one state folder."""

    def __init__(self, clock: Clock, folder: Path | None = None) -> None:
        self._clock = clock
        self._folder = folder or state_folder()

    @property
    def path(self) -> Path:
        """Where the log is."""
        return self._folder / FILE

    def write(self, action: str, target: str, result: str) -> None:
        """Append a line and flush it to the disk. result: "asked", then what came of it. Raises OSError."""
        uid = os.getuid()
        line = {
            "time": datetime.fromtimestamp(self._clock.wall_ns() / 1e9, UTC).isoformat(timespec="milliseconds"),
            "pid": os.getpid(),
            "uid": uid,
            "user": user_name(uid),
            "sudo_user": clean(os.environ.get("SUDO_USER", "")) or None,
            "action": action,
            "target": clean(target),
            "result": clean(result, LONGEST_TEXT),
        }
        folder = open_folder(self._folder)
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(FILE, flags, 0o600, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            # One write: lines of two monitors do not mix.
            os.write(handle, json.dumps(line).encode() + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)


def user_name(uid: int) -> str:
    """The login name; the number where there is none."""
    try:
        return clean(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return str(uid)
