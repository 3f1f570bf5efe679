"""Acknowledged findings, kept across restarts in ``acknowledged.json`` in the state folder, with mode 0600.

Each entry has the identity of the finding and its value (severity and figures) at the time of acknowledgement:
``{"format": 1, "acknowledged": {"failing_disk:S1": {"value": "critical reallocated=312", "wall_s": 1794884000}}}``.
To write the file, a new file is created and renamed over the old one.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from iotop_ai.collectors.state.folder import keep_file, open_file
from iotop_ai.model.clean import clean

if TYPE_CHECKING:
    from pathlib import Path

FILE = "acknowledged.json"
FORMAT = 1
LONGEST_IDENTITY = 200
"""The longest identity that is kept, in characters; a longer one is cut."""
_LONGEST_VALUE = 2000
"""The longest value that is kept, in characters.

A longer value is cut. A finding whose value was cut counts as worse than the acknowledged finding.
"""
MOST_ENTRIES = 256
"""The most entries that the file holds."""
_LARGEST_FILE_BYTES = 1 << 20
"""The size of the largest file that is accepted, in bytes."""


class Acknowledged:
    """Reads and writes the acknowledged findings of one state folder."""

    writes: ClassVar[int] = 0
    """How many times this program has written such a file, so that its readers notice a change at once."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = folder
        self._file = os.path.join(folder, FILE)
        self._version_read: tuple[int, int, int, int] | None = None
        """(inode, time of change, size, owner) of the file at the last read of ``changes``."""
        self._entries_read: dict[str, dict[str, Any]] = {}
        """The entries at that read, by identity."""

    @property
    def path(self) -> Path:
        """The path of the file."""
        from pathlib import Path

        return Path(self._file)

    def read(self) -> dict[str, str]:
        """Return the acknowledged values by identity.

        {} without a file. Raises OSError, and ValueError if the file belongs to another user, is too large or does not
        have this program's format.
        """
        raw = self._raw()
        return {} if raw is None else parse_acknowledged(raw)

    def _raw(self) -> bytes | None:
        try:
            opened = open_file(self._file)
        except FileNotFoundError:
            return None
        with opened as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                raise ValueError("belongs to another user")
            return file.read(_LARGEST_FILE_BYTES + 1)

    def add(self, identity: str, value: str, wall_s: int) -> None:
        """Acknowledge a finding. When there are more than ``MOST_ENTRIES`` entries, the oldest entry is removed.

        Raises OSError and ValueError.
        """
        others = [(name, entry) for name, entry in self._entries().items() if name != identity]
        self._write({**dict(others[1 - MOST_ENTRIES :]), identity: {"value": value, "wall_s": wall_s}})

    def remove(self, identity: str) -> bool:
        """Remove an acknowledgement; return whether it existed. Raises OSError and ValueError."""
        return self.remove_all((identity,))

    def remove_all(self, identities: Collection[str]) -> bool:
        """Remove these acknowledgements; return whether any existed. Raises OSError and ValueError."""
        entries = self._entries()
        kept = {name: entry for name, entry in entries.items() if name not in identities}
        if len(kept) == len(entries):
            return False
        self._write(kept)
        return True

    def changes(self) -> list[tuple[str, str | None]]:
        """Return (identity, value) of each entry that was added, changed or removed since the last call.

        The value of a removed entry is None. An entry that was acknowledged again with the same value has changed: its
        finding may have ended meanwhile.

        A file that cannot be read counts as unchanged, and the next call tries again. A file with invalid content or of
        another owner is read again only after it has changed. Without a change, the call costs one stat() of the file.
        """
        try:
            status = os.stat(self._file, follow_symlinks=False)
            version = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_uid)
        except OSError:
            version = (0, 0, 0, 0)
        if version == self._version_read:
            return []
        try:
            now = self._entries()
        except OSError:  # the file server may answer the next call
            return []
        except ValueError:
            self._version_read = version
            return []
        self._version_read = version
        before, self._entries_read = self._entries_read, now
        out: list[tuple[str, str | None]] = [
            (clean(name, LONGEST_IDENTITY), clean(entry["value"], _LONGEST_VALUE))
            for name, entry in now.items()
            if before.get(name) != entry
        ]
        return out + [(clean(name, LONGEST_IDENTITY), None) for name in before if name not in now]

    def _entries(self) -> dict[str, dict[str, Any]]:
        raw = self._raw()
        if raw is None:
            return {}
        import json

        parse_acknowledged(raw)
        return dict(json.loads(raw)["acknowledged"])

    def _write(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        import json

        text = json.dumps({"format": FORMAT, "acknowledged": entries}, indent=1) + "\n"
        keep_file(self._folder, FILE, text.encode(), lasting=True)
        Acknowledged.writes += 1


def parse_acknowledged(raw: bytes) -> dict[str, str]:
    """Return the acknowledged values by identity from the content of a file. Raises ValueError."""
    if len(raw) > _LARGEST_FILE_BYTES:
        raise ValueError("too large")
    import json

    try:
        whole = json.loads(raw)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    entries = whole.get("acknowledged") if isinstance(whole, dict) and whole.get("format") == FORMAT else None
    if not isinstance(entries, dict) or len(entries) > MOST_ENTRIES:
        raise ValueError("not a file of this program")
    out = {}
    for name, entry in entries.items():
        value = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(value, str) or " " in name:
            raise ValueError("not a file of this program")
        out[clean(name, LONGEST_IDENTITY)] = clean(value, _LONGEST_VALUE)
    return out
