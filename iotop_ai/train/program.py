"""Finds the iotop-ai program for a training process, whose Python may be too old for that program."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Mapping

from iotop_ai.collectors.io.spawn import own_environment, own_python
from iotop_ai.collectors.io.trust import invoking_user, why_untrusted
from iotop_ai.model.errors import UnknownError

PROGRAM_VARIABLE = "IOTOP_AI_PROGRAM"
OLDEST_PYTHON = (3, 11)
_NAME = "iotop-ai"


def program(requested_path: str, environment: Mapping[str, str]) -> list[str]:
    """Return the command that starts iotop-ai.

    The program is ``requested_path``, else the path in IOTOP_AI_PROGRAM, else this Python with the package (if this
    Python is new enough), else the first iotop-ai in PATH and ~/.local/bin.

    Raises UnknownError if the program is not found, or if its path is not absolute or cannot be executed. As root, it
    also raises UnknownError if another user can change the program, unless root itself has named it.
    """
    path = requested_path or environment.get(PROGRAM_VARIABLE, "")
    path_is_given = bool(path)  # by root, or perhaps by the user who invoked sudo
    if not path and sys.version_info >= OLDEST_PYTHON:
        with contextlib.suppress(FileNotFoundError):  # fails in a program that embeds Python
            return own_python("iotop_ai")
    if not path:
        folders = [*environment.get("PATH", "").split(":"), os.path.expanduser("~/.local/bin")]
        candidates = (os.path.join(folder, _NAME) for folder in folders if folder.startswith("/"))
        path = next((candidate for candidate in candidates if _is_program(candidate)), "")
    if not path:
        is_old = sys.version_info < OLDEST_PYTHON
        why = "this Python is older than 3.11" if is_old else "this Python does not know its own path"
        raise UnknownError(
            f"iotop-ai is not found, and {why}: install it separately (pipx install iotop-ai) "
            f"and set {PROGRAM_VARIABLE} to its path"
        )
    if not os.path.isabs(path) or not _is_program(path):
        raise UnknownError(f"{path} is not the absolute path of a program")
    if (
        os.geteuid() == 0
        and not (path_is_given and invoking_user(environment) is None)
        and (why := why_untrusted(path))
    ):
        raise UnknownError(f"{path} is not started as root: {why}")
    return [path]


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # a folder may be executable too


def program_environment() -> dict[str, str]:
    """Return the environment of the program, without IOTOP_AI_SOCKET, which names another monitor's socket."""
    environment = own_environment(libraries=True)
    environment.pop("IOTOP_AI_SOCKET", None)
    return environment
