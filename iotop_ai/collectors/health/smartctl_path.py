"""Finds smartctl."""

from __future__ import annotations

import os

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.programs import find_program
from iotop_ai.model.clean import clean
from iotop_ai.model.reading import Status

VARIABLE = "IOTOP_AI_SMARTCTL"


def find_smartctl(given: str, live: bool = True) -> str:
    """smartctl's absolute path: the one given, else the environment's, else the system's. Raises Unavailable.

    live: False for a captured machine, whose disks need an explicitly named smartctl.
    """
    given = given or os.environ.get(VARIABLE, "")
    if not given and not live:
        raise Unavailable(Status.ABSENT, "a captured machine's disks cannot be queried")
    if not given:
        if found := find_program("smartctl"):
            return found
    elif given.startswith("/") and os.access(given, os.X_OK):
        return given
    else:
        raise Unavailable(Status.ABSENT, clean(f"no smartctl at {given}"), "give smartctl's absolute path")
    raise Unavailable(Status.ABSENT, "smartctl is not installed", "apt install smartmontools")
