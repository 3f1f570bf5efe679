"""Runs the real program in a process of its own, or calls its main function in this process."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys

from iotop_ai.cli.main import main
from tests.cli.forked import TOP, Run

__all__ = ["PLAIN", "TOP", "command", "iotop", "iotop_here", "iotop_started"]

PLAIN = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "TERM": "xterm", "PYTHONDONTWRITEBYTECODE": "1"}
"""An environment without HOME."""
if "XDG_STATE_HOME" in os.environ:
    PLAIN["XDG_STATE_HOME"] = os.environ["XDG_STATE_HOME"]


def command(*arguments: str) -> list[str]:
    """The command line that runs the program with this Python."""
    return [sys.executable, "-m", "iotop_ai", *arguments]


def iotop_started(*arguments: str, timeout: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Start the program as a user does, and run it to its end, with pipes as its standard output and error."""
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


def iotop(*arguments: str, timeout: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Do the same as ``iotop_started`` in a process that is forked, which costs much less."""
    run = Run(arguments, {**PLAIN, **environment})
    try:
        out, errors = run.communicate(timeout)
    except subprocess.TimeoutExpired:
        run.kill()
        raise
    return subprocess.CompletedProcess(arguments, run.wait(), out, errors)


def iotop_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program in this process, for the many tests that only check its output and need no new process."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())
