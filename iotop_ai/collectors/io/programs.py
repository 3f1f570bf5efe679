"""Finds the programs that we start, in system folders.

sudo keeps part of the caller's PATH on some systems and all of it on others, so root does not search PATH.
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
"""The last two are NixOS's, with its setuid wrappers first."""
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of system programs that we start."""


def find_program(name: str) -> str:
    """The absolute path in a trusted folder; "" when not found."""
    return _first(name, TRUSTED_FOLDERS)


def find_user_program(name: str) -> str:
    """The absolute path in the user's PATH (absolute folders only), for root in a trusted folder; "" when not found."""
    if os.geteuid() == 0:
        return find_program(name)
    path = os.environ.get("PATH", SYSTEM_PATH)
    return _first(name, tuple(folder for folder in path.split(":") if folder.startswith("/")))


def _first(name: str, folders: tuple[str, ...]) -> str:
    paths = (f"{folder}/{name}" for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")
