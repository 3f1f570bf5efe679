"""Where the program's own log lines go: nowhere, or into the file that IOTOP_AI_LOG names."""

from __future__ import annotations

import logging
import os

LOG_VARIABLE = "IOTOP_AI_LOG"


def quiet_log() -> None:
    """Keep log lines off the terminal: into the file that IOTOP_AI_LOG names, else nowhere."""
    path = os.environ.get(LOG_VARIABLE)
    handler = logging.FileHandler(path, delay=True) if path else logging.NullHandler()
    logging.getLogger("iotop_ai").addHandler(handler)
