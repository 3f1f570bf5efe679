"""The audit log: each line is a JSON object with an action, its user and its result.

It is the file ``audit.jsonl`` in the state folder, with mode 0600, and is only ever appended to. An action that cannot
be logged is refused.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pwd
from datetime import UTC, datetime
from pathlib import Path

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.own_file import try_lock, why_not_own_file
from iotop_ai.collectors.state.folder import open_folder, state_folder
from iotop_ai.model.clean import clean

FILE = "audit.jsonl"
LONGEST_RESULT = 300
LONGEST_TARGET = 1 << 18
"""The maximum number of characters of a result and of a target. The pids of 30,000 processes fit into a target."""


class Audit:
    """The audit log in a state folder."""

    def __init__(self, clock: Clock, folder: Path | None = None) -> None:
        self._clock = clock
        self._folder = folder or state_folder()

    @property
    def path(self) -> Path:
        """The path of the log."""
        return self._folder / FILE

    def write(self, action: str, target: str, result: str) -> None:
        """Append a line and flush it to the disk. Raises OSError.

        result: "asked" before the action, and the outcome after it.
        """
        uid = os.getuid()
        line = {
            "time": datetime.fromtimestamp(self._clock.wall_ns() / 1e9, UTC).isoformat(timespec="milliseconds"),
            "pid": os.getpid(),
            "uid": uid,
            "user": user_name(uid),
            "sudo_user": clean(os.environ.get("SUDO_USER", "")) or None,
            "action": action,
            "target": clean(target, LONGEST_TARGET),
            "result": clean(result, LONGEST_RESULT),
        }
        folder = open_folder(self._folder)
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(FILE, flags, 0o600, dir_fd=folder)
        finally:
            os.close(folder)
        if why := why_not_own_file(os.fstat(handle)):
            os.close(handle)
            raise PermissionError(errno.EPERM, why, str(self.path))
        try:
            _append(handle, json.dumps(line).encode() + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)


def _append(handle: int, line: bytes) -> None:
    """Append the whole line or nothing. Raises OSError.

    A lock keeps the lines of two monitors apart, if the filesystem has locks. A line that could be written only in part
    is removed again.
    """
    try_lock(handle, wait=True)
    before = os.fstat(handle).st_size
    written = 0
    try:
        written = os.write(handle, line)
        if written < len(line):
            # A full filesystem accepts part of the first write without an error. The second write raises the error.
            written += os.write(handle, line[written:])
        if written < len(line):
            raise OSError(errno.ENOSPC, "the line could be written only in part")
    except OSError:
        if written:
            os.ftruncate(handle, before)
        raise
    finally:
        with contextlib.suppress(OSError):  # a filesystem without locks
            fcntl.flock(handle, fcntl.LOCK_UN)


def user_name(uid: int) -> str:
    """Return the login name of a user, or the uid as text if the user has no name."""
    try:
        return clean(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return str(uid)
