"""Runs the real program in a process of its own, or calls its main function in this process."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from iotop_ai.cli.main import main

TOP = Path(__file__).resolve().parents[2]
PLAIN = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "TERM": "xterm", "PYTHONDONTWRITEBYTECODE": "1"}
"""An environment without HOME."""
if "XDG_STATE_HOME" in os.environ:
    PLAIN["XDG_STATE_HOME"] = os.environ["XDG_STATE_HOME"]


def command(*arguments: str) -> list[str]:
    """The command line that runs the program with this Python."""
    return [sys.executable, "-m", "iotop_ai", *arguments]


def iotop(*arguments: str, timeout: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, with pipes as its three standard streams."""
    return subprocess.run(
        command(*arguments),
        cwd=TOP,
        env={**PLAIN, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def iotop_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program in this process, for the many tests that only check its output and need no new process."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())
