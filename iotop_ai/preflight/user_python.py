"""The user's own Python, which has the decoders and frameworks that this program's environment lacks."""

from __future__ import annotations

import os
from collections.abc import Mapping

from iotop_ai.collectors.io.programs import find_user_program
from iotop_ai.collectors.io.trust import invoking_user
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError

NO_PYTHON = "no Python is found; name yours with --python"
_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


def user_python(given: str | None) -> str:
    """The absolute path of the user's Python: the given one, else the active environment's or the system's; "" if none.

    Raises UsageError if the given one is not a program. Under sudo, the calling user's environment is ignored.
    """
    if given:
        path = os.path.abspath(os.path.expanduser(given))
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):
            raise UsageError(f"--python {clean(given)} is not a program")
        return path
    if invoking_user(os.environ) is None:
        for name in _ENVIRONMENTS:
            path = os.path.join(os.environ.get(name, ""), "bin/python")
            if path.startswith("/") and os.access(path, os.X_OK):
                return path
    return find_user_program("python3")


def without_user_site(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable that keeps a Python from running the modules of ~/.local at its start, as root in another user's
    environment: sudo may have kept that user's HOME. {} for all others, whose own modules belong to the answer.
    """
    return {} if invoking_user(environ) is None else {"PYTHONNOUSERSITE": "1"}
