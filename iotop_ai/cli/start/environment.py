"""Removes the variables that another user may have set for root, and keeps them for the command to record.

That command runs as it does without ``iotop-ai record``.
"""

from __future__ import annotations

import os

from iotop_ai.collectors.io.trust import UNTRUSTED_VARIABLES, drop_untrusted_variables

_dropped: dict[str, str] = {}
"""The variables that ``drop_variables`` has removed, with their values."""


def drop_variables() -> str:
    """Remove the variables that another user may have set; return a warning line, "" if none was removed."""
    before = {name: os.environ[name] for name in UNTRUSTED_VARIABLES if name in os.environ}
    warning = drop_untrusted_variables(os.environ)
    _dropped.update((name, value) for name, value in before.items() if name not in os.environ)
    return warning


def callers_environment() -> dict[str, str]:
    """Return the environment, including the variables that ``drop_variables`` has removed."""
    return {**_dropped, **os.environ}
