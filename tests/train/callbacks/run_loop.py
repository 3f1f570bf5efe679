"""Runs a loop of loops.py in the environment of its framework, with the iotop-ai of this Python as its recorder."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import iotop_ai
from tests.scenarios.stacks.install import python_of

TOP = Path(iotop_ai.__file__).parent.parent
LOOPS = Path(__file__).parent / "loops.py"
LIMIT_S = 300.0
"""The time limit of one loop. Most loops need 25 s, and more when their framework is imported for the first time."""
PROGRAM = os.path.join(sysconfig.get_path("scripts"), "iotop-ai")


def run_loop(stack: str, loop: str, folder: Path, backend: str = "") -> dict[str, Any]:
    """Return what the loop printed. backend: Keras's. Raises RuntimeError if the loop fails or is not recorded."""
    environment = {
        **{name: os.environ[name] for name in ("HOME",) if name in os.environ},
        "PATH": os.defpath, "PYTHONPATH": str(TOP), "IOTOP_AI_PROGRAM": PROGRAM, "XDG_RUNTIME_DIR": str(folder),
        **({"KERAS_BACKEND": backend} if backend else {}),
    }  # fmt: skip
    found = subprocess.run(
        [python_of(stack), str(LOOPS), loop, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if found.returncode:
        raise RuntimeError(found.stderr[-3000:])
    result: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    if result["error"]:
        raise RuntimeError(result["error"])
    return result
