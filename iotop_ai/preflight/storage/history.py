"""The results of earlier checks, in the file ``checks.json`` (mode 0600) of the state folder.

The format is ``{"format": 2, "storages": {"S7X1": [[1794884000, "fio", 3.1e9, 412000.0, 9100.0, 1.2e9], ...]}}``. The
keys are serial numbers (or a loop device's file, or a server's export); the key of a whole device ends in " device".
The lists hold the fields of ``model.preflight.history.Kept``, the oldest check first.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

from iotop_ai.collectors.state.folder import keep_file, read_file
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.history import Kept

FILE = "checks.json"
FORMAT = 2
MOST_STORAGES, MOST_CHECKS = 64, 12
OLDEST_S = 400 * 86_400
"""A check is dropped if it is more than this many seconds older than the newest check of its storage."""
_MOST_BYTES = 1 << 20
"""The largest file that is read."""


def read_history(folder: str, key: str) -> tuple[Kept, ...]:
    """Return the earlier checks of a storage, oldest first; () if there are none.

    Raises OSError, and ValueError for a file of another user or one that this program did not write.
    """
    return _entries(folder).get(key, ())


def keep_check(folder: str, key: str, kept: Kept) -> None:
    """Add a check to the file, and drop the oldest checks and storages beyond the limits. Raises OSError."""
    try:
        storages = _entries(folder)
    except ValueError:  # a damaged file is replaced
        storages = {}
    recent = [check for check in storages.pop(key, ()) if kept.wall_s - check.wall_s <= OLDEST_S]
    latest = dict(list(storages.items())[-(MOST_STORAGES - 1) :])
    latest[key] = (*recent, kept)[-MOST_CHECKS:]
    content = {
        "format": FORMAT,
        "storages": {name: [list(check) for check in checks] for name, checks in latest.items()},
    }
    keep_file(folder, FILE, (json.dumps(content, separators=(",", ":")) + "\n").encode())


def _entries(folder: str) -> dict[str, tuple[Kept, ...]]:
    try:
        raw = read_file(folder, FILE, _MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    if os.stat(os.path.join(folder, FILE), follow_symlinks=False).st_uid != os.geteuid():
        raise ValueError("owned by another user")
    return parse_history(raw)


def parse_history(raw: bytes) -> dict[str, tuple[Kept, ...]]:
    """Return the checks of each storage, by its key. Raises ValueError."""
    try:
        if len(raw) > _MOST_BYTES:
            raise ValueError
        content = json.loads(raw)
        if content["format"] != FORMAT or len(content["storages"]) > MOST_STORAGES:
            raise ValueError
        return {clean(key, len(key)): tuple(map(_kept, checks)) for key, checks in content["storages"].items()}
    except (RecursionError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise ValueError("not a file of this program") from None


def _kept(entry: Any) -> Kept:
    wall_s, engine, *figures = entry
    if type(wall_s) is not int or engine not in ("fio", "own") or len(figures) != len(Kept._fields) - 2:
        raise ValueError
    return Kept(wall_s, engine, *map(_figure, figures))


def _figure(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError
    return number
