"""Where smartctl is."""

from __future__ import annotations

import os

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.smart_commands import SMARTCTL_PATHS
from iotop_ai.model.clean import clean
from iotop_ai.model.reading import Status

VARIABLE = "IOTOP_AI_SMARTCTL"


def find_smartctl(given: str, live: bool = True) -> str:
    """smartctl's absolute path: the one given, else the environment's, else one of a fixed list. Raises Unavailable.

    live: False for a captured machine, whose disks only a smartctl that was named may stand for.
    """
    given = given or os.environ.get(VARIABLE, "")
    if not given and not live:
        raise Unavailable(Status.ABSENT, "a captured machine's disks cannot be asked")
    paths = (given,) if given else SMARTCTL_PATHS
    found = next((path for path in paths if path.startswith("/") and os.access(path, os.X_OK)), None)
    if found is not None:
        return found
    if given:
        raise Unavailable(Status.ABSENT, clean(f"no smartctl at {given}"), "give smartctl's absolute path")
    raise Unavailable(Status.ABSENT, "smartctl is not installed", "apt install smartmontools")
