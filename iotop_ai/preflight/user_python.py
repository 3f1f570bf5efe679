"""The user's Python, which has the decoders and frameworks that this program's environment lacks."""

from __future__ import annotations

import os
from collections.abc import Mapping

from iotop_ai.collectors.io.programs import find_user_program, programs_in_path
from iotop_ai.collectors.io.root import absolute_path
from iotop_ai.collectors.io.trust import invoking_user, why_untrusted
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError

NO_PYTHON = "no Python is found; give the path of yours with --python"
_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


def user_python(given: str | None) -> str:
    """Return the absolute path of the user's Python; "" if none is found.

    It is the given path, else the active environment's Python, else python3 in the PATH. For root, a python3 in the
    PATH counts only if root alone can change it. Under sudo, the calling user's environment and PATH are ignored: only
    system folders are searched. Raises UsageError if the given path is not a program.
    """
    if given:
        path = absolute_path(os.path.expanduser(given))
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):
            raise UsageError(f"--python {clean(given)} is not a program")
        return path
    if invoking_user(os.environ) is None:
        for name in _ENVIRONMENTS:
            path = os.path.join(os.environ.get(name, ""), "bin/python")
            if path.startswith("/") and os.access(path, os.X_OK):
                return path
        if os.geteuid() == 0 and (path := next(filter(_is_trusted, programs_in_path("python3")), "")):
            return path
    return find_user_program("python3")


def _is_trusted(path: str) -> bool:
    return not why_untrusted(path)


def last_line(out: bytes) -> bytes:
    """Return the last line of a child's output, its answer. The user's sitecustomize may print lines before it."""
    return out.rstrip().rpartition(b"\n")[2]


def without_user_site(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that stops a Python from loading modules of ~/.local; {} unless root acts for another user.

    sudo may have kept that user's HOME, and root must not run the user's modules. Without sudo, the modules of
    ~/.local belong to the environment that is examined.
    """
    return {} if invoking_user(environ) is None else {"PYTHONNOUSERSITE": "1"}
