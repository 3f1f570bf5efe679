"""Finds the programs that we start, in system folders or in the user's PATH.

For root, PATH is not searched, because sudo keeps part of the caller's PATH on some systems and all of it on others.
"""

from __future__ import annotations

import os

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
    return _first_executable(name, TRUSTED_FOLDERS)


def find_user_program(name: str) -> str:
    """Return the absolute path of a program in the user's PATH, or for root in a trusted folder; "" when not found.

    Relative folders in PATH are ignored.
    """
    if os.geteuid() == 0:
        return find_program(name)
    path = os.environ.get("PATH", SYSTEM_PATH)
    return _first_executable(name, tuple(folder for folder in path.split(":") if folder.startswith("/")))


def _first_executable(name: str, folders: tuple[str, ...]) -> str:
    paths = (f"{folder}/{name}" for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")
