"""Finds the program smartctl."""

from __future__ import annotations

import os

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.programs import find_program
from iotop_ai.model.clean import clean
from iotop_ai.model.reading import Status

VARIABLE = "IOTOP_AI_SMARTCTL"


def find_smartctl(given: str, live: bool = True) -> str:
    """Return the absolute path of smartctl: the given path, that in IOTOP_AI_SMARTCTL, or that in a system folder.

    live: False for a captured machine, whose disks are queried only with a smartctl that the user named. Raises
    Unavailable.
    """
    given = given or os.environ.get(VARIABLE, "")
    if not given and not live:
        raise Unavailable(Status.ABSENT, "a captured machine's disks cannot be queried")
    if not given:
        if path := find_program("smartctl"):
            return path
    elif given.startswith("/") and os.access(given, os.X_OK):
        return given
    else:
        raise Unavailable(Status.ABSENT, clean(f"no smartctl at {given}"), "give smartctl's absolute path")
    raise Unavailable(Status.ABSENT, "smartctl is not installed", "apt install smartmontools")
