"""Finds a Python with torch: this one, or the one that IOTOP_AI_TORCH_PYTHON names."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys

VARIABLE = "IOTOP_AI_TORCH_PYTHON"


@functools.cache
def torch_python() -> str:
    """Return the path of a Python that can import torch; "" if there is none."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    other = os.environ.get(VARIABLE, "")
    if not other:
        return ""
    try:
        done = subprocess.run([other, "-c", "import torch"], capture_output=True)
    except OSError:
        return ""
    return "" if done.returncode else other


def why_no_torch() -> str:
    """Return why no torch trainer can run; "" when one can."""
    return "" if torch_python() else f"needs torch (name a Python that has it in {VARIABLE})"
