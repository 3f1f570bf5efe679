"""Runs the real program in a process of its own, or its function in this one."""

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
    """The program's argv by this Python."""
    return [sys.executable, "-m", "iotop_ai", *arguments]


def iotop(*arguments: str, timeout: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run to its end with pipes for all three streams."""
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
    """The same in this process: for tests of what it says, many of which need no start of their own."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())
