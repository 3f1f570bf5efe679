"""Where the program's own log lines go: nowhere, or into the file that IOTOP_AI_LOG names."""

from __future__ import annotations

import os

from iotop_ai.collectors.log import before_first_line

LOG_VARIABLE = "IOTOP_AI_LOG"


def quiet_log() -> None:
    """Keep log lines off the terminal: into the file that IOTOP_AI_LOG names, else nowhere.

    Done before the first line is logged, as long as logging is not loaded: a start does not wait for its import.
    """
    before_first_line(_quiet)


def _quiet() -> None:
    import logging

    path = os.environ.get(LOG_VARIABLE)
    handler = logging.FileHandler(path, delay=True) if path else logging.NullHandler()
    logging.getLogger("iotop_ai").addHandler(handler)
