"""The partial files of a copy: incomplete files in the folders of the target, under special names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Container

from iotop_ai.collectors.io.own_file import remove_left_over

PARTIAL = ".iotop-ai-partial"
"""The beginning of the name of each partial file, and the name of the folders in which rsync keeps its own."""
_NAME = re.compile(rf"{re.escape(PARTIAL)}-[0-9a-f]{{16}}-[0-9a-f]{{16}}")


def partial_name(name: str, original: os.stat_result | None = None) -> str:
    """Return the name that a file or link has in its folder while it is incomplete. It fits into any filesystem.

    original: the stat of the original, so that a later copy continues the file only if the original is unchanged;
    None for a link, which is never continued.
    """
    identity = ""
    if original is not None:
        identity = (
            f"{original.st_dev} {original.st_ino} {original.st_size} {original.st_mtime_ns} {original.st_ctime_ns}"
        )
    return f"{_prefix(name)}{_hash(identity.encode())}"


def is_partial_name(name: str) -> bool:
    """Whether ``partial_name`` may have returned this name."""
    return _NAME.fullmatch(name) is not None


def remove_partial_files(folder: int, *, of: str | None = None, keep: Container[str] = ()) -> None:
    """Remove the partial files that interrupted runs of this user left in a folder. Raises OSError.

    A partial file that another run is writing stays, because it is locked. folder: a descriptor. of: the name of the
    file whose partial files are removed; None for all partial files. keep: names that stay.
    """
    prefix = PARTIAL if of is None else _prefix(of)
    with os.scandir(folder) as entries:
        left_over = [
            entry.name
            for entry in entries
            if entry.name.startswith(prefix)
            and is_partial_name(entry.name)
            and entry.name not in keep
            and entry.is_file(follow_symlinks=False)
        ]
    for name in left_over:
        remove_left_over(name, folder)


def _prefix(name: str) -> str:
    return f"{PARTIAL}-{_hash(os.fsencode(name))}-"


def _hash(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=8).hexdigest()
