"""Finds the program smartctl."""

from __future__ import annotations

import os

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.programs import find_program
from iotop_ai.model.clean import clean
from iotop_ai.model.reading import Status

VARIABLE = "IOTOP_AI_SMARTCTL"


def find_smartctl(user_path: str, live: bool = True) -> str:
    """Return the absolute path of smartctl: ``user_path``, the path in IOTOP_AI_SMARTCTL, or one in a system folder.

    live: False for a captured machine, whose disks are queried only with a smartctl that the user named. Raises
    Unavailable when smartctl is not found.
    """
    user_path = user_path or os.environ.get(VARIABLE, "")
    if not user_path and not live:
        raise Unavailable(Status.ABSENT, "a captured machine's disks cannot be queried")
    if not user_path:
        if path := find_program("smartctl"):
            return path
    elif user_path.startswith("/") and os.access(user_path, os.X_OK):
        return user_path
    else:
        raise Unavailable(Status.ABSENT, clean(f"no smartctl at {user_path}"), "give smartctl's absolute path")
    raise Unavailable(Status.ABSENT, "smartctl is not installed", "apt install smartmontools")
