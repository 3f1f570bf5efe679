"""Finds the programs that we start, in system folders or in the user's PATH.

Root must not trust PATH, because sudo keeps part of the caller's PATH on some systems and all of it on others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

TRUSTED_FOLDERS = (
    "/usr/sbin",
    "/usr/local/sbin",
    "/sbin",
    "/usr/bin",
    "/bin",
    "/usr/local/bin",
    "/run/wrappers/bin",
    "/run/current-system/sw/bin",
)
"""The folders that are searched for a program. The last two belong to NixOS: first its setuid wrappers."""
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""The value of PATH for the system programs that we start."""


def find_program(name: str) -> str:
    """Return the absolute path of a program in a trusted folder; "" when it is not found."""
    return next(_programs(name, TRUSTED_FOLDERS), "")


def find_user_program(name: str) -> str:
    """Return the absolute path of a program in the user's PATH, or for root in a trusted folder; "" when not found.

    Relative folders in PATH are ignored.
    """
    if os.geteuid() == 0:
        return find_program(name)
    return next(programs_in_path(name), "")


def programs_in_path(name: str) -> Iterator[str]:
    """Return the absolute path of each program of this name in the user's PATH. Relative folders in PATH are ignored.

    A caller that runs as root must check the path, because another user may have set the PATH.
    """
    folders = os.environ.get("PATH", SYSTEM_PATH).split(":")
    return _programs(name, [folder for folder in folders if folder.startswith("/")])


def _programs(name: str, folders: Sequence[str]) -> Iterator[str]:
    paths = (f"{folder}/{name}" for folder in folders)
    return (path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK))
