"""Asks the user's Python about its environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.spawn import run
from iotop_ai.collectors.io.trust import invoking_user
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.environment.python import CondaPackage, Package, PythonFacts, Torch, Unmet
from iotop_ai.preflight.user_python import NO_PYTHON, last_line, without_user_site

TIMEOUT_S = 30.0
OLD_LOCK_S = 600
"""The age in seconds from which a lock is reported. A younger lock may belong to a build that is still running."""
_SOURCE = Path(__file__).with_name("python_child.py")
_PATH_VARIABLES = ("PYTHONPATH", "LD_LIBRARY_PATH")
_TEXT_FIELDS = ("version", "implementation", "machine", "libc", "prefix", "base_prefix", "start_method")


def read_python(
    python: str, folder: str, clock: Clock, environ: Mapping[str, str] = os.environ, script: str | None = None
) -> PythonFacts:
    """Return the facts that a Python reports about its environment.

    Never raises: ``error`` of the facts holds the reason for a failure. folder: the folder in which training starts.
    script: the path of the training script; None if it is unknown, and then it counts as being in ``folder``.
    """
    if not python:
        return PythonFacts("", NO_PYTHON)
    name = clean(python)
    try:
        result = run(
            [python, "-c", _SOURCE.read_text(), folder, script or ""],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            env=child_environment(environ, folder),
        )
    except subprocess.TimeoutExpired:
        return PythonFacts(name, f"it did not answer within {TIMEOUT_S:g} s")
    except OSError as error:
        return PythonFacts(name, f"it does not run: {clean(error.strerror or str(error))}")
    try:
        return parse_python(name, json.loads(last_line(result.stdout)), clock.wall_ns() // 10**9)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        if _SOURCE.read_bytes().splitlines()[0] in result.stderr:  # a program that is not a Python may print the source
            return PythonFacts(name, "it is not a Python")
        last = result.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return PythonFacts(name, f"it does not run: {clean(last, 200) or f'exit {result.returncode}'}")


def child_environment(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the variables for the child: the user's own, which decide what a training script imports.

    The relative paths of PYTHONPATH and LD_LIBRARY_PATH start from ``folder``. If root runs iotop-ai for another user
    (sudo), the variables of Python and of the dynamic linker and that user's ~/.local are left out. The child writes no
    compiled files.
    """
    out = dict(environ)
    if invoking_user(environ) is not None:
        out = {key: value for key, value in out.items() if not key.startswith(("PYTHON", "LD_"))}
    for key in _PATH_VARIABLES:
        if out.get(key):
            out[key] = ":".join(os.path.join(folder, path) for path in out[key].split(":") if path)
    return {**out, **without_user_site(environ), "PYTHONDONTWRITEBYTECODE": "1"}


def parse_python(executable: str, description: Mapping[str, Any], now_s: int) -> PythonFacts:
    """Return the facts that the child's object describes.

    Raises ValueError, TypeError, KeyError, AttributeError or OverflowError if the object is malformed.
    """
    packages = tuple(
        Package(
            **{key: _cleaned(package[key]) for key in ("name", "version", "installer", "folder", "url")},
            tags=tuple(_cleaned(tag) for tag in package["tags"]),
            editable=bool(package["editable"]),
        )
        for package in description["packages"]
    )
    unmet, locks = description["unmet"], description["locks"]
    return PythonFacts(
        executable,
        **{key: _cleaned(description[key]) for key in _TEXT_FIELDS},
        conda=bool(description["conda"]),
        managed=bool(description["managed"]),
        pip=bool(description["pip"]),
        uv=bool(description["uv"]),
        packages=packages,
        conda_packages=tuple(CondaPackage(*map(_cleaned, fields)) for fields in description["conda_packages"]),
        unmet=None if unmet is None else tuple(Unmet(*map(_cleaned, fields)) for fields in unmet),
        torches=tuple(Torch(*(_cleaned(torch[key]) for key in Torch._fields)) for torch in description["torches"]),
        numpies=tuple(map(_cleaned, description["numpies"])),
        shadows=tuple(map(_cleaned, description["shadows"])),
        locks=tuple(
            (_cleaned(name), _cleaned(path)) for name, path, made_s in locks if now_s - float(made_s) > OLD_LOCK_S
        ),
        held_locks=tuple((str(path), int(inode)) for path, inode in description["held_locks"]),
        lost_kernels=tuple((_cleaned(name), _cleaned(program)) for name, program in description["lost_kernels"]),
        libstdcxx=tuple((_cleaned(place), int(newest)) for place, newest in description["libstdcxx"]),
    )


def _cleaned(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(text)
    return clean(text)
