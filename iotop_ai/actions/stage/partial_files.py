"""The partial files of a copy: the incomplete files, under names of their own, in the folders of the target."""

from __future__ import annotations

import hashlib
import os

PARTIAL = ".iotop-ai-partial"


def partial_name(name: str, original: os.stat_result | None = None) -> str:
    """Return the name that a file has in its folder while it is incomplete; it is short enough for any filesystem.

    original: the stat of the original, so that only the same original continues the file; None for a link, which is
    never continued.
    """
    identity = ""
    if original is not None:
        identity = (
            f"{original.st_dev} {original.st_ino} {original.st_size} {original.st_mtime_ns} {original.st_ctime_ns}"
        )
    return f"{_prefix(name)}{_hash(identity.encode())}"


def _prefix(name: str) -> str:
    return f"{PARTIAL}-{_hash(os.fsencode(name))}-"


def _hash(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=8).hexdigest()
