"""Finds the oldest Python on this machine that a training image could have."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from functools import cache

VERSIONS = ("3.8", "3.9", "3.10")
_CHECK = "import sys; print('%d.%d' % sys.version_info[:2])"


@cache
def old_python() -> str:
    """The path of a Python 3.8, or of the next newer version; "" if there is none."""
    for version in VERSIONS:
        in_path = shutil.which(f"python{version}")
        of_pyenv = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python")))
        for path in (*([in_path] if in_path else []), *of_pyenv):
            found = subprocess.run([path, "-c", _CHECK], capture_output=True, text=True, check=False)
            if found.stdout.strip() == version:  # a shim of pyenv may lead to a Python that is not installed
                return path
    return ""
